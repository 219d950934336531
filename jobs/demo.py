"""Run the pipeline on a synthetic corpus and a local S3 server: mine, curate, fetch, embed, judge, report.

    python -m jobs.demo

Writes some thousand rows in WIT format in a dozen languages, and pictures; starts an S3 server on the loopback
interface; runs the pipeline `century` with local models of random weights, so that the answers are meaningless; and
compares the counts with those of a plain loop over the same files. All files are in `out` (demo-out/); the report is
OUT/report.html.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jobs.errors import InputError, RunError
from jobs.runtime import cli
from jobs.runtime.config import RayConfig
from jobs.runtime.console import say
from jobs.store import locations, s3

BUCKET = "remine-demo"
MARK = ".remine-demo"  # the demo may replace a folder that has this file


@dataclass
class DemoConfig:
    """Keys of `demo`."""

    out: str = "demo-out"  # a local folder that is empty or an earlier demo's
    rows: int = 6000  # rows of the synthetic corpus
    pictures: int = 80  # pictures of the synthetic corpus
    ray: RayConfig = field(default_factory=RayConfig)


def execute(cfg: DemoConfig) -> None:
    """Run the demo; see the module's docstring.

    Raises:
        InputError: `out` cannot be used, or the corpus is too small.
        ModuleNotFoundError: a package of the extra `demo` is not installed.
        RunError: a count differs from that of the plain loop.
    """
    from jobs.testbed.loopback_s3 import LoopbackS3, server_program
    from jobs.testbed.synthetic import write_corpus

    begun = time.monotonic()
    server_program()  # without its package, end before writing anything
    folder = _empty_folder(cfg.out)
    try:
        facts = write_corpus(folder / "corpus", rows=cfg.rows, pictures=cfg.pictures)
    except ValueError as error:
        raise InputError(f"demo: {error}") from error
    say(f"demo: {facts.rows:,} rows in {len(facts.files)} WIT files, {facts.pictures} pictures: {folder}/corpus")
    say("demo: the models have RANDOM weights; their answers are meaningless")
    with LoopbackS3(folder / "s3") as server, _environment(server.environment()):
        server.create_bucket(BUCKET)
        say(f"demo: S3 server at {server.endpoint}, bucket {BUCKET}")
        _upload(folder / "corpus", f"s3://{BUCKET}/in")
        results = _pipeline(cfg)
        report = locations.read_bytes(f"s3://{BUCKET}/out/report/index.html")
        stored = locations.listing(f"s3://{BUCKET}/out")
    page = folder / "report.html"
    page.write_bytes(report)

    counts = {name: returned["counts"] for name, returned in results.items()}
    expected = {
        "rows": (facts.rows, counts["mine"]["rows_in"]),
        "title contains a term": (facts.matched, counts["mine"]["rows_out"]),
        "curated records": (facts.unique_images, counts["curate"]["rows_out"]),
        "pictures requested": (facts.unique_images, counts["fetch"]["rows_out"]),
    }
    say(f"\n{'':24}{'plain loop':>12}{'remine':>12}")
    for count, (plain, remine) in expected.items():
        say(f"{count:24}{plain:12,}{remine:12,}")
    for name in ("fetch", "embed", "judge"):
        say(f"{name + ' by status':24}{', '.join(f'{n:,} {s}' for s, n in sorted(counts[name]['status'].items()))}")
    say(f"\n{len(stored):,} objects, {sum(o.size for o in stored) / 1e6:,.1f} MB in s3://{BUCKET}/out")
    say(f"demo: {time.monotonic() - begun:.0f} s; report: {page}")
    if different := [count for count, (plain, remine) in expected.items() if plain != remine]:
        raise RunError(f"demo: {', '.join(different)}: different from a plain loop over the same files")


def _pipeline(cfg: DemoConfig) -> dict[str, dict]:
    overrides = [
        "pipeline=century",
        "profile=debug",
        f"out=s3://{BUCKET}/out",
        f"pipeline.inputs.corpus=s3://{BUCKET}/in/*.tsv.gz",
        f"pipeline.inputs.terms=s3://{BUCKET}/in/terms.csv",
        f"pipeline.inputs.pictures=s3://{BUCKET}/in/pictures",
        "pipeline.inputs.page_rule={by: page_url, methods: null}",  # for every method, as in the plain loop
        f"ray.address={cfg.ray.address or 'null'}",
        f"ray.num_cpus={cfg.ray.num_cpus or 'null'}",
        f"ray.verbose={str(cfg.ray.verbose).lower()}",
    ]
    results = cli.execute("run", overrides)
    assert isinstance(results, list)
    first: dict[str, dict] = {}
    for result in results:  # of the steps of one job the first: before pictures that do not exist are left out
        first.setdefault(result.job, result.returned)
    return first


def _empty_folder(out: str) -> Path:
    """The folder `out`, emptied if an earlier demo filled it."""
    if locations.is_s3(out):
        raise InputError(f"demo: out={out}: use a local folder; the demo starts its own S3 server")
    folder = Path(locations.absolute(out))
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARK).exists():
            raise InputError(f"demo: out={out}: not empty, and not written by an earlier demo; use another folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    return folder


def _upload(folder: Path, uri: str) -> None:
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        locations.publish(path, locations.join(uri, path.relative_to(folder).as_posix()))


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Put the server's credentials into the environment, where AWS libraries and Ray's workers find them."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    s3.forget_settings()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        s3.forget_settings()


JOB = cli.Job("demo", DemoConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("demo"))

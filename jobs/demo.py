"""The whole way on a corpus of our own: mine, curate, fetch, embed, judge, report, through a real S3 server.

    python -m jobs.demo

Makes some thousand WIT-format rows in a dozen languages with pictures, starts an S3 server on loopback, runs
the pipeline `century` with local models of random weights, and compares the counts with those of a plain loop
over the same files. Everything lies in `out` (demo-out/); the page is OUT/report.html.
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
from jobs.store import locations

BUCKET = "remine-demo"
MARK = ".remine-demo"  # a folder with this file is the demo's own and may be replaced


@dataclass
class DemoConfig:
    """Keys of `demo`."""

    out: str = "demo-out"  # a local folder of its own
    rows: int = 6000  # of the corpus that it makes
    pictures: int = 80  # that it draws
    ray: RayConfig = field(default_factory=RayConfig)


def execute(cfg: DemoConfig) -> None:
    """Run the demo; see the module's docstring.

    Raises:
        RunError: a count is not that of the plain loop.
    """
    from jobs.testbed.loopback_s3 import LoopbackS3
    from jobs.testbed.synthetic import write_corpus

    begun = time.monotonic()
    folder = _own_folder(cfg.out)
    try:
        facts = write_corpus(folder / "corpus", rows=cfg.rows, pictures=cfg.pictures)
    except ValueError as error:
        raise InputError(f"demo: {error}") from error
    say(
        f"demo: {facts.rows:,} rows in {len(facts.files)} WIT files, {facts.pictures} pictures, made in {folder}/corpus"
    )
    say("demo: models are local ones with RANDOM weights; what they answer means nothing")
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
        "pictures asked for": (facts.unique_images, counts["fetch"]["rows_out"]),
    }
    say(f"\n{'':24}{'plain loop':>12}{'remine':>12}")
    for what, (plain, ours) in expected.items():
        say(f"{what:24}{plain:12,}{ours:12,}")
    for name in ("fetch", "embed", "judge"):
        say(f"{name + ' by status':24}{', '.join(f'{n:,} {s}' for s, n in sorted(counts[name]['status'].items()))}")
    say(f"\n{len(stored):,} objects, {sum(o.size for o in stored) / 1e6:,.1f} MB in s3://{BUCKET}/out")
    say(f"demo: {time.monotonic() - begun:.0f} s; the page: {page}")
    if wrong := [what for what, (plain, ours) in expected.items() if plain != ours]:
        raise RunError(f"demo: {', '.join(wrong)}: not what a plain loop over the same files gives")


def _pipeline(cfg: DemoConfig) -> dict[str, dict]:
    overrides = [
        "pipeline=century",
        "profile=debug",
        f"out=s3://{BUCKET}/out",
        f"pipeline.inputs.corpus=s3://{BUCKET}/in/*.tsv.gz",
        f"pipeline.inputs.terms=s3://{BUCKET}/in/terms.csv",
        f"pipeline.inputs.pictures=s3://{BUCKET}/in/pictures",
        f"ray.address={cfg.ray.address or 'null'}",
        f"ray.num_cpus={cfg.ray.num_cpus or 'null'}",
        f"ray.verbose={str(cfg.ray.verbose).lower()}",
    ]
    results = cli.execute("run", overrides)
    assert isinstance(results, list)
    return {result.job: result.returned for result in results}


def _own_folder(out: str) -> Path:
    if locations.is_s3(out):
        raise InputError(f"demo: out={out}: a local folder, the demo brings its own object storage")
    folder = Path(locations.absolute(out))
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARK).exists():
            raise InputError(f"demo: out={out} is not empty and not an earlier demo; name another folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    return folder


def _upload(folder: Path, uri: str) -> None:
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        locations.publish(path, locations.join(uri, path.relative_to(folder).as_posix()))


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """The server's credentials in the environment, where the AWS chain looks; Ray's workers inherit it."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    locations.forget_settings()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        locations.forget_settings()


JOB = cli.Job("demo", DemoConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("demo"))

"""Run a pipeline on an invented world and a local S3 server: mine, curate, fetch, embed, judge, link, report.

    remine demo

Writes a few thousand rows in WIT format in a dozen languages and pictures of an invented world, for which the right
answers are computed (docs/demo.md); starts an S3 server on the loopback interface; and runs the pipeline `demo` with
two small models that come with the package and were trained on this world. Compares the counts with those of a plain
loop over the same files, and the models' answers with the right ones. All files are in `out` (demo-out/); the report is
OUT/report.html.
"""

import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from actors.rubrics.rubric import Rubric
from jobs.errors import InputError, RunError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.configuration.resources import RayConfig
from jobs.runtime.process.console import say
from jobs.store.files import locations

if TYPE_CHECKING:
    from jobs.testbed.little_world.corpus import World

BUCKET = "remine-demo"
OUT = f"s3://{BUCKET}/out"
MODELS = """\
demo: a SigLIP of 1.2 M and a Qwen2.5-VL of 1.3 M parameters, which come with the package. They were trained on pictures
demo: of an invented world (docs/demo.md): they are right about this world, and about nothing else."""
MARK = ".remine-demo"  # the demo may replace a folder that has this file


@dataclass
class DemoConfig:
    """Keys of `demo`."""

    out: str = "demo-out"  # a local folder: empty, or written by an earlier demo
    rows: int = 6000  # rows of the synthetic corpus
    pictures: int = 80  # pictures of the synthetic corpus
    ray: RayConfig = field(default_factory=RayConfig)


def execute(cfg: DemoConfig) -> None:
    """Run the demo; see the module's docstring.

    Raises:
        InputError: `out` cannot be used, or the corpus is too small.
        ModuleNotFoundError: a package of the extra `demo` is not installed.
        RunError: a count differs from that of the plain loop, or models are nearer to chance than to being right.
    """
    from jobs.testbed import loopback_s3
    from jobs.testbed.little_world import corpus
    from jobs.testbed.loopback_s3 import LoopbackS3, server_program

    begun = time.monotonic()
    server_program()  # without its package, end before writing anything
    folder = _empty_folder(cfg.out)
    world = _write_world(folder / "corpus", cfg)
    with LoopbackS3(folder / "s3") as server, loopback_s3.temporary_environment(server.environment()):
        server.create_bucket(BUCKET)
        say(f"demo: S3 server at {server.endpoint}, bucket {BUCKET}")
        locations.publish_folder(folder / "corpus", f"s3://{BUCKET}/in")
        counts = _pipeline(cfg)
        page = folder / "report.html"
        page.write_bytes(locations.read_bytes(f"{OUT}/report/index.html"))
        stored = locations.listing(OUT)
        answers = list(corpus.judged_answers(OUT, world))
    expected = corpus.row_counts(world.facts, counts)
    say(f"\n{'':24}{'plain loop':>12}{'remine':>12}")
    for count, (plain, remine) in expected.items():
        say(f"{count:24}{plain:12,}{remine:12,}")
    for name in ("fetch", "embed", "judge"):
        say(f"{name + ' by status':24}{', '.join(f'{n:,} {s}' for s, n in sorted(counts[name]['status'].items()))}")
    say(f"\n{len(stored):,} objects, {sum(o.size for o in stored) / 1e6:,.1f} MB in {OUT}")
    say(f"\n{'share of right answers':24}{'models':>12}{'chance':>12}")
    for answer in answers:
        say(str(answer))
    say(f"\ndemo: {time.monotonic() - begun:.0f} s; report: {page}")
    if different := [count for count, (plain, remine) in expected.items() if plain != remine]:
        raise RunError(
            f"demo: {', '.join(different)}: differs from a plain loop over the same files; please report this bug"
        )
    corpus.check_answers(answers)


def _write_world(folder: Path, cfg: DemoConfig) -> "World":
    from jobs.testbed.little_world.corpus import write_world

    rubric = Rubric.from_dict(yaml.safe_load((CONF / "rubric" / "century_labels.yaml").read_text(encoding="utf-8")))
    world = write_world(folder, rubric, rows=cfg.rows, pictures=cfg.pictures)
    facts = world.facts
    say(MODELS)
    say(f"demo: {facts.rows:,} rows in {len(facts.files)} WIT files, {facts.pictures} pictures: {folder}")
    return world


def _pipeline(cfg: DemoConfig) -> dict[str, dict[str, Any]]:
    """Run the pipeline and return the counts of each job's first step."""
    overrides = [
        "pipeline=demo",
        "profile=full",
        f"out={OUT}",
        f"pipeline.inputs.world=s3://{BUCKET}/in",
        f"ray.address={cfg.ray.address or 'null'}",
        f"ray.num_cpus={cfg.ray.num_cpus or 'null'}",
        f"ray.verbose={str(cfg.ray.verbose).lower()}",
    ]
    results = cli.execute("run", overrides)
    assert isinstance(results, list)
    counts: dict[str, dict[str, Any]] = {}
    for result in results:
        if "counts" in (result.returned or {}):
            counts.setdefault(result.job, result.returned["counts"])
    return counts


def _empty_folder(out: str) -> Path:
    """Return the folder `out`, emptied if an earlier demo wrote it."""
    if locations.is_s3(out):
        raise InputError("use a local folder; the demo starts its own S3 server", key="out", value=out)
    folder = Path(locations.absolute(out))
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARK).exists():
            raise InputError("not empty, and not written by an earlier demo; use another folder", key="out", value=out)
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    return folder


JOB = cli.Job("demo", DemoConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("demo"))

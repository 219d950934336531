"""Let a vision-language model answer a rubric's closed questions about pictures -> table `ratings`.

    python -m jobs.judge input=R/images records=R/records rubric=century_labels judge=qwen2.5-vl-7b out=R/ratings/qwen
    python -m jobs.judge input=R/images rubric=cultural_relevance targets=cultures.txt \\
        'judges=[qwen2.5-vl-7b,pangea-7b]' out=R/ratings

Answers are scored, not generated: the likelihood of each allowed answer, the whole distribution, the mass
outside. One row a picture, target and question. With `records`, what the rubric's prompt says about a picture
comes from its record. `input` may be a table of items, with `images` and `texts`. Another judge is another table:
nothing of the first one's is touched; `judges` makes one a judge, in folders of `out` named after them, and where one
of them fails the others are asked all the same.
"""

import io
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs import asking, cli, config, exclusions, rubrics, running
from jobs.cli import say
from jobs.errors import InputError, RunError
from jobs.rubrics import Checked, RubricConfig
from jobs.store import locations
from jobs.store.run import TableRun
from jobs.tables import conform, table


@dataclass
class JudgeConfig(RubricConfig):
    """Keys of `judge`."""

    judges: list[str] = field(default_factory=list)  # several of conf/judge, one after another, each into out/NAME
    engine: str = "auto"  # auto, cascade, batched or naive (docs/judging.md)
    budget_gb: float | None = None  # memory for what passes at once; null: half of what is free with the weights loaded
    noise: float = 0.0  # share of the rows that is scored a second time, to tell how far rounding moves answers


def execute(cfg: JudgeConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the last judge's manifest, None with plan=true.

    Raises:
        InputError: what of the configuration is wrong, before anything is written.
        RunError: the run failed; with several judges it names those that failed, once the others are done.
    """
    if not cfg.judges:
        return _judge(cfg)
    needed = ["input=i", "out=o"]
    models = [config.load("judge", JudgeConfig, [f"judge={name}", *needed]).judge for name in cfg.judges]
    names = [model.name for model in models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"judge: judges names {twice} twice")
    each = [replace(cfg, judge=model, judges=[], out=locations.join(cfg.out, model.name)) for model in models]
    for one in each if not cfg.plan else []:
        _checked(one)  # a wrong name is better known before the first model's hours
    manifest, failed = None, {}
    for one in each:
        try:
            manifest = _judge(one)
        except (InputError, RunError) as error:
            failed[one.judge.name] = error
            say(f"judge {one.judge.name} failed: {error}", err=True)
    if failed:
        wrong = all(isinstance(error, InputError) for error in failed.values()) and len(failed) == len(each)
        said = "; ".join(f"{name} ({error})" for name, error in failed.items())
        raise (InputError if wrong else RunError)(f"{len(failed)} of {len(each)} judges failed: {said}")
    return manifest


def _judge(cfg: JudgeConfig) -> dict[str, Any] | None:
    from actors.judge import Judge

    what = rubrics.asked(cfg, _checked(cfg))
    rows, kind = what.sources.items.rows, what.sources.items.name
    excluded = exclusions.read_exclusions(cfg.exclusions)
    note = f"asks {what.ratings.asked:,} answers of {cfg.judge.name} about {rows:,} {kind}"
    plan = rubrics.plan(cfg, what, excluded, {})
    run = running.begin("judge", cfg, plan, pools=["judge"], note=note)
    if run is None:
        return None
    from jobs import flow

    read = what.reading(run, excluded)
    asked = ("rubric", "layout", "max_context_tokens", "empty_context", "engine", "budget_gb", "noise")
    kwargs = {**cfg.judge.weights, **{key: getattr(cfg, key) for key in asked}, "targets": what.targets}
    kwargs["threads"] = cfg.resources.judge.threads
    flow.stream(
        run,
        name="judge",
        read=flow.Read(read, item="item_id", output_item="item_id", excluded=read.excluded),
        stages=[flow.Stage("judge", Judge, kwargs, rows_out=what.ratings.rows_out)],
        resources=cfg.resources,
    )
    manifest = running.end("judge", run)
    _show_tallies(manifest["counts"]["tallies"])
    _keep_raters(run, manifest["counts"]["tallies"].get("rater", {}), cfg.judge.rater)
    return manifest


def _checked(cfg: JudgeConfig) -> Checked:
    """What of the configuration is right (`rubrics.checked`).

    Raises:
        InputError: what of the configuration is wrong.
    """
    from actors.vlm.scoring import ENGINES

    try:
        if cfg.engine not in ENGINES:
            raise ValueError(f"engine={cfg.engine}: one of {', '.join(ENGINES)}")
        if not 0 <= cfg.noise <= 1:
            raise ValueError(f"noise={cfg.noise:g}: a share, from 0 to 1")
        asking.check_positive(cfg, ["budget_gb"])
        return rubrics.checked(cfg)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"judge: {error}") from error


def _show_tallies(tallies: Mapping[str, Mapping[str, int]]) -> None:
    tokens = tallies.get("tokens", {})
    if tokens.get("passed"):
        whole = tokens["of whole prompts"]
        fewer = whole / tokens["passed"]
        say(f"  {whole:,} tokens of whole prompts, {tokens['passed']:,} passed ({fewer:.1f} times fewer)")
    spent = tallies.get("milliseconds", {})
    if spent.get("all"):
        busy = spent.get("device", 0) / spent["all"]  # none if every picture was missing
        say(f"  device at work {busy:.0%} of {spent['all'] / 1000:,.1f} s since the first batch")
    if noise := tallies.get("noise"):
        largest = max(map(float, tallies.get("noise difference", {"0": 1})))
        failed = f", {noise['failed']:,} failed" if noise.get("failed") else ""
        say(
            f"  noise: {noise['scored again']:,} rows scored again in other company, {noise.get('flips', 0):,} flips, "
            f"largest difference of a probability {largest:.1e}{failed}"
        )


def _keep_raters(run: TableRun, described: Mapping[str, int], rater: str) -> None:
    """Table `raters` of this run beside its manifest: what ran the model, one row unless machines differed."""
    rows = []
    for number, text in enumerate(sorted(described, key=lambda d: -described[d])):
        family, revision, dtype, engine = text.split("|", 3)
        name = rater if number == 0 else f"{rater} ({number + 1})"
        facts = {"rater": name, "kind": "model", "family": family, "revision": revision}
        rows.append({**facts, "dtype": dtype, "engine": engine})
    schema = table("raters").schema()
    out = io.BytesIO()
    pq.write_table(conform(pa.Table.from_pylist(rows, schema=schema), table("raters")), out)
    run.keep("raters.parquet", out.getvalue())


JOB = cli.Job("judge", JudgeConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("judge"))

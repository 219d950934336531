"""Let a vision-language model answer a rubric's closed questions about pictures -> table `ratings`.

    python -m jobs.judge input=R/images records=R/records rubric=century_labels judge=qwen2.5-vl-7b out=R/ratings/qwen
    python -m jobs.judge input=R/images rubric=cultural_relevance targets=cultures.txt \\
        'judges=[qwen2.5-vl-7b,pangea-7b]' out=R/ratings

Answers are scored, not generated: the likelihood of each allowed answer, the whole distribution, the mass
outside. One row a picture, target and question. With `records`, what the rubric's prompt says about a picture
comes from its record. `input` may be a table of items, with `images` and `texts`. Another judge is another table:
nothing of the first one's is touched; `judges` makes one a judge, in folders of `out` named after them.
"""

import io
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from actors.vlm.rubric import Rubric, identity
from jobs import asking, cli, config, exclusions, judging, running
from jobs.asking import AskingConfig
from jobs.cli import say
from jobs.config import plain
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.reading import open_table
from jobs.store.run import Plan, TableRun
from jobs.store.units import Unit
from jobs.store.writer import Task
from jobs.tables import TABLES, conform, table


@dataclass
class JudgeConfig(AskingConfig):
    """Keys of `judge`."""

    rubric: dict[str, Any] = field(default_factory=dict)  # the questions and their closed answers
    targets: Any = None  # labels to judge against: a file with one a line, [a,b], or a list of conf/labels
    judges: list[str] = field(default_factory=list)  # several of conf/judge, one after another, each into out/NAME
    layout: str | None = None  # of the rubric; null: its default
    empty_context: str = "answer"  # of items about which nothing is said: answer without, or skip
    engine: str = "auto"  # auto, cascade, batched or naive (docs/judging.md)
    budget_gb: float | None = None  # memory for what passes at once; null: half of what is free with the weights loaded
    noise: float = 0.0  # share of the rows that is scored a second time, to tell how far rounding moves answers


@dataclass(frozen=True)
class Work:
    """What is to be judged: the units, how a unit is read, and how many ratings an item becomes.

    `sources` are the tables that the ratings depend on.
    """

    units: list[Unit]
    rows: Callable[..., pa.Table]  # of a task and `kept`, where the exclusions lie; it travels to the workers
    rows_out: int | Callable[[pa.Table], list[int]]
    asked: int
    things: str
    sources: dict[str, str | None]


def execute(cfg: JudgeConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the last judge's manifest, None with plan=true."""
    if not cfg.judges:
        return _judge(cfg)
    if twice := next((name for name in cfg.judges if cfg.judges.count(name) > 1), None):
        raise InputError(f"judge: judges names {twice} twice")
    needed = ["input=i", "out=o"]
    models = {name: config.load("judge", JudgeConfig, [f"judge={name}", *needed]).judge for name in cfg.judges}
    each = [replace(cfg, judge=models[name], judges=[], out=locations.join(cfg.out, name)) for name in cfg.judges]
    for one in each if not cfg.plan else []:
        _check(one)  # a wrong name is better known before the first model's hours
    return [_judge(one) for one in each][-1]


def _judge(cfg: JudgeConfig) -> dict[str, Any] | None:
    from actors.judge import Judge

    rubric, targets = _check(cfg)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    work = _work(cfg, rubric, targets)
    note = f"asks {work.asked:,} answers of {cfg.judge.name} ({work.things})"
    run = running.begin("judge", cfg, _plan(cfg, rubric, targets, work, excluded), pools=["judge"], note=note)
    if run is None:
        return None
    from jobs import flow

    kept = exclusions.keep(run, excluded)
    asked = ("rubric", "layout", "max_context_tokens", "empty_context", "engine", "budget_gb", "noise")
    kwargs = {**cfg.judge.weights, **{key: getattr(cfg, key) for key in asked}, "targets": targets}
    kwargs["threads"] = cfg.resources.judge.threads
    flow.stream(
        run,
        name="judge",
        read=flow.Read(partial(work.rows, kept=kept), item="item_id", output_item="item_id", excluded=kept),
        stages=[flow.Stage("judge", Judge, kwargs, rows_out=work.rows_out)],
        resources=cfg.resources,
    )
    manifest = running.end("judge", run)
    _show_tallies(manifest["counts"]["tallies"])
    _keep_raters(run, manifest["counts"]["tallies"].get("rater", {}), cfg.judge.rater)
    return manifest


def _plan(
    cfg: JudgeConfig, rubric: Rubric, targets: tuple[str, ...] | None, work: Work, excluded: frozenset[str]
) -> Plan:
    layout = rubric.resolve_layout(cfg.layout)
    return Plan(
        out=cfg.out,
        table="ratings",
        identity={
            "judge": cfg.judge.identity,
            "rubric": {"name": rubric.name, "hash": identity(rubric, layout=layout), "layout": layout},
            "max_context_tokens": cfg.max_context_tokens,
            **work.sources,
            **({"targets": list(targets)} if targets else {}),
            **({"empty_context": cfg.empty_context} if cfg.empty_context != "answer" else {}),
            **exclusions.identity(excluded),
        },
        units=work.units,
        config=plain(cfg),
        metadata={"rubric": rubric.name, "rater": cfg.judge.rater},
        derived=True,
        models={cfg.judge.name: cfg.judge.rater},
    )


def _check(cfg: JudgeConfig) -> tuple[Rubric, tuple[str, ...] | None]:
    """The rubric and the targets, if the model can be had and takes them.

    Raises:
        InputError: what of the configuration is wrong.
    """
    from actors.judge import Judge
    from actors.vlm.scoring import ENGINES

    targets = judging.read_targets(cfg.targets)
    try:
        rubric = Rubric.from_dict(cfg.rubric)
        rubric.resolve_layout(cfg.layout)
        if not (cfg.images or cfg.texts) or targets:  # items may bring targets of their own
            Judge.rows_per_item(cfg.rubric, targets)
        if cfg.engine not in ENGINES:
            raise ValueError(f"engine={cfg.engine}: one of {', '.join(ENGINES)}")
        if not 0 <= cfg.noise <= 1:
            raise ValueError(f"noise={cfg.noise:g}: a share, from 0 to 1")
        asking.check_positive(cfg, ["budget_gb"])
        asking.check(cfg, empty_context=cfg.empty_context)
    except ValueError as error:
        raise InputError(f"judge: {error}") from error
    return rubric, targets


def _work(cfg: JudgeConfig, rubric: Rubric, targets: tuple[str, ...] | None) -> Work:
    source = open_table(cfg.input, "images", "items")
    each = max(1, len(targets or rubric.targets)) * len(rubric.questions)
    if source.name == "images":
        if stray := next((key for key in ("images", "texts") if getattr(cfg, key)), None):
            raise InputError(f"judge: {stray}= belongs to a table of items; {source.uri} is one of images")
        records = open_table(cfg.records, "records") if cfg.records else None
        context = [name for name in rubric.context_fields if records and name in TABLES["records"].columns]
        if records and rubric.context_fields and not context:
            raise InputError(f"rubric {rubric.name}: no context field of it is a column of records")
        return Work(
            units=judging.joined(source, records),
            rows=partial(_pictures, context=context),
            rows_out=each,
            asked=source.rows * each,
            things=f"{source.rows:,} pictures x {each}",
            sources={"input": source.identity, "records": records.identity if records else None},
        )
    if cfg.records:
        raise InputError(f"judge: records= belongs to a table of images; {source.uri} is one of items")
    images = open_table(cfg.images, "images") if cfg.images else None
    texts = open_table(cfg.texts, "texts") if cfg.texts else None
    count = partial(
        judging.rows_of_items, questions=len(rubric.questions), targets=max(1, len(targets or rubric.targets))
    )
    own = [count(batch) for batch in source.batches(["targets"])]
    if rubric.asks_targets and not (targets or rubric.targets):
        bare = sum(not entry for batch in source.batches(["targets"]) for entry in batch["targets"].to_pylist())
        if bare:
            raise InputError(f"judge: {bare} items have no targets of their own and none are given; give targets=")
    return Work(
        units=judging.with_items(source, images, texts),
        rows=partial(
            judging.items,
            images=images.uri if images else None,
            texts=texts.uri if texts else None,
            context=rubric.context_fields,
        ),
        rows_out=count,
        asked=sum(map(sum, own)),
        things=f"{source.rows:,} items",
        sources={
            "input": source.identity,
            "images": images.identity if images else None,
            "texts": texts.identity if texts else None,
        },
    )


def _pictures(task: Task, *, context: list[str], kept: str | None) -> pa.Table:
    return judging.pictures(task, context=context)  # an item is its picture here: `flow.Read` excludes it


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

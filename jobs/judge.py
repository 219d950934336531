"""Let a vision-language model answer a rubric's closed questions about pictures -> table `ratings`.

    python -m jobs.judge input=R/images records=R/records rubric=century_labels judge=qwen2.5-vl-7b out=R/ratings/qwen

Answers are scored, not generated: the likelihood of each allowed answer, the whole distribution, the mass
outside. One row a picture, target and question. With `records`, what the rubric's prompt says about a picture
comes from its record. Another judge is another table: nothing of the first one's is touched.
"""

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from omegaconf import MISSING

from actors.vlm.rubric import Rubric, identity
from jobs import cli, exclusions, screen
from jobs.config import Common, plain
from jobs.errors import InputError
from jobs.store.reading import TableSource, open_table, read_unit
from jobs.store.run import Plan, open_run
from jobs.store.units import Unit
from jobs.store.writer import Task
from jobs.tables import TABLES


@dataclass
class JudgeModelConfig:
    """Which model judges; `conf/judge/` has named ones."""

    name: str = MISSING
    model: str = MISSING  # hub name, folder or local:NAME
    revision: str | None = None
    dtype: str = "auto"
    device_map: str = "auto"  # accelerate's: auto spreads a model that is larger than one GPU
    memory_gb: float | None = None  # what the weights need, for the plan
    licence: str | None = None


@dataclass
class JudgeConfig(Common):
    """Keys of `judge`."""

    input: str = MISSING
    records: str | None = None
    rubric: dict[str, Any] = field(default_factory=dict)
    judge: JudgeModelConfig = field(default_factory=JudgeModelConfig)
    layout: str | None = None  # of the rubric; null: its default
    max_context_tokens: int = 8192  # a longer context is cut and its rows are truncated


def execute(cfg: JudgeConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    from actors.judge import Judge
    from actors.vlm.loading import check_vlm, rater_name

    try:
        rubric = Rubric.from_dict(cfg.rubric)
        rows_per_item = Judge.rows_per_item(cfg.rubric)
        layout = rubric.resolve_layout(cfg.layout)
        if not cfg.plan:
            check_vlm(cfg.judge.model, revision=cfg.judge.revision)
    except ValueError as error:
        raise InputError(f"judge: {error}") from error
    images = open_table(cfg.input, "images")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    records = open_table(cfg.records, "records") if cfg.records else None
    if records and (unknown := [f for f in rubric.context_fields if f not in TABLES["records"].columns]):
        raise InputError(f"rubric {rubric.name}: context field {unknown[0]} is no column of records")
    rater = rater_name(cfg.judge.model, revision=cfg.judge.revision)
    plan = Plan(
        out=cfg.out,
        table="ratings",
        identity={
            "judge": {"model": cfg.judge.model, "revision": cfg.judge.revision, "dtype": cfg.judge.dtype},
            "rubric": {"name": rubric.name, "hash": identity(rubric, layout=layout), "layout": layout},
            "max_context_tokens": cfg.max_context_tokens,
            "input": images.identity,
            "records": records.identity if records else None,
            **exclusions.identity(excluded),
        },
        units=joined(images, records),
        config=plain(cfg),
        metadata={"rubric": rubric.name, "rater": rater},
        derived=True,
        models={cfg.judge.name: rater},
    )
    asked = images.rows * rows_per_item
    if cfg.plan:
        note = f"asks {asked:,} answers ({images.rows:,} pictures x {rows_per_item})"
        screen.show_plan("judge", plan, cfg.resources, ["judge"], note=note)
        return None
    from jobs import flow, session

    session.start(cfg.ray, cfg.resources)
    flow.check(cfg.resources, ["judge"])
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    kwargs = {
        "model": cfg.judge.model,
        "revision": cfg.judge.revision,
        "dtype": cfg.judge.dtype,
        "device_map": cfg.judge.device_map,
        "rubric": cfg.rubric,
        "layout": cfg.layout,
        "max_context_tokens": cfg.max_context_tokens,
        "threads": cfg.resources.judge.threads,
    }
    flow.stream(
        run,
        name="judge",
        read=flow.Read(
            partial(items, context=rubric.context_fields if records else ()),
            item="item_id",
            output_item="item_id",
            excluded=exclusions.keep(run, excluded),
        ),
        stages=[flow.Stage("judge", Judge, kwargs, rows_out=rows_per_item)],
        resources=cfg.resources,
    )
    manifest = run.finish()
    screen.show_result("judge", manifest, run)
    return manifest


def joined(images: TableSource, records: TableSource | None) -> list[Unit]:
    """The units of `images`, each with the records' object of the same unit as second input.

    Raises:
        InputError: the pictures were not fetched for these records.
    """
    if records is None:
        return images.units()
    there = records.by_unit()
    units = []
    for unit in images.units():
        if unit.name not in there:
            raise InputError(f"{images.uri} was not fetched for {records.uri}: no unit {unit.name} there")
        units.append(Unit(unit.name, (*unit.inputs, there[unit.name]), rows=unit.rows))
    return units


def items(task: Task, *, context: tuple[str, ...]) -> pa.Table:
    """A unit's pictures with their records' context columns, joined by image_id."""
    pictures = read_unit(task.unit.inputs[0].uri, columns=["image_id", "bytes", "status"])
    pictures = pictures.rename_columns(["item_id", "bytes", "status"])
    if not context:
        return pictures
    about = read_unit(task.unit.inputs[1].uri, columns=["image_id", *context])
    place = {image: i for i, image in enumerate(about["image_id"].to_pylist())}
    order = pa.array([place.get(item) for item in pictures["item_id"].to_pylist()], pa.int64())
    for name in context:
        pictures = pictures.append_column(name, about[name].take(order))
    return pictures


JOB = cli.Job("judge", JudgeConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("judge"))

"""A run in which a model answers about items: its plan, its stages, and what every such run prints and stores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from jobs.judging import kept_raters
from jobs.judging.settings import ModelRunConfig
from jobs.models import picture_tokens
from jobs.runtime import lifecycle
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.runtime.stage_contract import Stage
from jobs.store.runs.table_run import TableRun
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask


def model_plan(
    cfg: ModelRunConfig,
    table: str,
    identity: Mapping[str, Any],
    *,
    units: Sequence[Unit],
    metadata: Mapping[str, str],
    files: Mapping[str, bytes] | None = None,
) -> TablePlan:
    """Return the plan of the table at `out=`, whose rows a model writes.

    Args:
        identity: what changes the rows besides the model.
        units, metadata, files: as in `jobs.store.table_plan.TablePlan`.
    """
    return TablePlan(
        out=cfg.out,
        table=table,
        identity={"model": cfg.model.identity, **identity},
        units=units,
        config=asdict(cfg),
        metadata=dict(metadata),
        derived=True,
        models={cfg.model.name: cfg.model.rater},
        files=files or {},
    )


def stream_items(
    run: TableRun,
    cfg: ModelRunConfig,
    *,
    job: str,
    reader: Callable[[UnitTask], pa.Table],
    stages: Sequence[Stage],
    excluded: Exclusions,
) -> dict[str, Any]:
    """Pass the items of the remaining units through the stages, close the run, and store facts about the model.

    Returns the manifest.

    Raises:
        RunError: a unit was not written, or the counts do not balance.
    """
    from jobs.runtime import stages as ray_stages

    read = ray_stages.Read(reader, item="item_id", output_item="item_id", excluded=exclusions.keep(run, excluded))
    ray_stages.stream(run, name=job, read=read, stages=stages, resources=cfg.resources)
    manifest = lifecycle.end(job, run, excluded)
    tallies = manifest["counts"]["tallies"]
    picture_tokens.show_counted(cfg.model, tallies)
    kept_raters.keep(run, kept_raters.of_model(cfg.model, tallies))
    return manifest

"""Start and finish of a job that uses Ray: print the plan or open the run; close it and print the result."""

from collections.abc import Sequence
from typing import Any

from jobs.errors import InputError
from jobs.runtime import ray_session, summary, timings
from jobs.runtime.config import Common, FailingRows, ReadingRows
from jobs.runtime.console import say
from jobs.runtime.exclusions import TALLY, Exclusions
from jobs.runtime.resources import Demand, demands
from jobs.store.limits import limited
from jobs.store.run import TablePlan, TableRun, check_place, open_run


def begin(
    name: str,
    cfg: Common,
    plan: TablePlan,
    *,
    pools: Sequence[str],
    note: str = "",
    lines: Sequence[str] = (),
    streamed: bool = True,
) -> TableRun | None:
    """Start Ray, check that the cluster is large enough, and open the run; with plan=true print the plan, return None.

    With `limit=` the run has the plan's first rows only.

    Args:
        pools: the stages' pools, in the order of the resources.
        note: the amount of work, for the printed plan.
        lines: further lines of the printed plan.
        streamed: units go through `stages.stream`, not `stages.process`.

    Raises:
        InputError: the place `out=` cannot be used, or there is no cluster, or it is too small.
    """
    if isinstance(cfg, FailingRows) and not 0 <= cfg.max_error_share <= 1:
        raise InputError(f"max_error_share={cfg.max_error_share:g}: must be from 0 to 1 (1 never stops)")
    if isinstance(cfg, ReadingRows):
        plan = limited(plan, cfg.limit)
    timings.DRIVER.mark("checks of keys, models and inputs")
    needs = demands(cfg.resources, list(pools), streamed=streamed)
    if cfg.plan:
        summary.show_plan(name, plan, needs, note=note, lines=lines, resources=cfg.resources)
        return None
    ready(cfg, [plan], needs)
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    timings.DRIVER.mark("opening the table")
    return run


def ready(cfg: Common, plans: Sequence[TablePlan], needs: Sequence[Demand]) -> None:
    """Start or join Ray for `plans`; the checks that need no cluster come first, before Ray is imported.

    Args:
        needs: the minimum that all stages need together.

    Raises:
        InputError: the place `out=` cannot be used, or there is no cluster, or it is too small.
    """
    for plan in plans:
        check_place(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    ray_session.start(cfg.ray, cfg.resources, needs)
    timings.DRIVER.mark("Ray")


def end(name: str, run: TableRun, excluded: Exclusions) -> dict[str, Any]:
    """Close a run whose units are done, and print the result; returns the manifest."""
    timings.DRIVER.mark("stages")
    manifest = run.finish()
    timings.DRIVER.mark("manifest")
    summary.show_result(name, manifest, run)
    summary.show_exclusions(excluded, manifest["counts"]["tallies"].get(TALLY, {}))
    if run.plan.config.get("timings"):
        for line in timings.DRIVER.take_lines():
            say(f"  {line}")
    return manifest

"""How jobs that use Ray begin and end: show the plan or open the run; close it and show the result."""

from collections.abc import Sequence
from typing import Any

from jobs.runtime import ray_session, summary
from jobs.runtime.config import Common
from jobs.runtime.exclusions import TALLY, Exclusions
from jobs.runtime.resources import Demand, demands
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
    """Open the run of `plan` with Ray up and the cluster large enough; with plan=true show the plan and return None.

    Args:
        pools: the stages' pools, in the order of the resources.
        note: what it reads, asks or writes, for the shown plan.
        lines: further lines of the shown plan.
        streamed: units go through `flow.stream`, not `flow.process`.

    Raises:
        InputError: what lies at `out=` is in the way, or there is no cluster, or it is too small.
    """
    needs = demands(cfg.resources, list(pools), streamed=streamed)
    if cfg.plan:
        summary.show_plan(name, plan, needs, note=note, lines=lines)
        return None
    ready(cfg, [plan], needs)
    return open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)


def ready(cfg: Common, plans: Sequence[TablePlan], needs: Sequence[Demand]) -> None:
    """Have Ray up for `plans`. What can be refused without a cluster is refused before Ray is imported.

    Args:
        needs: what the stages need at least, all of them together.

    Raises:
        InputError: what lies at `out=` is in the way, or there is no cluster, or it is too small.
    """
    for plan in plans:
        check_place(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    ray_session.start(cfg.ray, cfg.resources, needs)


def end(name: str, run: TableRun, excluded: Exclusions) -> dict[str, Any]:
    """Close a run whose units are done; shows the result and returns the manifest."""
    manifest = run.finish()
    summary.show_result(name, manifest, run)
    summary.show_exclusions(excluded, manifest["counts"]["tallies"].get(TALLY, {}))
    return manifest

"""The beginning and the end that jobs of actors share: tell what would be done or open the run, and tell what was."""

from collections.abc import Sequence
from typing import Any

from jobs import screen
from jobs.config import Common
from jobs.resources import demands
from jobs.store.run import Plan, TableRun, open_run


def begin(
    name: str, cfg: Common, plan: Plan, *, pools: Sequence[str], note: str = "", streamed: bool = True
) -> TableRun | None:
    """The run of `plan` with Ray up and the cluster large enough; with plan=true what it would do is shown: None.

    Args:
        pools: the stages' pools, in the order of the resources.
        note: what it reads, asks or writes, for the shown plan.
        streamed: units go through `flow.stream`, not `flow.process`.

    Raises:
        InputError: no cluster, too small a cluster, or what lies at `out=` is in the way.
    """
    if cfg.plan:
        screen.show_plan(name, plan, demands(cfg.resources, list(pools), streamed=streamed), note=note)
        return None
    from jobs import flow, session

    session.start(cfg.ray, cfg.resources)
    flow.check(cfg.resources, list(pools), streamed=streamed)
    return open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)


def end(name: str, run: TableRun) -> dict[str, Any]:
    """Close a run whose units are done; shows the result and returns the manifest."""
    manifest = run.finish()
    screen.show_result(name, manifest, run)
    return manifest

"""Start and end of a job that uses Ray: print the plan or open the run; close the run and print the result."""

import functools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from jobs.errors import InputError
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.config import CALIBRATE, Common, FailingRows, ReadingRows, check_plan
from jobs.runtime.configuration.resources import Demand, StageResources
from jobs.runtime.planning import summary
from jobs.runtime.planning.expected_pace import Work
from jobs.runtime.planning.prospects import prospect
from jobs.runtime.process import timings
from jobs.runtime.selection.exclusions import TALLY, Exclusions
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.runs.table_run import TableRun, check_place
from jobs.store.table_plan import TablePlan, limited

LEAST_TRIED, TRIED_PER_ACTOR = 6, 3  # units of plan=calibrate; with one per actor, all would end at the same time

_shown_after: WeakKeyDictionary[TableRun, Callable[[], None]] = WeakKeyDictionary()  # the plans of plan=calibrate


def begin(
    name: str,
    cfg: Common,
    plan: TablePlan,
    *,
    pools: Sequence[str],
    note: str = "",
    lines: Sequence[str] = (),
    streamed: bool = True,
    calibrates: bool = True,
    work: Work | None = None,
    get_bytes: int | None = None,
) -> TableRun | None:
    """Start Ray, check that the cluster is large enough, and open the run; with plan=true print the plan, return None.

    With `limit=` the run has only the first rows of the plan. With plan=calibrate it has only some units, after which
    `end` prints the plan.

    Args:
        pools: the stages' pools, in the order of the resources.
        note: the amount of work, for the printed plan.
        lines: additional lines of the printed plan.
        streamed: units go through `stages.stream` rather than `stages.process`.
        calibrates: some of the units can be processed alone.
        work: the amount of work per row, if rows differ in work.
        get_bytes: the bytes of an input that a request reads; None if a unit reads its inputs with few requests.

    Raises:
        InputError: `out=` cannot be used, the cluster does not answer or is too small, or plan= has a value that is not
            allowed.
    """
    check_plan(cfg.plan, calibrates=calibrates)
    if isinstance(cfg, FailingRows) and not 0 <= cfg.max_error_share <= 1:
        raise InputError(f"max_error_share={cfg.max_error_share:g}: must be from 0 to 1 (1 never stops)")
    if isinstance(cfg, ReadingRows):
        plan = limited(plan, cfg.limit)
    timings.DRIVER.mark("checks of keys, models and inputs")
    expected = prospect(
        name, cfg, plan, pools=pools, streamed=streamed, calibrates=calibrates, work=work, get_bytes=get_bytes
    )
    show = functools.partial(expected.show, note=note, lines=lines)
    if cfg.only_plans:
        show()
        return None
    check_place(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    run = expected.open() if _is_complete(cfg, plan) else None
    if run is None or run.todo:  # units may have been removed in the meantime
        ray_session.start(cfg.ray, cfg.resources, expected.needs)
        timings.DRIVER.mark("Ray")
    run = run or expected.open()
    if cfg.plan == CALIBRATE:
        last: StageResources = getattr(cfg.resources, pools[-1])
        run.try_some(max(LEAST_TRIED, TRIED_PER_ACTOR * last.most_actors))
        _shown_after[run] = functools.partial(show, overwrite=False)
    timings.DRIVER.mark("opening the table")
    return run


def _is_complete(cfg: Common, plan: TablePlan) -> bool:
    """Return whether the table was complete when its last run ended: Ray is not needed if it still is."""
    if cfg.overwrite or cfg.retry:
        return False
    return bool(run_files.kept_manifest(locations.absolute(plan.out)).get("complete"))


def ready(cfg: Common, plans: Sequence[TablePlan], needs: Sequence[Demand]) -> None:
    """Start or join Ray for `plans`; the checks that need no cluster come first, before Ray is imported.

    Args:
        needs: the minimum that each stage needs.

    Raises:
        InputError: `out=` cannot be used, or the cluster does not answer or is too small.
    """
    for plan in plans:
        check_place(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    ray_session.start(cfg.ray, cfg.resources, needs)
    timings.DRIVER.mark("Ray")


def end(name: str, run: TableRun, excluded: Exclusions) -> dict[str, Any]:
    """Close a run whose units are done, print the result and, with plan=calibrate, the plan; return the manifest."""
    timings.DRIVER.mark("stages")
    manifest = run.finish()
    timings.DRIVER.mark("manifest")
    summary.show_result(name, manifest, run)
    summary.show_exclusions(excluded, manifest["counts"]["tallies"].get(TALLY, {}))
    if show_plan := _shown_after.pop(run, None):
        show_plan()
    return manifest

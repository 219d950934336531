"""Start and end of a job that uses Ray: return the plan or open the run; close the run and return its manifest."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobs.errors import InputError
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.config import CALIBRATE, Common, FailingRows, ReadingRows, check_plan
from jobs.runtime.configuration.resources import StageResources
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.planning.expected_pace import Passes, Work
from jobs.runtime.planning.prospects import Prospect, prospect
from jobs.runtime.process import timings
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.runs.table_run import TableRun, check_place
from jobs.store.table_plan import TablePlan, limited

LEAST_TRIED, TRIED_PER_ACTOR = 6, 3  # units of plan=calibrate; with one per actor, all would end at the same time


@dataclass(frozen=True)
class JobRun:
    """A run that has been opened.

    Attributes:
        name: the name of the job.
        table: the table that it writes.
        exclusions: the list of exclusions.
        excluded: the location of this list in the table's `_run/` folder, for workers; None without a list.
        plan_of_rest: with plan=calibrate, returns the plan of what is left to do.
    """

    name: str
    table: TableRun
    exclusions: Exclusions
    excluded: str | None
    plan_of_rest: Callable[[], Plan] | None = None

    def end(self) -> Manifest:
        """Close the run, whose units are done, and return its manifest."""
        timings.DRIVER.mark("stages")
        manifest = summary.closed(self.name, self.table, self.exclusions)
        timings.DRIVER.mark("manifest")
        if self.plan_of_rest is not None:
            rest = self.plan_of_rest()
            manifest.lines += rest.lines
            manifest.planned = rest.planned
        return manifest


def begin(
    name: str,
    cfg: Common,
    plan: TablePlan,
    excluded: Exclusions,
    *,
    pools: Sequence[str],
    note: str = "",
    lines: Sequence[str] = (),
    streamed: bool = True,
    calibrates: bool = True,
    work: Work | None = None,
    get_bytes: int | None = None,
    passes: Callable[[], Passes | None] | None = None,
) -> JobRun | Plan:
    """Start Ray, check that the cluster is large enough, and open the run; with plan=true return the plan.

    With `limit=` the run has only the first rows of the plan. With plan=calibrate it has only some units, after which
    the manifest has the plan of the others.

    Args:
        pools: the stages' pools, in the order of the resources.
        note: the amount of work, for the plan.
        lines: additional lines of the plan.
        streamed: units go through `stages.stream` rather than `stages.process`.
        calibrates: some of the units can be processed alone.
        work: the amount of work per row, if rows differ in work.
        get_bytes: the bytes of an input that a request reads; None if a unit reads its inputs with few requests.
        passes: returns the passes through the job's model per row, for an upper estimate where nothing was measured.

    Raises:
        InputError: `out=` cannot be used, the cluster does not answer or is too small, or plan= has a value that is not
            allowed.
    """
    check_plan(cfg.plan, calibrates=calibrates)
    if isinstance(cfg, FailingRows) and not 0 <= cfg.max_error_share <= 1:
        raise InputError("must be from 0 to 1 (1 never stops)", key="max_error_share", value=cfg.max_error_share)
    if isinstance(cfg, ReadingRows):
        plan = limited(plan, cfg.limit)
    timings.DRIVER.mark("checks of keys, models and inputs")
    expected = prospect(
        name,
        cfg,
        plan,
        pools=pools,
        streamed=streamed,
        calibrates=calibrates,
        work=work,
        get_bytes=get_bytes,
        passes=passes,
    )
    describe = functools.partial(expected.describe, note=note, lines=lines)
    if cfg.only_plans:
        return describe()
    check_place(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    run = expected.open() if _is_complete(cfg, plan) else None
    if run is None or run.todo:  # units may have been removed in the meantime
        _start_ray(cfg, expected)
    run = run or expected.open()
    if cfg.plan == CALIBRATE:
        last: StageResources = getattr(cfg.resources, pools[-1])
        run.try_some(max(LEAST_TRIED, TRIED_PER_ACTOR * last.most_actors))
    timings.DRIVER.mark("opening the table")
    rest = functools.partial(describe, overwrite=False) if cfg.plan == CALIBRATE else None
    return JobRun(name, run, excluded, exclusions.keep(run, excluded), rest)


def _is_complete(cfg: Common, plan: TablePlan) -> bool:
    """Return whether the table was complete when its last run ended: Ray is not needed if it still is."""
    if cfg.overwrite or cfg.retry:
        return False
    return bool(run_files.kept_manifest(locations.absolute(plan.out)).get("complete"))


def ready(cfg: Common, prospects: Sequence[Prospect]) -> None:
    """Start or join Ray for tables with the same needs; the checks that need no cluster come first.

    Raises:
        InputError: `out=` cannot be used, or the cluster does not answer or is too small.
    """
    for expected in prospects:
        check_place(expected.plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    _start_ray(cfg, prospects[0])


def _start_ray(cfg: Common, expected: Prospect) -> None:
    expected.spending.begin()
    ray_session.start(cfg.ray, cfg.resources, expected.needs, expected.spending)
    timings.DRIVER.mark("Ray")

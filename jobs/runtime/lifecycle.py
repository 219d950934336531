"""Start and finish of a job that uses Ray: print the plan or open the run; close it and print the result."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from jobs.errors import InputError
from jobs.runtime import estimates, ray_session, summary, timings
from jobs.runtime.config import CALIBRATE, Common, FailingRows, ReadingRows, check_plan
from jobs.runtime.console import say
from jobs.runtime.exclusions import TALLY, Exclusions
from jobs.runtime.expected_pace import Expectation, Work
from jobs.runtime.measured import read_measurements
from jobs.runtime.prices import read_prices
from jobs.runtime.resources import Demand, Resources, StageResources, demands
from jobs.store import locations, run_files
from jobs.store.amounts import Amounts
from jobs.store.limits import limited
from jobs.store.run import TablePlan, TableRun, check_place, open_run

LEAST_TRIED, TRIED_PER_ACTOR = 6, 3  # units of plan=calibrate: with one per actor all would end at once

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
) -> TableRun | None:
    """Start Ray, check that the cluster is large enough, and open the run; with plan=true print the plan, return None.

    With `limit=` the run has the plan's first rows only. With plan=calibrate it has only some units, after which `end`
    prints the plan.

    Args:
        pools: the stages' pools, in the order of the resources.
        note: the amount of work, for the printed plan.
        lines: further lines of the printed plan.
        streamed: units go through `stages.stream`, not `stages.process`.
        calibrates: some of the units can be done by themselves.
        work: what its rows are, if a row is not always the same work.

    Raises:
        InputError: the place `out=` cannot be used, or the cluster does not answer, or it is too small, or plan=
            has a value that is not allowed.
    """
    check_plan(cfg.plan, calibrates=calibrates)
    if isinstance(cfg, FailingRows) and not 0 <= cfg.max_error_share <= 1:
        raise InputError(f"max_error_share={cfg.max_error_share:g}: must be from 0 to 1 (1 never stops)")
    if isinstance(cfg, ReadingRows):
        plan = limited(plan, cfg.limit)
    timings.DRIVER.mark("checks of keys, models and inputs")
    needs = demands(cfg.resources, list(pools), streamed=streamed)
    cores = own_cores(needs, cfg.resources, joins=ray_session.address_of(cfg.ray) is not None)
    measurements = read_measurements(cfg.resources.measured) if cfg.resources.measured else ()
    expectation = Expectation(name, pools, plan.config, cfg.resources, measurements, cores, work, calibrates)
    cluster = _cluster(pools, cfg.resources, cores)
    estimator = functools.partial(_estimate, plan=plan, expectation=expectation, cluster=cluster)
    show_plan = functools.partial(summary.show_plan, name, plan, needs, note=note, lines=lines, estimator=estimator)
    if cfg.only_plans:
        show_plan()
        return None
    ready(cfg, [plan], needs)
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    run.account = functools.partial(
        _account, estimated=estimator(run.amounts), cluster=cluster, devices=expectation.devices(len(run.todo))
    )
    if cfg.plan == CALIBRATE:
        last: StageResources = getattr(cfg.resources, pools[-1])
        run.try_some(max(LEAST_TRIED, TRIED_PER_ACTOR * last.most_actors))
        _shown_after[run] = functools.partial(show_plan, overwrite=False)
    timings.DRIVER.mark("opening the table")
    return run


def own_cores(needs: Sequence[Demand], resources: Resources, *, joins: bool) -> int | None:
    """The CPUs of this machine if the run is expected to be on it; None if it is planned for a cluster or a larger one.

    Args:
        joins: the run joins a cluster.
    """
    cores = len(os.sched_getaffinity(0))
    has_gpus = any(need.num_gpus for need in needs)
    is_here = not (joins or resources.autoscaling) and sum(need.count * need.num_cpus for need in needs) <= cores
    return cores if is_here and not has_gpus else None


def _cluster(pools: Sequence[str], resources: Resources, cores: int | None) -> estimates.Cluster:
    """What the pools occupy."""
    prices = read_prices(resources.prices) if resources.prices else None
    return estimates.cluster_of([getattr(resources, pool) for pool in pools], resources, prices, cores=cores)


def _estimate(
    amounts: Amounts, *, plan: TablePlan, expectation: Expectation, cluster: estimates.Cluster
) -> estimates.Forecast:
    """What is left of the table of `plan`."""
    out, last = locations.absolute(plan.out), {}
    if amounts.done and isinstance(took := run_files.kept_manifest(out).get("actual"), dict):
        last = took
    first = next(iter(plan.units), None)
    files = [source.uri for source in first.inputs] if first else []
    pace, unknown = expectation.pace(amounts, files=files, last=last)
    return estimates.estimate(amounts, out=out, cluster=cluster, pace=pace, unknown=unknown)


def _account(
    run: TableRun, seconds: float, *, estimated: estimates.Forecast, cluster: estimates.Cluster, devices: float
) -> dict[str, Any]:
    """For the manifest: what was estimated when the run was opened, and what it took.

    A run that had nothing left to do keeps what the manifest says.
    """
    amounts = run.amounts
    if not run.todo:
        kept = run_files.kept_manifest(run.target.out)
        return {name: kept[name] for name in ("estimate", "actual") if name in kept}
    work = sum(amounts.work_of(task.unit) for task in run.todo)
    has_estimate = estimated.left and estimated.pace is not None and not run.is_trial
    return {
        "estimate": estimated.to_json() if has_estimate else None,
        "actual": estimates.actual(cluster, seconds, work, amounts.counted, devices),
    }


def ready(cfg: Common, plans: Sequence[TablePlan], needs: Sequence[Demand]) -> None:
    """Start or join Ray for `plans`; the checks that need no cluster come first, before Ray is imported.

    Args:
        needs: the minimum that all stages need together.

    Raises:
        InputError: the place `out=` cannot be used, or the cluster does not answer, or it is too small.
    """
    for plan in plans:
        check_place(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    ray_session.start(cfg.ray, cfg.resources, needs)
    timings.DRIVER.mark("Ray")


def end(name: str, run: TableRun, excluded: Exclusions) -> dict[str, Any]:
    """Close a run whose units are done, and print the result, of plan=calibrate also the plan; returns the manifest."""
    timings.DRIVER.mark("stages")
    manifest = run.finish()
    timings.DRIVER.mark("manifest")
    summary.show_result(name, manifest, run)
    summary.show_exclusions(excluded, manifest["counts"]["tallies"].get(TALLY, {}))
    if run.plan.config.get("timings"):
        for line in timings.DRIVER.take_lines():
            say(f"  {line}")
    if show_plan := _shown_after.pop(run, None):
        show_plan()
    return manifest

"""The plan of a job: what it would write, and the time and money that this is expected to take."""

import functools
import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.config import Common
from jobs.runtime.configuration.resources import Demand, Resources, check_machines, demands, startable
from jobs.runtime.outcomes import Plan
from jobs.runtime.planning import estimates, summary
from jobs.runtime.planning.estimates import Forecast, PlanSums
from jobs.runtime.planning.expected_pace import Expectation, Passes, Work
from jobs.runtime.planning.rate_tables import expected_gpu, read_measurements, read_prices
from jobs.runtime.planning.spending import Spending
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.runs.run_units import Amounts
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan


@dataclass(frozen=True)
class Prospect:
    """A table that a job plans to write, with everything that determines what writing it takes.

    Attributes:
        job: the name of the job.
        needs: the minimum that each stage needs; empty for a table that the driver writes.
        spending: counts what the run spends on its machines.
        get_bytes: the bytes of an input that a request reads; None if a unit reads its inputs with few requests.
    """

    job: str
    cfg: Common
    plan: TablePlan
    needs: Sequence[Demand]
    expectation: Expectation
    spending: Spending
    get_bytes: int | None = None

    def estimate(self, amounts: Amounts) -> Forecast:
        """Return the estimate of what is left of the table."""
        out, last = locations.absolute(self.plan.out), {}
        if amounts.done and isinstance(took := run_files.kept_manifest(out).get("actual"), dict):
            last = took
        first = next(iter(self.plan.units), None)
        files = [source.uri for source in first.inputs] if first else []
        pace, unknown = self.expectation.pace(amounts, files=files, last=last)
        return estimates.estimate(
            amounts, out=out, cluster=self.spending.cluster, pace=pace, unknown=unknown, get_bytes=self.get_bytes
        )

    def describe(self, *, note: str = "", lines: Sequence[str] = (), overwrite: bool | None = None) -> Plan:
        """Return the plan (`jobs.runtime.planning.summary.plan_of`).

        Raises:
            InputError: with plan=true, no kind of machine in `resources.node_types` has room for an actor.
        """
        if self.cfg.only_plans:
            check_machines(self.needs, startable(self.cfg.resources))
        return summary.plan_of(
            self.job,
            self.plan,
            self.needs,
            note=note,
            lines=[*self.spending.plan_lines(), *lines],
            estimator=self.estimate,
            overwrite=overwrite,
        )

    def open(self) -> TableRun:
        """Open the run; its manifest will have the estimate next to what it took.

        Raises:
            InputError: as `jobs.store.runs.table_run.open_run`.
        """
        cfg = self.cfg
        run = open_run(self.plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
        devices = self.expectation.devices(len(run.todo))
        run.account = functools.partial(
            _account, estimated=self.estimate(run.amounts), spending=self.spending, devices=devices
        )
        return run


def prospect(
    name: str,
    cfg: Common,
    plan: TablePlan,
    *,
    pools: Sequence[str],
    streamed: bool = True,
    calibrates: bool = True,
    work: Work | None = None,
    part: str = "",
    get_bytes: int | None = None,
    passes: Callable[[], Passes | None] | None = None,
) -> Prospect:
    """Return the prospect of `plan`.

    Args:
        pools: the stages' pools, in the order of the resources; empty for a table that the driver writes.
        streamed: units go through `stages.stream` rather than `stages.process`.
        calibrates: some of the units can be processed alone.
        work: the amount of work per row, if rows differ in work.
        part: which table this is, for a job that writes several.
        get_bytes: as in `Prospect`.
        passes: as in `jobs.runtime.planning.expected_pace.Expectation`.

    Raises:
        InputError: the file of `resources.measured=` or `resources.prices=`, or the GPU of `resources.gpu=`, does not
            exist; or budget= cannot be counted.
    """
    resources = cfg.resources
    needs = demands(resources, list(pools), streamed=streamed) if pools else []
    cpus = own_cpus(needs, resources, joins=ray_session.address_of(cfg.ray) is not None)
    prices = read_prices(resources.prices) if resources.prices else None
    stages = [getattr(resources, pool) for pool in pools]
    expectation = Expectation(
        name,
        pools,
        plan.config,
        resources,
        read_measurements(resources.measured) if resources.measured else (),
        gpu=expected_gpu(resources, prices, max((stage.num_gpus for stage in stages), default=0.0)),
        own_cpus=cpus,
        work=work,
        calibrates=calibrates,
        part=part,
        passes=passes,
    )
    cluster = estimates.cluster_of(stages, resources, prices, cores=expectation.cores)
    wait_s = resources.wait_s if resources.autoscaling and stages else 0.0
    spending = Spending(cluster, cfg.budget, wait_s=wait_s, job=name)
    return Prospect(name, cfg, plan, needs, expectation, spending, get_bytes)


def describe_all(prospects: Sequence[Prospect], *, lines: Sequence[str] = ()) -> Plan:
    """Return the plan of the tables that a job writes one after another, the sums over them, and `lines`."""
    plan = functools.reduce(operator.add, (prospect.describe() for prospect in prospects))
    sums = []
    if len(plan.planned) > 1:
        sums.append(f"{prospects[0].job}: these {len(plan.planned)} tables")
        of_tables = PlanSums()
        unknown = [locations.absolute(table.out) for table in plan.planned if not of_tables.add(table)]
        sums += [f"  {line}" for line in of_tables.lines()]
        sums += [f"  time   of {out} is not in these sums" for out in unknown]
    return plan + Plan([*sums, *(f"  {line}" for line in lines)])


def own_cpus(needs: Sequence[Demand], resources: Resources, *, joins: bool) -> int | None:
    """Return the CPUs of this machine if the run is expected to use it; None if it needs a cluster or a larger machine.

    Args:
        joins: the run joins a cluster.
    """
    cpus = len(os.sched_getaffinity(0))
    is_here = not (joins or resources.autoscaling) and sum(need.count * need.num_cpus for need in needs) <= cpus
    return cpus if is_here else None


def _account(
    run: TableRun, seconds: float, *, estimated: Forecast, spending: Spending, devices: float
) -> dict[str, Any]:
    """Return, for the manifest, the estimate at the opening of the run and what the run took.

    A run that had nothing left to do keeps the values in the manifest.
    """
    amounts = run.amounts
    if not run.todo:
        kept = run_files.kept_manifest(run.target.out)
        return {name: kept[name] for name in ("estimate", "actual") if name in kept}
    work = sum(amounts.work_of(task.unit) for task in run.todo)
    has_estimate = estimated.left and estimated.pace is not None and not run.is_trial
    actual = estimates.actual(spending.cluster, seconds, work, amounts.counted, devices)
    return {
        "estimate": estimated.to_json() if has_estimate else None,
        "actual": {**actual, "lost_machines": spending.lost_machines},
    }

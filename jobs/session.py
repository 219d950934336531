"""Ray, started or joined once a process, quietly."""

import logging
import os
import warnings
from typing import Any

from jobs.config import RayConfig
from jobs.errors import InputError
from jobs.resources import Resources

NEVER = -1  # a unit may take hours: our own progress lines tell whether it lives, not Ray's 30-minute guard


def start(settings: RayConfig, resources: Resources) -> None:
    """Join the cluster at `ray.address` or `$RAY_ADDRESS`, or start one on this machine; once a process.

    Raises:
        InputError: there is no cluster at that address.
    """
    _quiet(settings.verbose)
    import ray
    from ray.data import DataContext

    if not ray.is_initialized():
        address = settings.address or os.environ.get("RAY_ADDRESS")
        common: dict[str, Any] = {"log_to_driver": settings.verbose, "configure_logging": True}
        common["logging_level"] = logging.INFO if settings.verbose else logging.ERROR
        if address:
            try:
                ray.init(address=address, **common)
            except (ConnectionError, ValueError) as error:
                raise InputError(f"ray.address={address}: no cluster there ({_first_line(error)})") from error
        else:
            memory = resources.object_store_memory_gb
            ray.init(
                address="local",
                num_cpus=settings.num_cpus,
                include_dashboard=False,
                object_store_memory=int(memory * 2**30) if memory else None,
                **common,
            )
    context = DataContext.get_current()
    context.enable_progress_bars = settings.verbose
    context.print_on_execution_start = settings.verbose
    # One block a unit, whatever its size: the sink writes whole units (jobs.flow).
    context.target_max_block_size = None
    context.execution_no_progress_timeout_s = NEVER
    context.wait_for_min_actors_s = resources.wait_s
    _quiet(settings.verbose)


def _quiet(verbose: bool) -> None:
    if verbose:
        return
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Its C++ core warns that a restarted actor needs its arguments in the object store; the driver keeps them.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_DATA_LOG_INTERNAL_STACK_TRACE_TO_STDOUT", "0")
    for name in ("ray", "ray.data"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.ERROR)
        for handler in logger.handlers:
            if type(handler).__name__ == "PlainRayHandler":
                handler.setLevel(logging.CRITICAL)
    # map_batches has no named parameter for restarts before Ray 2.64.
    warnings.filterwarnings("ignore", message=r".*`ray_remote_args` is deprecated")


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

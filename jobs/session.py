"""Ray, started or joined once a process, quietly."""

import contextlib
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

from jobs import interrupts
from jobs.config import RayConfig
from jobs.errors import InputError, RunError
from jobs.resources import Resources

NEVER = -1  # a unit may take hours: our own progress lines tell whether it lives, not Ray's 30-minute guard


def address_of(settings: RayConfig) -> str | None:
    """The cluster that a run would join; None: a Ray is started on this machine."""
    return settings.address or os.environ.get("RAY_ADDRESS") or None


def start(settings: RayConfig, resources: Resources) -> None:
    """Join the cluster at `ray.address` or `$RAY_ADDRESS`, or start one on this machine; once a process.

    Raises:
        InputError: there is no cluster at that address.
        RunError: no Ray came up here.
    """
    _quiet(settings.verbose)
    import ray
    from ray.data import DataContext

    if not ray.is_initialized():
        address = address_of(settings)
        quiet = contextlib.nullcontext() if settings.verbose else _native_stderr_aside()
        common: dict[str, Any] = {"log_to_driver": settings.verbose, "configure_logging": True}
        common["logging_level"] = logging.INFO if settings.verbose else logging.ERROR
        if address:
            try:
                with quiet:
                    ray.init(address=address, **common)
            except SystemExit as error:  # Ray's own answer to a SIGTERM while it starts
                raise interrupts.Terminated from error
            except (ConnectionError, ValueError) as error:
                raise InputError(f"ray.address={address}: no cluster there ({_first_line(error)})") from error
        else:
            memory = resources.object_store_memory_gb
            try:
                with quiet:
                    ray.init(
                        address="local",
                        num_cpus=settings.num_cpus,
                        include_dashboard=False,
                        object_store_memory=int(memory * 2**30) if memory else None,
                        **common,
                    )
            except SystemExit as error:
                raise interrupts.Terminated from error
            except Exception as error:  # Ray raises bare Exceptions when its processes do not come up in time
                raise RunError(f"Ray did not start here: {_first_line(error)} (is the machine busy?)") from error
        if not settings.verbose:
            _silence_error_messages()
        interrupts.listen()
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


def _silence_error_messages() -> None:
    """Ray prints each failing task's whole trace, retries included, even with log_to_driver=False.

    The error that ends a run is raised and shown by us in one sentence; these copies are dropped.
    """
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):  # private: without it the traces are merely shown
        worker.print_to_stdstream = lambda *_, **__: None


@contextlib.contextmanager
def _native_stderr_aside() -> Iterator[None]:
    """Keep what Ray's C++ core writes to file descriptor 2 while it starts; show it only if the start fails."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as aside:
        own = os.dup(2)
        os.dup2(aside.fileno(), 2)
        failed = True
        try:
            yield
            failed = False
        finally:
            os.dup2(own, 2)
            os.close(own)
            if failed:
                aside.seek(0)
                sys.stderr.write(aside.read().decode("utf-8", "replace"))


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

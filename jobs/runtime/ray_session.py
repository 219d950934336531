"""Ray, started or joined once a process, quietly."""

import atexit
import contextlib
import logging
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actors.errors import first_line
from jobs.errors import InputError, RunError
from jobs.runtime import joining, signals
from jobs.runtime import resources as res
from jobs.runtime.config import RayConfig

NEVER = -1  # a unit may take hours: our own progress lines tell whether it lives, not Ray's 30-minute guard
JOIN_TRIES = 5  # of Ray for a cluster that listens, a second each; by default 20
STOP_S = 15.0  # that the processes of a Ray started here have to end by themselves
# A pool grows when its units in flight are this many per actor. Ray's default, 1.75, is never reached where each actor
# has one unit at a time (max_in_flight=1), and such a pool never grows.
GROW_AT = 0.9


def address_of(settings: RayConfig) -> str | None:
    """The cluster that a run would join; None: a Ray is started on this machine."""
    return settings.address or os.environ.get("RAY_ADDRESS") or None


def start(settings: RayConfig, resources: res.Resources, demands: Sequence[res.Demand] = ()) -> None:
    """Join the cluster at `ray.address` or `$RAY_ADDRESS`, or start one on this machine; once a process.

    Args:
        demands: what the run needs at least. If this machine is too small for it, no Ray is started.

    Raises:
        InputError: there is no cluster at that address, it accepts no such driver, or it is too small.
        RunError: no Ray came up here.
    """
    _quiet(settings.verbose)
    if not _is_up():
        address = address_of(settings)
        if address:
            _join(address, settings)
        else:
            if (own := _own_resources(settings)) is not None:
                res.preflight(demands, own, autoscaling=resources.autoscaling, place="this machine")
            _start_here(settings, resources)
        if not settings.verbose:
            _silence_error_messages()
        signals.listen()
        atexit.register(_stop)
    import ray
    from ray.data import DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = settings.verbose
    context.print_on_execution_start = settings.verbose
    # One block a unit, whatever its size: the sink writes whole units (jobs.runtime.stages).
    context.target_max_block_size = None
    context.execution_no_progress_timeout_s = NEVER
    context.wait_for_min_actors_s = resources.wait_s
    context.autoscaling_config.actor_pool_util_upscaling_threshold = GROW_AT
    _quiet(settings.verbose)
    if demands:
        res.preflight(demands, ray.cluster_resources(), autoscaling=resources.autoscaling)


def _is_up() -> bool:
    ray = sys.modules.get("ray")  # importing it takes a second, which a refusal need not wait for
    return ray is not None and ray.is_initialized()


def _join(address: str, settings: RayConfig) -> None:
    name = joining.named(address, settings.address)
    joining.check_reachable(address, name=name)
    import ray

    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", str(JOIN_TRIES))  # read by ray.init
    with _native_stderr_aside(shown=settings.verbose) as aside:
        try:
            ray.init(address=address, **_logging(settings))
        except SystemExit as error:  # Ray's own answer to a SIGTERM while it starts
            raise signals.Terminated from error
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            aside.drop()  # the same reason, once a try
            raise InputError(joining.refusal(error, name=name, environment=os.environ)) from error


def _start_here(settings: RayConfig, resources: res.Resources) -> None:
    import ray

    memory = resources.object_store_memory_gb
    with _native_stderr_aside(shown=settings.verbose):
        try:
            ray.init(
                address="local",
                num_cpus=settings.num_cpus,
                include_dashboard=False,
                object_store_memory=int(memory * 2**30) if memory else None,
                **_logging(settings),
            )
        except SystemExit as error:
            raise signals.Terminated from error
        except Exception as error:  # Ray raises bare Exceptions when its processes do not come up in time
            raise RunError(f"Ray did not start here: {first_line(error)} (is the machine busy?)") from error


def _logging(settings: RayConfig) -> dict[str, Any]:
    level = logging.INFO if settings.verbose else logging.ERROR
    return {"log_to_driver": settings.verbose, "configure_logging": True, "logging_level": level}


def _own_resources(settings: RayConfig) -> dict[str, float] | None:
    """What a Ray started here would have, as `ray.cluster_resources()` names it; None if it cannot be known."""
    try:
        from ray._private.resource_and_label_spec import ResourceAndLabelSpec

        found = ResourceAndLabelSpec(num_cpus=settings.num_cpus, memory=1, object_store_memory=1)
        found.resolve(is_head=True, node_ip_address="127.0.0.1")
    except Exception:  # private: without it the check comes after the start
        return None
    return {"CPU": float(found.num_cpus or 0), "GPU": float(found.num_gpus or 0)}


def _stop() -> None:
    """Leave Ray at the end of this process, in bounded time."""
    import ray
    from ray._private import worker

    if not ray.is_initialized():
        return
    node = getattr(worker, "_global_node", None)  # private: without it Ray's processes have all the time they want
    own = [info.process for infos in getattr(node, "all_processes", {}).values() for info in infos]
    bounded(ray.shutdown, kill=[process.kill for process in own], seconds=STOP_S)


def bounded(stop: Callable[[], object], *, kill: Sequence[Callable[[], object]], seconds: float) -> None:
    """Call `stop`; if it has not returned after `seconds`, call each of `kill`, which is to let it return."""

    def late() -> None:
        for each in kill:
            with contextlib.suppress(OSError):  # it has ended
                each()

    timer = threading.Timer(seconds, late)
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # some Pythons start no thread once they are ending
        timer.start()
    try:
        stop()
    finally:
        timer.cancel()


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


class _Aside:
    """What was written to file descriptor 2; `drop` keeps it from being shown."""

    def __init__(self) -> None:
        self.wanted = True

    def drop(self) -> None:
        self.wanted = False


@contextlib.contextmanager
def _native_stderr_aside(*, shown: bool) -> Iterator[_Aside]:
    """Keep what Ray's C++ core writes to file descriptor 2 while it starts; show it only if the start fails.

    Args:
        shown: let it through at once.
    """
    made = _Aside()
    if shown:
        yield made
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as aside:
        own = os.dup(2)
        os.dup2(aside.fileno(), 2)
        failed = True
        try:
            yield made
            failed = False
        finally:
            os.dup2(own, 2)
            os.close(own)
            if failed and made.wanted:
                aside.seek(0)
                sys.stderr.write(aside.read().decode("utf-8", "replace"))

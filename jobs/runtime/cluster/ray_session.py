"""The Ray of this process: started or joined once; its own output is written to a file, not printed."""

import atexit
import contextlib
import functools
import logging
import os
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from actors.errors import first_line
from jobs.errors import InputError, RunError
from jobs.runtime.cluster import local_ray
from jobs.runtime.configuration import resources as res
from jobs.runtime.configuration.resources import RayConfig
from jobs.runtime.process import signals, timings
from jobs.runtime.process.console import say

if TYPE_CHECKING:
    from jobs.runtime.planning.spending import Spending

NEVER = -1  # a unit may take hours; Ray's limit of 30 minutes without progress would end the run
CONNECT_S = 10.0  # longest wait for a connection to a cluster
JOIN_TRIES = 5  # attempts of Ray to join a cluster that listens, one second each; Ray's default is 20
START_TRIES = 5
SLOW_START = "timed out during startup"  # in the message of Ray's Exception
# Idle processes that Ray keeps; the default is the number of CPUs. With two, the process that has imported a model's
# libraries (jobs.runtime.stages) would end between the jobs of a pipeline.
IDLE_WORKERS = 8
# Time for a Ray that was started here to end before its processes are killed; schedulers allow ten seconds after
# SIGTERM.
STOP_S = 6.0
# Units in flight per actor at which a pool grows. With Ray's default of 1.75, a pool with max_in_flight=1, which has
# one unit per actor, would never grow.
GROW_AT = 0.9
LOG = "remine.log"  # in the folder of Ray's logs
FAILED_STARTS = 3  # consecutive constructors of actors that may fail on a cluster
FAILED_STARTS_PER_PLACE = 2  # the same, per machine or GPU
TOKEN_FILE = "~/.ray/auth_token"
# In the order in which Ray looks for a token.
TOKEN_SOURCES = f"RAY_AUTH_TOKEN, the file that RAY_AUTH_TOKEN_PATH names, or {TOKEN_FILE}"


def address_of(settings: RayConfig) -> str | None:
    """Return the address of the cluster that a run would join; None if it would start Ray on this machine."""
    return settings.address or os.environ.get("RAY_ADDRESS") or None


def start(
    settings: RayConfig,
    resources: res.Resources,
    demands: Sequence[res.Demand] = (),
    spending: "Spending | None" = None,
) -> None:
    """Join the cluster at `ray.address` or `$RAY_ADDRESS`, or start Ray on this machine; once per process.

    Args:
        demands: the minimum that the run needs. If this machine is too small, Ray is not started.
        spending: counts what the run costs and ends it at its budget; on a cluster that grows, the run uses no machines
            beyond those that it counts.

    Raises:
        InputError: no cluster answers at that address, it refuses this driver, or it is too small; or the disk of Ray's
            temporary folder is full.
        RunError: Ray failed to start.
    """
    _quiet(settings.verbose)
    if not _is_up():
        address = address_of(settings)
        if address:
            _join(address, settings)
        else:
            from jobs.runtime.cluster import ray_internals

            if (available := ray_internals.machine_resources(settings.num_cpus)) is not None:
                res.preflight(demands, available, autoscaling=False, place=res.MACHINE)
            local_ray.check_ray_folder()
            _start_here(settings, resources)
        if not settings.verbose:
            _log_to_file()
        signals.listen()
        atexit.register(_stop)
    import ray
    from ray.data import DataContext, ExecutionResources

    context = DataContext.get_current()
    context.enable_progress_bars = settings.verbose
    context.print_on_execution_start = settings.verbose
    # One block per unit, whatever its size: the sink writes whole units (jobs.runtime.stages).
    context.target_max_block_size = None
    context.execution_no_progress_timeout_s = NEVER
    # A run starts with the first actor of each pool; the watch waits for it (jobs.runtime.cluster.ray_internals).
    context.wait_for_min_actors_s = 0
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    context.max_consecutive_actor_init_deaths = failed_starts(machines, grows=resources.autoscaling)
    from jobs.runtime.cluster.ray_internals import ActorWatch

    watch: Any = functools.partial(ActorWatch, wait_s=resources.wait_s, spending=spending)
    context.custom_execution_callback_classes = [watch]
    context.autoscaling_config.actor_pool_util_upscaling_threshold = GROW_AT
    # Ray Data would ask for further machines whenever half of them work.
    cpus, gpus = spending.cluster.capacity if spending and resources.autoscaling else (None, None)
    context.execution_options.resource_limits = ExecutionResources.for_limits(cpu=cpus, gpu=gpus)
    _quiet(settings.verbose)
    if demands:
        res.preflight(demands, ray.cluster_resources(), autoscaling=resources.autoscaling)
        res.check_machines(demands, _machines(resources))


def failed_starts(machines: Sequence[Mapping[str, float]], *, grows: bool) -> int:
    """Return how many consecutive constructors of actors may fail.

    Some of a cluster's machines or GPUs may have a wrong driver or a full disk; on one machine without several GPUs,
    the next attempt would fail too.
    """
    working = sum(bool(machine.get("CPU") or machine.get("GPU")) for machine in machines)
    places = max(working, int(sum(machine.get("GPU", 0) for machine in machines)))
    if places <= 1 and not grows:
        return 0
    return max(FAILED_STARTS, FAILED_STARTS_PER_PLACE * places)


def is_one_machine(resources: res.Resources) -> bool:
    """Return whether Ray has one machine and does not grow."""
    import ray

    return not resources.autoscaling and sum(node["Alive"] for node in ray.nodes()) == 1


def _is_up() -> bool:
    ray = sys.modules.get("ray")  # not imported here, which takes a second, so that an InputError comes at once
    return ray is not None and ray.is_initialized()


def log_folder() -> Path | None:
    """Return the folder of the logs of Ray on this machine; None without a Ray, or if it is unknown."""
    if not _is_up():
        return None
    from jobs.runtime.cluster import ray_internals

    return ray_internals.log_folder()


def _join(address: str, settings: RayConfig) -> None:
    name = address_setting(address, settings.address)
    check_reachable(address, name=name)
    import ray

    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", str(JOIN_TRIES))  # read by ray.init
    with _hold_back_stderr(shown=settings.verbose) as held:
        try:
            ray.init(address=address, **_logging(settings))
        except SystemExit as error:  # Ray raises it for a SIGTERM while it starts
            raise signals.Terminated from error
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            held.drop()  # the text repeats the reason once per attempt
            raise InputError(refusal(error, name=name, environment=os.environ)) from error


def address_setting(address: str, configured: str | None) -> str:
    """Return the setting that the address comes from, for messages: `ray.address=…` or `RAY_ADDRESS=…`."""
    return f"ray.address={address}" if configured else f"RAY_ADDRESS={address}"


def endpoint(address: str) -> tuple[str, int] | None:
    """Return host and port of `HOST:PORT` or `ray://HOST:PORT`; None for any other address (auto)."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (host, port) if host and port else None


def check_reachable(address: str, *, name: str) -> None:
    """Check that something listens at the address; Ray itself would try for minutes.

    Args:
        name: how the message names the address (`address_setting`).

    Raises:
        InputError: no connection within `CONNECT_S` seconds.
    """
    if (host_and_port := endpoint(address)) is None:
        return
    try:
        socket.create_connection(host_and_port, timeout=CONNECT_S).close()
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise InputError(
            f"{name}: no Ray cluster at this address ({reason}); correct it, or unset it to start Ray on this machine"
        ) from error


def refusal(error: BaseException, *, name: str, environment: Mapping[str, str]) -> str:
    """Return a message with the reason why `ray.init` could not join the cluster at `name`, and what to do.

    Args:
        error: the error of `ray.init`; its causes are read too.
        environment: this process's variables, which decide whether Ray sends a token.
    """
    texts = [str(cause).strip() or type(cause).__name__ for cause in _chain(error)]
    kinds = [type(cause).__name__ for cause in _chain(error)]
    # For a refused token, Ray raises ConnectionError and gives the reason in the text of a cause.
    if "AuthenticationError" not in kinds and not any("AuthenticationError" in text for text in texts):
        return f"{name}: the Ray cluster could not be joined ({texts[0].splitlines()[0]})"
    if environment.get("RAY_AUTH_MODE", "").lower() != "token":
        return (
            f"{name}: the Ray cluster requires an authentication token; set RAY_AUTH_MODE=token "
            f"(the token is read from {TOKEN_SOURCES})"
        )
    if source := _token_source(environment):
        return f"{name}: the Ray cluster rejected the token of {source}; use the token of its head node"
    return f"{name}: RAY_AUTH_MODE=token is set, and there is no token; Ray reads it from {TOKEN_SOURCES}"


def _token_source(environment: Mapping[str, str]) -> str | None:
    if environment.get("RAY_AUTH_TOKEN"):
        return "RAY_AUTH_TOKEN"
    if path := environment.get("RAY_AUTH_TOKEN_PATH"):
        return f"RAY_AUTH_TOKEN_PATH={path}"
    home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises without one
    return TOKEN_FILE if (Path(home) / ".ray" / "auth_token").is_file() else None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _start_here(settings: RayConfig, resources: res.Resources) -> None:
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported unless the user wants it
    os.environ.setdefault("RAY_num_workers_soft_limit", str(max(IDLE_WORKERS, os.cpu_count() or 1)))  # read by raylet
    memory = resources.object_store_memory_gb
    start_ray = functools.partial(
        ray.init,
        address="local",
        num_cpus=settings.num_cpus,
        include_dashboard=False,
        object_store_memory=int(memory * 2**30) if memory else None,
        **_logging(settings),
    )
    others = _children()
    with _hold_back_stderr(shown=settings.verbose):
        try:
            _repeat_if_slow(start_ray)
        except (SystemExit, KeyboardInterrupt) as error:  # Ray's own handler of SIGTERM exits
            signals.settle()
            _kill(_children() - others)  # the agents of a raylet that has ended would live on for a minute
            if isinstance(error, SystemExit):
                raise signals.Terminated from error
            raise
        except Exception as error:  # Ray raises bare Exceptions when its processes do not come up in time
            raise RunError(
                f"Ray failed to start on this machine: {first_line(error)}; if it is busy, try again"
            ) from error
    local_ray.end_with_command(process.pid for process in _children() - others)


def _repeat_if_slow(start_ray: Callable[[], object], *, tries: int = START_TRIES) -> None:
    """Call `start_ray`; if the machine is so busy that Ray gives up waiting for its own processes, call it again.

    A raylet ends if its agents, which take seconds of CPU to start, need more than about 15 seconds. No setting changes
    that, and a longer wait of the driver (RAY_raylet_start_wait_time_s) would be for a raylet that has already ended.
    """
    for left in range(tries - 1, -1, -1):
        others = _children()
        try:
            start_ray()
        except Exception as error:
            if SLOW_START not in str(error) or not left:
                raise
            say(f"Ray did not start in time, as on a busy machine; starting it again ({tries - left} of {tries} tries)")
            _kill(_children() - others)  # they would begin to work later
        else:
            return


def _children() -> set[Any]:
    """Return the child processes of this process, and their descendants."""
    import psutil

    return set(psutil.Process().children(recursive=True))


def _kill(processes: Iterable[Any]) -> None:
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _logging(settings: RayConfig) -> dict[str, Any]:
    level = logging.INFO if settings.verbose else logging.ERROR
    return {"log_to_driver": settings.verbose, "configure_logging": True, "logging_level": level}


def _machines(resources: res.Resources) -> list[Mapping[str, float]]:
    """Return the resources of each machine of the cluster, and of each kind that it can start; empty if unknown.

    Some autoscalers tell Ray which machines they can start, but the open-source ones of Ray 2.60 do not: then
    `resources.node_types` lists them.
    """
    import ray

    from jobs.runtime.cluster import ray_internals

    machines: list[Mapping[str, float]] = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not resources.autoscaling:
        return machines
    kinds = ray_internals.startable_machines() or res.startable(resources)
    return [*machines, *kinds] if kinds else []


def _stop() -> None:
    """Shut Ray down at the end of this process, in bounded time."""
    import ray

    from jobs.runtime.cluster import ray_internals

    if not ray.is_initialized():
        return
    begun = time.time()
    bounded(ray.shutdown, kill=[process.kill for process in ray_internals.processes()], seconds=STOP_S)
    if timings.DRIVER.is_shown:
        say(f"  time  {time.time() - begun:6.1f} s  end of Ray")


def bounded(stop: Callable[[], object], *, kill: Sequence[Callable[[], object]], seconds: float) -> None:
    """Call `stop`; if it does not return within `seconds`, call each function in `kill`, so that it returns."""

    def kill_all() -> None:
        for kill_process in kill:
            with contextlib.suppress(OSError):  # the process has ended
                kill_process()

    timer = threading.Timer(seconds, kill_all)
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # some versions of Python start no thread during shutdown
        timer.start()
    try:
        stop()
    finally:
        timer.cancel()


def _quiet(verbose: bool) -> None:
    if verbose:
        return
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray's C++ core warns that a restarted actor needs its arguments in the object store; the driver keeps them.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_DATA_LOG_INTERNAL_STACK_TRACE_TO_STDOUT", "0")
    for name in ("ray", "ray.data"):
        for handler in logging.getLogger(name).handlers:
            if type(handler).__name__ == "PlainRayHandler":  # prints; others write files
                handler.setLevel(logging.CRITICAL)
    logging.raiseExceptions = False  # no traces about Ray's log files that cannot be written to a full disk
    # map_batches has no named parameter for restarts before Ray 2.64.
    warnings.filterwarnings("ignore", message=r".*`ray_remote_args` is deprecated")


def _log_to_file() -> None:
    """Write what Ray would print to a file next to its other logs, such as the traces of tasks that are repeated."""
    from jobs.runtime.cluster import ray_internals

    ray_internals.print_to_logger()
    folder = ray_internals.log_folder()
    try:
        handler: logging.Handler = logging.FileHandler(folder / LOG) if folder else logging.NullHandler()
    except OSError:  # a full disk must not end a run
        handler = logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger = logging.getLogger("ray")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)


class _HeldText:
    """Text written to file descriptor 2, which is held back and printed unless `drop` is called."""

    def __init__(self) -> None:
        self.dropped = False

    def drop(self) -> None:
        """Discard the text."""
        self.dropped = True


@contextlib.contextmanager
def _hold_back_stderr(*, shown: bool) -> Iterator[_HeldText]:
    """Hold back what Ray's C++ core writes to file descriptor 2 while it starts; print it only if the start fails.

    Args:
        shown: do not hold it back.
    """
    held = _HeldText()
    if shown:
        yield held
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        failed = True
        try:
            yield held
            failed = False
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            if failed and not held.dropped:
                file.seek(0)
                sys.stderr.write(file.read().decode("utf-8", "replace"))

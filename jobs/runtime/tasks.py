"""Functions that are called for each part of a job that has no stages: in this process, or as tasks of Ray.

`map` and `spread` call the same functions with the same arguments either way, and yield the results in the order of the
arguments, so that what a job makes of them does not depend on where, or by how many workers, they were made. A task
whose process or machine is lost is repeated.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from jobs.errors import JobError
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.config import RayConfig
from jobs.runtime.configuration.resources import Demand, PartResources, Resources
from jobs.runtime.worker_reports import of_ray, run_error

Result = TypeVar("Result")
IN_PROCESS = 1 << 22  # rows up to which a table is reduced in this process: Ray takes ten seconds of CPU to start
TRIES = 5  # of a task whose process ended; Ray repeats one that it ended for lack of memory without a limit
Arguments = Iterable[tuple[Any, ...]]


class _Failure:
    """What a task returns in place of an error, whose fields Ray would lose."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Tasks:
    """Where the parts of a job are worked on.

    Args:
        pool: how many tasks run at a time, and the CPUs of each; None: in this process, one after another. Ray must be
            up.
    """

    def __init__(self, pool: PartResources | None = None) -> None:
        self._pool = pool

    @classmethod
    def of(cls, rows: int, settings: RayConfig, resources: Resources) -> "Tasks":
        """Return where a table of `rows` rows is reduced; start or join Ray if it is a large one.

        Raises:
            InputError, RunError: as `ray_session.start`.
        """
        if rows <= IN_PROCESS:
            return cls()
        ray_session.start(settings, resources, [Demand("reduce", 1, resources.reduce.num_cpus, 0)])
        return cls(resources.reduce)

    @property
    def on_ray(self) -> bool:
        """Whether the functions are called by Ray's tasks."""
        return self._pool is not None

    def map(
        self,
        function: Callable[..., Result],
        arguments: Arguments,
        *,
        shared: Sequence[Any] = (),
        memory: Callable[..., int] | None = None,
    ) -> Iterator[Result]:
        """Yield `function(*shared, *of_part)` for the arguments of each part.

        Args:
            shared: arguments that are sent to each machine once.
            memory: returns the bytes that a part needs, from its arguments, so that Ray does not start more tasks on a
                machine than fit.

        Raises:
            JobError, ValueError: the function raised it.
            RunError: the function raised another error, or a process ended again and again.
        """
        if self._pool is None:
            yield from (function(*shared, *of_part) for of_part in arguments)
            return
        for reference in self._references(_call, function, arguments, shared, memory=memory, num_returns=1):
            yield _fetched(reference)

    def spread(
        self, function: Callable[..., Iterator[Any]], arguments: Arguments, *, shared: Sequence[Any] = ()
    ) -> Iterator[tuple[Any, Iterator[Any]]]:
        """Yield the first result of `function(*shared, *of_part)` for the arguments of each part, and the others.

        On Ray the others stay in its object store, where they were made: they are references, for `value_of`. What can
        fail should come before the first result. Raises as `map`.
        """
        if self._pool is None:
            for of_part in arguments:
                results = function(*shared, *of_part)
                yield next(results), results
            return
        for results in self._references(_generate, function, arguments, shared, num_returns="streaming"):
            yield _fetched(next(results)), results

    def _references(
        self,
        call: Callable[..., Any],
        function: Callable[..., Any],
        arguments: Arguments,
        shared: Sequence[Any],
        *,
        memory: Callable[..., int] | None = None,
        num_returns: Any,
    ) -> Iterator[Any]:
        """Yield the reference of each task's result in the order of the arguments; some tasks may still run."""
        import ray

        assert self._pool is not None
        remote: Any = ray.remote(num_cpus=self._pool.num_cpus, max_retries=TRIES - 1, num_returns=num_returns)(call)
        put = [ray.put(value) for value in shared]
        largest = max(node["Resources"].get("memory", 0.0) for node in ray.nodes() if node["Alive"])
        running: list[Any] = []
        waiting: deque[tuple[Any, Any]] = deque()  # (result, what is ready when its task has ended)
        try:
            for of_part in arguments:
                need = min(memory(*of_part), largest) if memory else None
                result = remote.options(memory=need).remote(function, *put, *of_part)
                ended = result if num_returns == 1 else result.completed()
                waiting.append((result, ended))
                running.append(ended)
                if len(running) >= self._pool.tasks:
                    running = ray.wait(running, num_returns=1)[1]
                while waiting and waiting[0][1] not in running:
                    yield waiting.popleft()[0]
            while waiting:
                yield waiting.popleft()[0]
        finally:
            for result, _ in waiting if ray.is_initialized() else ():
                ray.cancel(result, force=True)


def value_of(reference: Any) -> Any:
    """Return a result of `Tasks.spread`, which is read-only if it is an array in Ray's object store."""
    import ray

    return ray.get(reference)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        return _failure(error)


def _generate(function: Callable[..., Iterator[Any]], *arguments: Any) -> Iterator[Any]:
    try:
        for result in function(*arguments):  # noqa: UP028 - Ray sends into a generator, which `yield from` would hand on
            yield result
    except Exception as error:
        yield _failure(error)


def _failure(error: Exception) -> _Failure:
    if isinstance(error, JobError | ValueError):
        return _Failure(error)
    logging.getLogger(__name__).exception("a task failed")
    return _Failure(run_error(error))


def _fetched(reference: Any) -> Any:
    import ray

    try:
        result = ray.get(reference)
    except ray.exceptions.RayError as error:
        raise of_ray(error) from error
    if isinstance(result, _Failure):
        raise result.error
    return result

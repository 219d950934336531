"""Waiting for the actors of a running dataset: prints which are awaited, and ends a run that no actor can join.

A run starts with the first actor of each pool. Ray Data's own wait (`wait_for_min_actors_s`) waits for the first actors
of one pool after another, so that a single machine that cannot be obtained would end the run.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ray.data._internal.execution.execution_callback import ExecutionCallback

from jobs.errors import RunError
from jobs.runtime.process.console import say

if TYPE_CHECKING:
    from ray.data._internal.execution.streaming_executor import StreamingExecutor

LOOK_EVERY_S = 1.0
REPORT_EVERY_S = 60.0
_ACTOR = re.compile(r"MapBatches\((\w+)\)")


@dataclass(frozen=True)
class PoolState:
    """Numbers of a pool's started actors, and of those that wait for a machine, a restart or their constructor."""

    name: str
    started: int
    awaited: int


class StartWatch:
    """Decides, from the states of the pools, what to print and when to give up a run.

    Args:
        wait_s: the longest time that a pool may be without any actor.
        now: monotonic seconds at the start.
    """

    def __init__(self, *, wait_s: float, now: float) -> None:
        self._wait_s, self._began, self._reported = wait_s, now, now
        self._without_since: dict[str, float] = {}

    def look(self, pools: Sequence[PoolState], *, now: float) -> str | None:
        """Return the line to print now; None if there is nothing to print.

        Raises:
            RunError: a pool had no actor for `wait_s`.
        """
        without = {pool.name for pool in pools if not pool.started}
        self._without_since = {name: self._without_since.get(name, now) for name in without}
        for name, since in self._without_since.items():
            if now - since >= self._wait_s:
                raise RunError(
                    f"no actor of {name} could start within resources.wait_s={self._wait_s:g} seconds: no machine of "
                    "the cluster has room for one, or its model takes longer to load; `ray status` shows what is "
                    "missing; the same command resumes the run"
                )
        awaited = [pool for pool in pools if pool.awaited]
        if not awaited or now - self._reported < REPORT_EVERY_S:
            return None
        self._reported = now
        counts = ", ".join(f"{pool.name} {pool.started} of {pool.started + pool.awaited}" for pool in awaited)
        return f"waiting for actors, {now - self._began:.0f} s after the start: {counts} have started"


class ActorWatch(ExecutionCallback):
    """Applies a `StartWatch` to each step of an execution of Ray Data."""

    def __init__(self, *, wait_s: float) -> None:
        self._wait_s = wait_s
        self._watch: StartWatch | None = None
        self._looked = 0.0

    def on_execution_step(self, executor: "StreamingExecutor") -> None:
        """Look at the pools, at most once a second.

        Raises:
            RunError: as `StartWatch.look`; Ray Data ends the execution with it.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY_S:
            return
        self._looked = now
        self._watch = self._watch or StartWatch(wait_s=self._wait_s, now=now)
        if line := self._watch.look(list(_states(executor._topology or {})), now=now):
            say(line, err=True, level="info")


def _states(operators: Mapping[Any, Any]) -> Iterator[PoolState]:
    """Yield the states of the pools that still have work."""
    for operator in operators:
        if not operator.get_autoscaling_actor_pools() or operator.has_execution_finished():
            continue
        info = operator.get_actor_info()
        match = _ACTOR.search(operator.name)
        yield PoolState(match[1] if match else operator.name, info.running, info.pending + info.restarting)

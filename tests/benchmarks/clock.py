"""A clock for contenders that measure a part of what they do."""

import resource
import time


class Clock:
    """Seconds between `with` and its end, summed over several; of CPU those of this process and of ended children."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0

    def __enter__(self) -> None:
        self._begun = time.perf_counter(), _cpu_seconds()

    def __exit__(self, *_: object) -> None:
        self.wall_s += time.perf_counter() - self._begun[0]
        self.cpu_s += _cpu_seconds() - self._begun[1]

    def add(self, other: "Clock") -> None:
        """Add what another clock measured."""
        self.wall_s += other.wall_s
        self.cpu_s += other.cpu_s


def _cpu_seconds() -> float:
    used = [resource.getrusage(rater_name) for rater_name in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(entry.ru_utime + entry.ru_stime for entry in used)

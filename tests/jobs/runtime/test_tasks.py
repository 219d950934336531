"""Functions called for parts of a job: in order, with their errors, and again if a process ends."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import InputError, RunError
from jobs.runtime.configuration.config import RayConfig
from jobs.runtime.configuration.resources import PartResources, Resources
from jobs.runtime.tasks import IN_PROCESS, Tasks, value_of

POOL = PartResources(num_cpus=0.5, tasks=2)


def scaled(factor: int, number: int) -> int:
    if number == 13:
        raise InputError("is unlucky", key="number", value=number, remedy="take another")
    if number == 14:
        raise OSError("no such place")
    return factor * number


def pieces(number: int) -> Iterator[Any]:
    yield f"{number} arrays"
    yield from (np.full(3, number) for _ in range(number))


def ends_once(folder: str, number: int) -> int:
    """Kill the process of the first attempt."""
    place = Path(folder) / str(number)
    if number == 1 and not place.exists():
        place.touch()
        os._exit(1)
    return number


def ends(number: int) -> int:
    os._exit(number)


def check_both(tasks: Tasks, fetch: Callable[[Any], Any]) -> None:
    assert list(tasks.map(scaled, [(n,) for n in range(6)], shared=(7,))) == [0, 7, 14, 21, 28, 35]
    spread = [
        (first, [fetch(array).tolist() for array in others]) for first, others in tasks.spread(pieces, [(2,), (0,)])
    ]
    assert spread == [("2 arrays", [[2, 2, 2]] * 2), ("0 arrays", [])]
    with pytest.raises(InputError) as raised:
        list(tasks.map(scaled, [(1,), (13,), (2,)], shared=(7,)))
    assert str(raised.value) == "number=13: is unlucky; take another"


def test_results_come_in_order_and_errors_as_they_were_raised() -> None:
    check_both(Tasks(), lambda array: array)


def test_small_tables_start_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    monkeypatch.setattr("jobs.runtime.tasks.ray_session.start", lambda *_: started.append(1))
    on_ray = {rows: Tasks.of(rows, RayConfig(), Resources()).on_ray for rows in (0, IN_PROCESS, IN_PROCESS + 1)}
    assert (on_ray, started) == ({0: False, IN_PROCESS: False, IN_PROCESS + 1: True}, [1])


def test_ray_does_the_same_and_repeats_a_task_whose_process_ends(ray_session: None, tmp_path: Path) -> None:
    tasks = Tasks(POOL)
    check_both(tasks, value_of)
    repeated = tasks.map(ends_once, [(str(tmp_path), n) for n in range(3)], memory=lambda *_: 1 << 20)
    assert list(repeated) == [0, 1, 2]
    with pytest.raises(RunError, match="a worker failed: OSError: no such place"):
        list(tasks.map(scaled, [(14,)], shared=(7,)))
    with pytest.raises(RunError, match="a process of the run ended"):
        list(tasks.map(ends, [(1,)]))

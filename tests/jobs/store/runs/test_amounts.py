"""Remaining work, in rows, bytes or units."""

from typing import Any

from jobs.store.files.objects import Object
from jobs.store.runs.amounts import Amounts
from jobs.store.units import Unit

SHARED = Object("s3://b/shared", 5, "")
UNITS = [
    Unit("one", (Object("s3://b/1", 10, ""), SHARED), rows=3),
    Unit("two", (Object("s3://b/2", 20, ""), SHARED), rows=4),
    Unit("three", (Object("/local", 30, ""),), rows=5),
]


def test_a_unit_that_is_done_leaves_the_work_and_inputs_of_the_others() -> None:
    amounts = Amounts(UNITS)
    assert (amounts.units, amounts.done, amounts.left, amounts.inputs_left, amounts.bytes) == (3, 0, 12, 4, 65)
    assert amounts.remote_bytes_left == (10 + 5) + (20 + 5)
    record: Any = {"begun": 100.0, "seconds": 2.5}
    amounts.add_done(UNITS[1], record)
    assert (amounts.done, amounts.left, amounts.inputs_left, list(amounts.ended())) == (1, 8, 2, [(102.5, 4)])
    assert amounts.remote_bytes_left == 10 + 5


def test_work_is_counted_in_bytes_unless_a_limit_makes_them_meaningless() -> None:
    whole = [*UNITS, Unit("four", (Object("/local", 30, ""),))]
    amounts = Amounts(whole)
    assert (amounts.counted, amounts.left, amounts.rows, amounts.work_of(whole[0])) == ("bytes", 100, 12, 15)
    limited = [*whole, Unit("five", (Object("/local", 30, ""),), extra={"limit": 2})]
    amounts = Amounts(limited)
    assert (amounts.counted, amounts.left, amounts.rows, amounts.work_of(limited[0])) == ("units", 5, 12, 1)
    record: Any = {"begun": 0.0, "seconds": 1.0}
    amounts.add_done(limited[0], record)
    assert (amounts.left, list(amounts.ended())) == (4, [(1.0, 1)])
    amounts = Amounts([Unit("six", (), rows=7, extra={"limit": 7})])
    assert (amounts.counted, amounts.left) == ("rows", 7)

"""How much work is left, in rows, bytes or units."""

from typing import Any

from jobs.store.amounts import Amounts
from jobs.store.files.objects import Object
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
    record: Any = {"begun": 100.0, "seconds": 2.5}
    amounts.add_done(UNITS[1], record)
    assert (amounts.done, amounts.left, amounts.inputs_left, list(amounts.ended())) == (1, 8, 2, [(102.5, 4)])

"""Raters with attributes that agree, are unknown, or conflict."""

from typing import Any

import pyarrow as pa

from jobs.annotation.rows import RaterRows
from jobs.tables import TABLES


def test_attributes_that_conflict_are_unknown_and_counted_once() -> None:
    people = RaterRows("human")
    names = ("rater", "country", "pool")
    for part in (
        [("bo", "DE", None), ("anna", "FR", "x"), ("bo", "DE", "x")],
        [("anna", "IT", "x"), ("anna", "FR", "y"), ("anna", "FR", None), ("cy", None, None)],
        [("anna", "IT", "x"), ("bo", None, "x")],
    ):
        people.add(pa.table({name: pa.array([row[n] for row in part], pa.string()) for n, name in enumerate(names)}))
    rows: list[dict[str, Any]] = people.table().to_pylist()
    assert [(row["rater"], row["kind"], row["country"], row["pool"]) for row in rows] == [
        ("anna", "human", None, None), ("bo", "human", "DE", "x"), ("cy", "human", None, None)
    ]  # fmt: skip
    assert people.conflicts == {"country": 1, "pool": 1}
    assert people.rows == 9
    assert people.table().schema == TABLES["raters"].schema()

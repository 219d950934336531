"""The row that is kept of several with the same key, compared with a plain implementation of the rule."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from jobs.annotation.repeats import Repeats

# key, time (None: unknown) and annotation
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(-1, 2), st.integers(0, 2)), max_size=8)


@given(rows=ROWS, cut=st.integers(0, 8))
def test_rows_stay_by_their_times_and_then_by_their_order(rows: list[tuple[str, int | None, int]], cut: int) -> None:
    repeats = Repeats(["key"])
    for part in (rows[:cut], rows[cut:]):
        if part:
            times = pa.chunked_array([[time for _, time, _ in part]], pa.float64())
            repeats.add(pa.table({"key": pa.array([key for key, _, _ in part], pa.string())}), times)

    def place(row: int) -> tuple[float, int]:
        time = rows[row][1]
        return (-np.inf if time is None else time), row

    of_key = defaultdict(list)
    for row in sorted(range(len(rows)), key=place):
        of_key[rows[row][0]].append(row)
    ordered = of_key.values()
    stay = {"first": {group[0] for group in ordered}, "last": {group[-1] for group in ordered}}
    assert repeats.ranks().tolist() == [of_key[key].index(row) for row, (key, _, _) in enumerate(rows)]
    annotations = np.array([annotation for _, _, annotation in rows], np.int64)
    for rule, kept in stay.items():
        assert set(np.flatnonzero(repeats.keeps(rule))) == kept
        with_kept = {(rows[row][0], rows[row][2]) for row in kept}
        together = [(key, annotation) in with_kept for key, _, annotation in rows]
        assert repeats.keeps_with(rule, annotations).tolist() == together
    assert repeats.keeps("sample").tolist() == [True] * len(rows)
    later = [row for row, (key, _, _) in enumerate(rows) if key in [k for k, _, _ in rows[:row]]]
    assert repeats.first_repeat() == (later[0] if later else None)


def test_rows_without_times_stay_by_their_order() -> None:
    repeats = Repeats(["person", "item"])
    repeats.add(pa.table({"person": ["a", "a", "a"], "item": ["x", "y", "x"]}), None)
    assert repeats.ranks().tolist() == [0, 0, 1]
    assert repeats.keeps("last").tolist() == [False, True, True]

"""Tables of answers: counts, means and parts, also where items are read in ranges."""

from dataclasses import replace

import numpy as np
import pytest

from jobs.metrics import answers
from jobs.metrics.answers import RatingTable

NAN = np.nan
MATRIX = np.array([[1, 2, NAN], [NAN, NAN, NAN], [2, 2, 1], [NAN, 5, NAN], [5, 5, 5]])


@pytest.mark.parametrize("rows_at_a_time", [1, 2, 3, 4, 100])
def test_counts_and_means_do_not_depend_on_the_ranges(rows_at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ROWS_AT_A_TIME", rows_at_a_time)
    table = RatingTable.from_matrix(MATRIX)
    ranges = list(table.item_ranges())
    assert [first for first, _, _ in ranges] == [0, *(after for _, after, _ in ranges[:-1])]
    assert ranges[-1][1] == 5
    assert sum(rows.stop - rows.start for _, _, rows in ranges) == table.n
    assert table.per_item().tolist() == [2, 0, 3, 1, 3]
    assert table.levels().tolist() == [1, 2, 5]
    for by, numbers in (("score", [1, 2, 5]), ("value", [0, 1, 2])):
        counts, levels = table.counts(by=by)
        assert counts.tolist() == [[1, 1, 0], [0, 0, 0], [1, 2, 0], [0, 0, 1], [0, 0, 3]]
        assert levels.tolist() == numbers
    means, n = table.means()
    np.testing.assert_allclose(means, [1.5, NAN, 5 / 3, 5, 5])
    assert n.tolist() == [2, 0, 3, 1, 3]


def test_answers_without_a_score_or_a_value_are_left_out() -> None:
    table = RatingTable.from_matrix([[1, 2], [2, 2]])
    some = replace(table, score=np.array([1, NAN, 2, NAN]), value=np.array([0, 1, -1, 1]))
    assert some.scored
    assert not replace(some, score=np.full(4, NAN)).scored
    assert some.counts()[0].tolist() == [[1, 0], [0, 1]]
    assert some.counts(by="value")[0].tolist() == [[1, 1], [0, 1]]
    assert (some.means()[0].tolist(), some.means()[1].tolist()) == ([1, 2], [1, 1])
    np.testing.assert_array_equal(some.matrix(), [[1, NAN], [2, NAN]])
    assert (some.with_scores().n, table.with_scores() is table) == (2, True)


def test_parts_of_raters_and_items() -> None:
    table = RatingTable.from_matrix(MATRIX, raters=["a", "b", "c"])
    part = table.of_raters(["c", "a", "nobody"])
    assert (part.raters, part.items, part.asked.tolist(), part.coverage) == (("a", "c"), 5, [5, 5], 5 / 10)
    np.testing.assert_array_equal(part.matrix(), MATRIX[:, [0, 2]])
    assert table.of_raters(["c", "b", "a"]) is table
    chosen = np.array([False, True, True, False, True])
    items = table.of_items(chosen)
    np.testing.assert_array_equal(items.matrix(), MATRIX[chosen])
    assert items.asked.tolist() == [3, 3, 3]
    few = replace(table, asked=np.array([3, 4, 2])).of_items(chosen)
    assert few.asked.tolist() == [2, 2, 2]  # 3 of 5 are 1.8, 2.4 and 1.2; each answered two
    assert (table.of_items(np.zeros(5, bool)).n, RatingTable.from_matrix(np.zeros((0, 2))).coverage) == (0, None)


def test_too_many_answers_are_no_closed_set() -> None:
    assert RatingTable.from_matrix(np.arange(512.0)[:, None]).counts()[0].shape == (512, 512)
    with pytest.raises(ValueError, match="513 different answers"):
        RatingTable.from_matrix(np.arange(513.0)[:, None]).counts()


def test_twice_a_count_fits_into_its_type() -> None:
    for raters, kind in ((16_382, np.int16), (20_000, np.int64)):
        counts, _ = RatingTable.from_matrix(np.ones((1, raters))).counts()
        assert (counts.dtype, (2 * counts).tolist()) == (kind, [[2 * raters]])

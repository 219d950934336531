"""Samples of one rater merged, and the pairs that each was asked about, by hand."""

import numpy as np

from jobs.analysis.code_arrays import Growing, distinct_pairs, merged

NAN = np.nan


def test_samples_are_merged_into_the_value_of_the_lowest_and_the_mean_score():
    # unit, rater, sample, value, score
    rows = [(1, 0, 2, 7, 4), (1, 0, 0, 5, 1), (1, 0, 1, 6, NAN), (0, 1, 3, 2, NAN), (0, 1, 4, 3, NAN), (0, 0, 0, 1, 3)]
    unit, rater, sample, value, score = np.array(rows).T
    codes = unit.astype(np.int64), rater.astype(np.int64), sample.astype(np.int32), value.astype(np.int32)
    units, raters, values, scores = merged(*codes, score)
    assert [units.tolist(), raters.tolist(), values.tolist()] == [[0, 0, 1], [0, 1, 0], [1, 2, 5]]
    np.testing.assert_array_equal(scores, [3, NAN, 2.5])


def test_each_pair_counts_once_for_each_rater():
    unit, rater = np.array([0, 0, 0, 1, 2]), np.array([2, 2, 0, 2, 0])
    assert distinct_pairs(unit, rater, 3).tolist() == [2, 0, 2]
    none = np.zeros(0, np.int64)
    assert distinct_pairs(none, none, 0).tolist() == []


def test_an_array_grows_by_parts():
    growing = Growing(4, a="i8", b="f8")
    growing.add(a=np.array([1, 2]), b=np.array([0.5, 1.5]))
    growing.add(a=np.array([3]), b=np.array([2.5]))
    assert {name: array.tolist() for name, array in growing.arrays.items()} == {"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}

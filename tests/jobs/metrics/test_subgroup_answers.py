"""Distributions of answers by subgroups of items, by hand (Century, figure 11)."""

import numpy as np

from jobs.metrics.answers import RatingTable
from jobs.metrics.subgroup_answers import answer_shares


def test_shares_by_writer_by_hand():
    answers = RatingTable.from_matrix(np.array([[1, 5], [1, 3], [3, np.nan], [5, 1]]), raters=["a", "b"])
    parts = {"x": np.array([1, 1, 0, 0], bool), "y": np.array([0, 0, 1, 1], bool), "z": np.zeros(4, bool)}
    unrated = answer_shares(answers, ("b",), {"w": np.array([0, 0, 1, 0], bool)}, group="b", attribute="model")
    assert {(m.value, m.coverage, m.status) for m in unrated} == {(None, 0.0, "missing_input")}
    metrics = list(answer_shares(answers, ("a",), parts, group="a", attribute="model"))
    shares = {(m.dims["part"], m.dims["answer"]): (m.value, m.n) for m in metrics}
    assert shares["x", "1"] == (1, 2)
    assert shares["x", "3"] == (0, 2)
    assert shares["y", "3"] == shares["y", "5"] == (0.5, 2)
    assert shares["z", "1"] == (None, 0)
    both = list(answer_shares(answers, ("a", "b"), parts, group="all", attribute="model"))
    of_y = next(m for m in both if (m.dims["part"], m.dims["answer"]) == ("y", "1"))
    assert (of_y.value, of_y.n, of_y.coverage) == (1 / 3, 3, 3 / 4)

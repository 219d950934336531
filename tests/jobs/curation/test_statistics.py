"""Counts of the rows of a unit: by rule, and by sub-region for the starter set."""

import numpy as np

from jobs.curation import statistics
from jobs.curation.rules import NUMBER, Decision


def test_counts_are_of_the_rows_of_the_unit() -> None:
    drawn = NUMBER["starter_per_region"]
    rule = np.array([0, drawn, 0, NUMBER["starter_region"], drawn, 0], np.uint8)
    decision = Decision(rule, np.zeros((0, 6), np.uint8), np.zeros(6, np.uint8), ())
    region = np.array([0, 0, 1, -1, 1, 0], np.int16)
    names = ("Africa", "Asia", "Europe")
    assert statistics.by_region(region, names, decision, 0, 6) == {
        statistics.ELIGIBLE: {"Africa": 3, "Asia": 2}, statistics.STARTER: {"Africa": 2, "Asia": 1},
    }  # fmt: skip
    assert statistics.by_region(region, names, decision, 1, 4) == {
        statistics.ELIGIBLE: {"Africa": 1, "Asia": 1}, statistics.STARTER: {"Asia": 1},
    }  # fmt: skip
    assert statistics.filtered(decision, 0, 6) == {"starter_per_region": 2, "starter_region": 1}
    assert statistics.filtered(decision, 2, 4) == {"starter_region": 1}

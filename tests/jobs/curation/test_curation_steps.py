"""Counts of the rows of a unit: by rule, and by sub-region for the starter set."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from jobs.curation import curation_steps
from jobs.curation.curation_rules import KEPT, NO_METHOD, NUMBER, Decision


def test_counts_are_of_the_rows_of_the_unit() -> None:
    drawn = NUMBER["starter_per_region"]
    rule = np.array([0, drawn, 0, NUMBER["starter_region"], drawn, 0], np.uint8)
    decision = Decision(rule, np.zeros((0, 6), np.uint8), np.zeros(6, np.uint8), ())
    region = np.array([0, 0, 1, -1, 1, 0], np.int16)
    names = ("Africa", "Asia", "Europe")
    assert curation_steps.by_region(region, names, decision, 0, 6) == {
        curation_steps.ELIGIBLE: {"Africa": 3, "Asia": 2}, curation_steps.STARTER: {"Africa": 2, "Asia": 1},
    }  # fmt: skip
    assert curation_steps.by_region(region, names, decision, 1, 4) == {
        curation_steps.ELIGIBLE: {"Africa": 1, "Asia": 1}, curation_steps.STARTER: {"Asia": 1},
    }  # fmt: skip
    assert curation_steps.filtered(decision, 0, 6) == {"starter_per_region": 2, "starter_region": 1}
    assert curation_steps.filtered(decision, 2, 4) == {"starter_region": 1}


def test_a_record_counts_after_each_step_until_the_rule_that_drops_it() -> None:
    rows: Any = SimpleNamespace(methods=("m", "n"), splits=("train", "test"), split=np.array([0, 0, 1, 0]))
    dropped = ["draw", "https", "one_row_an_image"]
    rule = np.array([0, *(NUMBER[name] for name in dropped)], np.uint8)
    reached = np.array([[KEPT, KEPT, NUMBER["https"], KEPT], [0] * 4], np.uint8)
    credit = np.array([0, 0, NO_METHOD, 0], np.uint8)
    decision = Decision(rule, reached, credit, ("https", "one_row_an_image", "draw"))
    left = {"matched": 3, "https": 3, "one_row_an_image": 2, "draw": 1}
    assert curation_steps.steps(rows, decision, 0, 4) == {
        **{f"m/train/{step}": count for step, count in left.items()},
        **{f"m/test/{step}": int(step == "matched") for step in left},
        **{f"/train/{step}": count for step, count in left.items()},
        **{f"/test/{step}": int(step == "matched") for step in left},
    }

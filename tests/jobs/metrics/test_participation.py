"""People, their items and their reports, by hand (Century, appendices L and T)."""

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.participation import participation

NAN = np.nan


def test_people_items_and_reports_by_hand():
    # items per person: 3, 1, 2, so that the mean is 2 and the standard deviation 1
    answers = RatingTable.from_matrix(
        np.array([[1, NAN, 2], [3, NAN, NAN], [2, 5, 1], [NAN, NAN, NAN]]), raters=["p", "q", "r"]
    )
    ended = {"p": {"ok": 3}, "q": {"ok": 1, "reported": 2}, "r": {"ok": 2, "reported": 0}}
    asked, reported = np.ones(4, bool), np.array([0, 1, 0, 1], bool)
    metrics = {
        (m.name, m.dims.get("of")): m
        for m in participation(answers, ended, asked=asked, reported=reported, group="people")
    }
    assert metrics["people_total", None].value == 3
    assert metrics["items_per_person", None].value == pytest.approx(2)
    assert metrics["items_per_person_sd", None].value == pytest.approx(1)
    assert (metrics["reported_share", "items"].value, metrics["reported_share", "items"].n) == (0.5, 4)
    assert (metrics["reported_share", "people"].value, metrics["reported_share", "people"].n) == (1 / 3, 3)


def test_one_person_has_no_standard_deviation_and_nobody_no_metrics():
    one = RatingTable.from_matrix([[1], [2]], raters=["p"])
    asked = np.ones(2, bool)
    metrics = {m.name: m for m in participation(one, {}, asked=asked, reported=~asked, group="people")}
    assert metrics["items_per_person_sd"].reason == "one person"
    assert metrics["reported_share"].value == 0
    nobody = RatingTable.from_matrix(np.zeros((2, 0)))
    assert list(participation(nobody, {}, asked=asked, reported=asked, group="people")) == []

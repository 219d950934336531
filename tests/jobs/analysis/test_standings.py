"""Disagreement and score of all items, one question at a time."""

import numpy as np
import pyarrow as pa
import pytest

from jobs.analysis.rating_codes import Reduction
from jobs.analysis.standings import Standings, pair_distances, standings
from jobs.metrics.answers import RatingTable
from jobs.page.card_orders import disagreement
from jobs.page.page_contents import PictureRating
from jobs.store.hashing import hash_texts
from jobs.tables import TABLES
from tests.factories import rating

NAN = float("nan")


def scale(_rubric: str, question: str) -> tuple[tuple[float, float] | None, str]:
    return (None, "nominal") if question == "kind" else ((1, 5), "")


def test_the_mean_distance_of_pairs_is_that_of_the_cards() -> None:
    draw = np.random.default_rng(0)
    matrix = np.where(draw.random((30, 4)) < 0.3, NAN, draw.integers(1, 6, (30, 4)))
    for bounds, ranges in (((1.0, 5.0), {("r", "q"): 4.0}), (None, {})):
        items, distances = pair_distances(RatingTable.from_matrix(matrix), bounds)
        expected = {}
        for item, row in enumerate(matrix):
            ratings = [PictureRating(str(n), "q", f"{x:g}", rubric="r", value=f"{x:g}", score=x if bounds else None)
                     for n, x in enumerate(row) if not np.isnan(x)]  # fmt: skip
            if (value := disagreement(ratings, ranges)) is not None:
                expected[item] = value
        assert dict(zip(items.tolist(), distances, strict=True)) == pytest.approx(expected)


def test_standings_join_questions_and_leave_out_what_is_off_the_scale() -> None:
    rows = [
        *(rating("a", rater, "fit", value) for rater, value in (("m", "1"), ("n", "5"), ("o", "-812"))),
        *(rating("a", rater, "kind", value, score=None) for rater, value in (("m", "x"), ("n", "x"))),
        rating("b", "m", "fit", "4", condition="x"),
        rating("b", "n", "fit", "4", condition="y"),  # answers under two conditions have no distance
        rating("b", "m", "fit", "5", condition="y"),
        rating("c", "m", "fit", None),
    ]
    rows[2] |= {"score": -812.0}
    with Reduction(by=["condition"]) as reduction:
        schema = pa.schema([TABLES["ratings"].schema().field(name) for name in reduction.coder.columns])
        reduction.add(pa.Table.from_pylist(rows, schema=schema))
        result = standings(reduction, [("r", "kind"), ("r", "fit")], scale)
    assert result.scored == ("r", "fit")
    disagreements, scores = result.of(hash_texts(pa.array(["a", "b", "c", "z"])))
    assert disagreements.tolist() == pytest.approx([0.5, 0.25, NAN, NAN], nan_ok=True)
    assert scores.tolist() == pytest.approx([3, 13 / 3, NAN, NAN], nan_ok=True)


def test_the_scores_are_of_the_first_question_of_the_page_with_a_scale() -> None:
    """Without an order, of the first by name. A question that nobody answered is passed over."""
    rows = [rating("a", "m", "early", "1"), rating("a", "m", "late", "5"), rating("a", "m", "kind", "x", score=None)]
    with Reduction() as reduction:
        schema = pa.schema([TABLES["ratings"].schema().field(name) for name in reduction.coder.columns])
        reduction.add(pa.Table.from_pylist(rows, schema=schema))
        for order, scored, score in (
            (["kind", "absent", "late", "early"], "late", 5),
            ([], "early", 1),
            (["kind"], "early", 1),
        ):
            result = standings(reduction, [("r", question) for question in order], scale)
            assert (result.scored, result.score.tolist()) == (("r", scored), [score])


def test_nothing_rated_has_no_standing_and_a_scale_of_one_point_no_distance() -> None:
    nothing = np.zeros(0)
    empty = Standings(np.zeros(0, np.uint64), nothing, nothing, None)
    assert np.isnan(empty.of(hash_texts(["a", "b"]))).tolist() == [[True, True]] * 2
    items, distances = pair_distances(RatingTable.from_matrix(np.array([[1.0, 1.0], [1.0, NAN]])), (1, 1))
    assert (items.tolist(), distances.tolist()) == ([0], [0])

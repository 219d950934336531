"""Confusion matrices and points on the page: which answers have a row, what they are called, and what is left out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from jobs.metrics.confusion import Confusion
from jobs.metrics.length_bias import length_fit
from jobs.metrics.observations import Observations
from jobs.metrics.paired_scores import LENGTH, WITH_PEOPLE, PairedScores
from jobs.page import observed_figures as module
from jobs.page.card_links import MAX_MATRICES, cell_anchor
from jobs.page.model import PageFigure, Wording
from jobs.page.observed_figures import MAX_SCATTERS, observed_figures

DIMS = {"rubric": "r", "question": "q"}
WORDS = {("r", "q"): Wording("Question", labels={"yes": "Certainly yes", "1": "low"}, scale=(1, 5))}


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The panels of all plots, in their order, with their headings; nothing is drawn."""
    drawn: list[tuple[str, Any]] = []

    def plot(panel: object, *, title: str, description: str, heading: str, labels: float = 0.0) -> str:
        drawn.append((heading, panel))
        return title

    monkeypatch.setattr(module, "plot", plot)
    return drawn


def confusion(
    rater: str, reference: str, answers: Sequence[str] = ("yes", "no"), counts: object = ((3, 1), (0, 2))
) -> Confusion:
    return Confusion(rater, reference, tuple(answers), np.array(counts, np.int64))


def figures(
    confusions: Sequence[tuple[Mapping[str, str], Confusion]] = (),
    pairs: Sequence[tuple[Mapping[str, str], PairedScores]] = (),
    places: Sequence[str] = (),
) -> list[PageFigure]:
    return list(observed_figures(Observations(list(confusions), list(pairs)), [], WORDS, places))


def points(kind: str, rater: str, n: int, *, drawn: int | None = None) -> PairedScores:
    x = np.arange(n, dtype=float)
    y = 1 + 2 * x + np.where(x % 2, 0.5, -0.5)
    return PairedScores(kind, rater, x[:drawn], y[:drawn], n, length_fit(x, y))


def test_answers_that_nobody_gave_have_no_row_unless_they_are_levels(panels: list[tuple[str, Any]]) -> None:
    counts = [[3, 0, 1], [0, 0, 0], [0, 0, 2]]
    words = confusion("org/m@1", "people", ["yes", "maybe", "a very long answer of words"], counts)
    levels = confusion("org/m@1", "people", ["-1", "0.5", "1"], counts)
    only_rater = confusion("org/m@1", "people", ["yes", "no"], [[3, 1], [0, 0]])
    figures([(DIMS, words), ({"rubric": "r", "question": "p"}, levels), (DIMS | {"condition": "c"}, only_rater)])
    of_words, of_rater, of_levels = (panel for _, panel in panels)
    assert of_words.rows == of_words.columns == ["Certainly yes", "a very long answer of words"]
    assert of_words.counts == [[3, 1], [0, 2]]
    assert (of_words.row_label, of_words.column_label) == ("by people", "by m")
    assert of_levels.rows == ["-1", "0.5", "1"]  # a level has no label, and its row stays
    assert of_levels.counts == counts
    assert of_rater.rows == ["Certainly yes", "no"]  # the rater alone answered no
    assert [name for name, _ in panels] == ["“Question”: m (n 6)", "“Question” · c: m (n 4)", "“p”: m (n 6)"]


def test_cells_with_cards_are_links(panels: list[tuple[str, Any]]) -> None:
    matrix = confusion("m", "gold", ["yes", "maybe", "no"], [[3, 0, 1], [0, 0, 0], [0, 0, 2]])
    at = cell_anchor(DIMS, matrix, 0, 2)
    figures([(DIMS, matrix)], places=[at, cell_anchor(DIMS, matrix, 1, 1)])
    assert panels[0][1].links == {(0, 1): (at, "Cards: gold Certainly yes, m no")}


def test_a_figure_per_reference_says_how_many_matrices_it_lacks(panels: list[tuple[str, Any]]) -> None:
    many = [
        ({"rubric": "r", "question": f"q{number:02}"}, confusion("m", "people")) for number in range(MAX_MATRICES + 1)
    ]
    of_gold = [(DIMS, confusion("people", "gold")), (DIMS, confusion("m", "gold"))]
    against_gold, against_people = figures([*many, *of_gold])  # their question has a place on the page
    assert [one.title for one in (against_gold, against_people)] == ["Answers against gold", "Answers against people"]
    assert against_people.notes == [f"Not drawn: “q{MAX_MATRICES:02}”: m."]
    assert against_gold.notes == []
    assert "nearest to the mean" in against_people.about
    assert "nearest to the mean" in against_gold.about  # people are a rater there
    assert len(panels) == MAX_MATRICES + 2
    assert "nearest to the mean" not in figures([(DIMS, confusion("m", "gold"))])[0].about


def test_points_of_lengths_and_of_people_are_two_figures(panels: list[tuple[str, Any]]) -> None:
    lengths, people = figures(pairs=[(DIMS, points(LENGTH, "m", 6)), (DIMS, points(WITH_PEOPLE, "clip", 3))])
    assert (lengths.title, people.title) == ("Length of responses and scores", "Encoders’ and people’s scores")
    assert (lengths.notes, people.notes) == ([], [])
    (name, scatter), (other, of_people) = panels
    assert (name, other) == ("“Question”: m (n 6)", "“Question”: clip (n 3)")
    assert (scatter.x, scatter.y) == ([0, 1, 2, 3, 4, 5], [0.5, 3.5, 4.5, 7.5, 8.5, 11.5])
    assert (scatter.x_label, scatter.y_label) == ("characters", "score")
    assert (of_people.x_label, of_people.y_label) == ("score of the rater", "mean of people")
    assert (scatter.bounds, of_people.bounds) == (pytest.approx((0.76, 5.24)),) * 2  # the scale, with room for points
    fit = length_fit(np.array(scatter.x), np.array(scatter.y))
    assert fit is not None
    assert (scatter.fit.intercept, scatter.fit.slope) == (fit.intercept, fit.slope)
    assert all(low < high for low, high in zip(scatter.fit.low, scatter.fit.high, strict=True))


def test_scatter_plots_report_what_they_leave_out(panels: list[tuple[str, Any]]) -> None:
    plots = [(DIMS, points(LENGTH, f"m{number:02}", 4)) for number in range(MAX_SCATTERS)]
    assert figures(pairs=plots)[0].notes == []
    more = [*plots, (DIMS, points(LENGTH, "more", 9, drawn=3))]
    assert figures(pairs=more)[0].notes == ["Not drawn: “Question”: more."]  # its points are not drawn
    (figure,) = figures(pairs=more[1:])
    assert figure.notes == ["Not all points are drawn; the lines are fitted to all."]
    flat = PairedScores(LENGTH, "m", np.ones(3), np.arange(3.0), 3, None)
    figures(pairs=[(DIMS, flat)])
    assert panels[-1][1].fit is None

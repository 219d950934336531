"""Maps of answers about regions: which questions have one, and which share has the darkest tile."""

from typing import Any

import pytest

from jobs.metrics.distributions import Distribution, Distributions
from jobs.page import region_figures as module
from jobs.page.region_figures import region_figures
from tests.factories import TableInMemory, rating

WEST, EAST, SOUTH, NORTH = "Western Europe", "Eastern Europe", "Southern Europe", "Northern Europe"


def distributions(*unused: str, **answers: list[str]) -> list[Distribution]:
    """Return the distributions of the answers of each rater; nobody gave the answers `unused`."""
    allowed = sorted({*unused, *(answer for of_rater in answers.values() for answer in of_rater)})
    counted = Distributions(declared={("r", "where"): allowed})
    rows = [
        rating(f"i{number}", rater, "where", answer)
        for rater, of_rater in answers.items() for number, answer in enumerate(of_rater)
    ]  # fmt: skip
    table: Any = TableInMemory("ratings", rows)
    for batch in table.batches(table._rows.column_names):
        counted.add(batch)
    return counted.result()


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The maps in their order; nothing is drawn."""
    drawn: list[Any] = []

    def plot(panel: object, **_: str) -> str:
        drawn.append(panel)
        return ""

    monkeypatch.setattr(module, "plot", plot)
    return drawn


def test_all_maps_of_a_question_have_one_scale(maps: list[Any]) -> None:
    (figure,) = region_figures(distributions(m=[WEST, EAST, SOUTH, NORTH], n=[WEST, WEST, EAST, SOUTH]), {}, ())
    assert [panel.high for panel in maps] == [0.5, 0.5]
    assert [panel.shares[WEST] for panel in maps] == [0.25, 0.5]
    assert figure.notes == []


def test_more_than_half_of_the_answers_are_on_the_map(maps: list[Any]) -> None:
    on_map = [WEST, EAST, SOUTH]
    assert len(list(region_figures(distributions(m=[*on_map, "Atlantis", "Utopia"]), {}, ()))) == 1
    assert list(region_figures(distributions(m=[*on_map, "Atlantis", "Utopia", "Erewhon"]), {}, ())) == []
    assert list(region_figures(distributions(SOUTH, NORTH, m=[WEST, EAST]), {}, ())) == [], "two regions were answered"

"""Plots as they are drawn, for the tests of figures."""

from typing import Any

import pytest

from jobs.page import page_figures, topic_figures


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, dict[str, str]]]:
    """Each plot or heat map that was drawn, with its title, description and heading."""
    drawn: list[tuple[Any, dict[str, str]]] = []

    def draw(panel: Any, **words: str) -> str:
        drawn.append((panel, words))
        return ""

    for module in (page_figures, topic_figures):
        monkeypatch.setattr(module, "plot", draw)
    return drawn

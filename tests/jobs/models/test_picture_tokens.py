"""Tokens of pictures: which sizes of a table are read, the estimate of a plan, and the line after a run."""

from pathlib import Path
from typing import Any

import pytest

from actors.vlm import encoding
from jobs.models import picture_tokens
from jobs.models.picture_tokens import OBJECTS_READ, SIZES_TRIED, expected, sample, show_counted
from jobs.models.vlm import ModelConfig
from jobs.store.reading import TableSource, open_table
from tests.factories import image_row, write_units


def images(folder: Path, *units: list[tuple[int | None, int | None]], status: str = "ok") -> TableSource:
    rows = [
        [
            {**image_row(f"{number}-{n}", status=status), "width": width, "height": height}
            for n, (width, height) in enumerate(sizes)
        ]
        for number, sizes in enumerate(units)
    ]
    return open_table(write_units(folder, "images", rows))


def test_sizes_are_in_the_order_of_their_areas(tmp_path: Path) -> None:
    sizes: list[tuple[int | None, int | None]] = [(9, 1), (2, 3), (3, 2), (0, 5), (5, 0), (None, None), (1, 1), (1, 1)]
    assert sample(images(tmp_path / "a", sizes)) == [(1, 1), (1, 1), (2, 3), (3, 2), (9, 1)]
    assert sample(images(tmp_path / "b", [(4, 4)], status="error")) == []
    exactly: list[tuple[int | None, int | None]] = [(n, 1) for n in range(SIZES_TRIED, 0, -1)]
    assert sample(images(tmp_path / "c", exactly)) == [(n, 1) for n in range(1, SIZES_TRIED + 1)]
    many: list[tuple[int | None, int | None]] = [(n, 1) for n in range(1, 161)]
    spaced = sample(images(tmp_path / "d", many))
    assert spaced == [*((10 * n + 6, 1) for n in range(SIZES_TRIED - 1)), (160, 1)]


def test_first_and_last_objects_are_read_and_some_between(tmp_path: Path) -> None:
    """Units are in the order of their names: 0, 1, 10 to 14, 2 to 9; every second one is read."""
    units: list[list[tuple[int | None, int | None]]] = [[(n, 1)] for n in range(1, 16)]
    assert sample(images(tmp_path / "a", *units)) == [(n + 1, 1) for n in (0, 3, 5, 7, 9, 10, 12, 14)]
    assert len(sample(images(tmp_path / "b", *units))) == OBJECTS_READ
    assert sample(images(tmp_path / "c", *units[:3])) == [(1, 1), (2, 1), (3, 1)]


def test_the_phrase_of_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ModelConfig(checkpoint="c", max_pixels=1_000_000)
    table, answers = images(tmp_path / "a", [(56, 28), (280, 280)]), [[1000, 2501], [], None]
    monkeypatch.setattr(encoding, "tokens_of_sizes", lambda *_, **__: answers.pop(0))
    assert expected(model, None) == ""
    nothing = images(tmp_path / "b", [])
    assert expected(model, nothing) == "; pictures with max_pixels=1,000,000"
    assert expected(model, table) == "; pictures with max_pixels=1,000,000: about 1,750 tokens each, up to 2,501"
    assert expected(model, table) == "", "a text model"
    assumed = expected(ModelConfig(checkpoint="c", max_pixels=None, min_pixels=1), table)
    assert assumed.startswith(
        "; pictures with max_pixels=null, min_pixels=1: about 51 tokens each, up to 100, assuming"
    )


def test_a_picture_has_at_least_one_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "tokens_of_sizes", lambda *_, **__: None)
    model = ModelConfig(checkpoint="c", max_pixels=None)
    assert "about 1 tokens each, up to 1," in expected(model, images(tmp_path / "a", [(1, 1)]))
    assert "about 2 tokens each, up to 2," in expected(model, images(tmp_path / "b", [(29, 28)]))


def test_what_was_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def line(tallies: dict[str, Any]) -> str:
        show_counted(ModelConfig(checkpoint="c", max_pixels=5000), tallies)
        return capsys.readouterr().out

    assert line({"pictures": {"shown": 2000, "tokens": 2_500_000}}) == (
        "  2,000 pictures shown, 1,250 tokens each (max_pixels=5,000)\n"
    )
    assert line({"pictures": {"shown": 0, "tokens": 0}}) == line({}) == ""
    assert picture_tokens.PIXELS_PER_TOKEN == 784

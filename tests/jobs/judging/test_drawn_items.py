"""The units of drawn items: their rows, their versions, and what is never drawn."""

from types import SimpleNamespace
from typing import Any

from actors.ids import content_id
from jobs.judging.drawn_items import item_units
from jobs.judging.items import DRAWN
from jobs.runtime.selection.draws import CompleteDrawConfig
from jobs.runtime.selection.exclusions import marks_of
from jobs.store.units import Unit
from tests.factories import TableInMemory

ITEMS = [content_id(str(number)) for number in range(20)]


def sources(sizes: list[int], items: list[str] = ITEMS) -> Any:
    """Items in units of these sizes."""
    table: Any = TableInMemory("items", [{"item_id": name, "image_ids": [name]} for name in items])
    table.name = "items"
    units = [Unit(f"u{number}", (), rows=size) for number, size in enumerate(sizes)]
    return SimpleNamespace(items=table, units=lambda _: units)


def drawn(sizes: list[int], marks: frozenset[str] = frozenset(), **keys: Any) -> list[list[str]]:
    """Return the drawn items of each unit."""
    names, first = [], 0
    result = item_units(sources(sizes), CompleteDrawConfig(**keys), marks)
    for unit, size in zip(result.units, sizes, strict=True):
        rows = unit.extra[DRAWN]
        assert (unit.rows, unit.extra["filtered"]) == (
            len(rows), {"draw": size - len(rows)} if len(rows) < size else {}
        )  # fmt: skip
        names.append([ITEMS[first + row] for row in rows])
        first += size
    assert result.rows == sum(map(len, names))
    assert len(result.lines) == 1
    return names


def test_without_a_draw_all_items_are_read() -> None:
    tables = sources([15, 5])
    result = item_units(tables, CompleteDrawConfig(), frozenset())
    assert (list(result.units), result.rows, result.lines) == (tables.units(None), 20, [])


def test_each_unit_has_its_own_rows() -> None:
    whole = drawn([20], n=6)
    assert len(whole[0]) == 6
    first, second, third = drawn([7, 1, 12], n=6)
    assert [*first, *second, *third] == whole[0]  # the draw does not depend on the units
    first, nothing, second = drawn([7, 0, 13], n=6)
    assert ([*first, *second], nothing) == (whole[0], [])
    assert drawn([20], n=6, seed=1) != whole
    assert drawn([20], n=20) == [ITEMS]


def test_excluded_items_are_not_drawn_and_others_take_their_place() -> None:
    chosen = drawn([20], n=6)[0]
    marks = frozenset().union(*(marks_of(name) for name in chosen[:2]))
    others = drawn([20], marks, n=6)[0]
    assert len(others) == 6
    assert set(others) & set(chosen) == set(chosen[2:])


def test_the_version_of_a_unit_changes_with_its_rows_alone() -> None:
    pieces: dict[tuple[int, ...], set[str]] = {}
    for seed in range(12):
        for unit in item_units(sources([10, 10]), CompleteDrawConfig(n=1, seed=seed), frozenset()).units:
            pieces.setdefault(tuple(unit.extra[DRAWN]), set()).add(unit.piece)
    assert () in pieces  # the unit from which nothing is drawn
    assert all(len(of_rows) == 1 for of_rows in pieces.values())
    assert len(set().union(*pieces.values())) == len(pieces) > 3
    tables = sources([20])
    (whole,) = item_units(tables, CompleteDrawConfig(n=6), frozenset()).units
    tables.units = lambda _: [Unit("u", (), "rows 0-20", 20, {"from": 0, "to": 20})]
    (piece,) = item_units(tables, CompleteDrawConfig(n=6), frozenset()).units
    assert whole.piece.startswith("draw ")
    assert piece.piece == f"rows 0-20, {whole.piece}"
    assert (piece.extra["from"], piece.extra["to"]) == (0, 20)

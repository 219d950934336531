"""Refusal rates of several tables: each response counts once, and excluded items do not."""

from pathlib import Path
from typing import Any

from actors.ids import content_id
from jobs.analysis.responses import refusal_rates
from jobs.runtime.selection.exclusions import ExclusionFilter, marks_of
from jobs.store.reading import TableSource, open_table
from tests.factories import write_units

PICTURE = content_id("excluded")


def table(folder: Path, name: str, *units: dict[str, str | None]) -> TableSource:
    """Return a table of responses: for each unit, response -> its kind of refusal; those of `x` are about a picture."""
    rows: list[list[dict[str, Any]]] = [
        [
            {"response_id": response, "item_id": PICTURE if response == "x" else response, "model": "m",
             "prompt": "p", "condition": "", "sample": 0, "text": "t", "status": "ok", "refusal_kind": kind}
            for response, kind in unit.items()
        ]
        for unit in units
    ]  # fmt: skip
    return open_table(write_units(folder / name, "responses", rows))


def counts(sources: list[TableSource], **keys: Any) -> dict[str, tuple[int, int]]:
    """Kind -> refusals and texts."""
    return {rate.kind: (rate.count, rate.n) for rate in refusal_rates(sources, **keys) if rate.count}


def test_a_response_in_several_tables_counts_once(tmp_path: Path) -> None:
    """In any two of the three tables, and twice in one table, which is not a table's error here."""
    tables = [
        table(tmp_path, "one", {"a": "full", "b": None}, {"c": "hedge"}),
        table(tmp_path, "two", {"c": "hedge", "d": "full"}),
        table(tmp_path, "three", {"a": "full", "d": "full", "e": None}, {"f": "full"}),
    ]
    assert counts(tables[:1]) == {"any": (2, 3), "full": (1, 3), "hedge": (1, 3)}
    assert counts(tables[:2]) == {"any": (3, 4), "full": (2, 4), "hedge": (1, 4)}
    for order in (tables, tables[::-1], [tables[1], tables[0], tables[2]]):
        assert counts(order) == {"any": (4, 6), "full": (3, 6), "hedge": (1, 6)}
    assert counts([]) == {}


def test_responses_about_excluded_items_do_not_count(tmp_path: Path) -> None:
    tables = [table(tmp_path, name, {name: "full", "x": "full"}) for name in ("one", "two")]
    exclusion_filter = ExclusionFilter(frozenset(marks_of(PICTURE)))
    assert counts(tables) == {"any": (3, 3), "full": (3, 3)}
    assert counts(tables, exclusion_filter=exclusion_filter) == {"any": (2, 2), "full": (2, 2)}

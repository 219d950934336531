"""Rows of joined tables: what a scan of the tables gives, and each byte of a table read about once."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.judging import joined_rows
from jobs.judging.items import open_sources, reading
from jobs.judging.joined_rows import lookup, lookup_pictures, matching_rows
from jobs.store.pieces import PieceRule
from jobs.store.reading import open_table
from jobs.store.writer import UnitTask
from tests.factories import image_row, record_of, write_file, write_units
from tests.forwarding import counted_s3

DRAWS = random.Random(0)


def pictures(count: int, *, least: int = 10, most: int = 2_000) -> list[dict[str, Any]]:
    rows = [image_row(f"https://i/{number}.jpg") for number in range(count)]
    for number, row in enumerate(rows):
        row["bytes"] = DRAWS.randbytes(DRAWS.randrange(least, most))
        if number % 7 == 3:
            row |= {"bytes": None, "status": "error"}
    return rows


def cut(rows: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [rows[first : first + size] for first in range(0, len(rows), size)]


@pytest.mark.parametrize("indexes", [1, joined_rows.INDEXES])
def test_pictures_are_those_of_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indexes: int) -> None:
    monkeypatch.setattr(joined_rows, "INDEXES", indexes)
    rows = pictures(60)
    rows.append({**rows[5], "rendition": "w300", "bytes": b"later"})  # the first row of a picture counts
    tables = [write_units(tmp_path / "paged", "images", cut(rows, 9)), write_file(tmp_path / "other", "images", rows)]
    ids = [rows[number]["image_id"] for number in (59, 5, 3, 17, 18)]
    expected = {
        name: {key: row[key] for key in ("source_url", "status", "bytes")}
        for name in ids
        for row in [next(row for row in rows if row["image_id"] == name)]
    }
    for uri in tables:
        source = open_table(uri)
        for place in (source.whole(), source.footers[0].object):
            inside = expected if place == source.whole() or len(source.footers) == 1 else {}
            if not inside:
                inside = {row["image_id"]: expected[row["image_id"]] for row in rows[:9] if row["image_id"] in expected}
            assert lookup_pictures(place, [*ids, "nobody"], with_bytes=True) == inside
            without = {name: {key: row[key] for key in ("source_url", "status")} for name, row in inside.items()}
            assert lookup_pictures(place, ids, with_bytes=False) == without
            assert lookup_pictures(place, ids, with_bytes=True, copies=False) == inside
    assert lookup_pictures(None, ids, with_bytes=True) == lookup_pictures(source.whole(), [], with_bytes=True) == {}


def test_rows_are_those_of_a_scan(tmp_path: Path) -> None:
    rows = [{"text_id": f"t{n % 20}", "role": "article", "text": f"text {n}"} for n in range(50)]
    source = open_table(write_units(tmp_path / "texts", "texts", cut(rows, 8)))
    expected = {f"t{n}": {"text": f"text {n}"} for n in (3, 19)}
    arguments: tuple[Any, ...] = (source.whole(), "text_id", ["t3", "t19", "t30"], ["text"])
    assert lookup(*arguments) == expected
    every = pa.concat_tables(matching_rows(*arguments)).to_pylist()
    assert lookup(*arguments, copies=False) == expected
    assert pa.concat_tables(matching_rows(*arguments, copies=False)).select(["text_id", "text"]).to_pylist() == every
    assert [row["text"] for row in every] == [f"text {n}" for n in range(50) if n % 20 in (3, 19)]


@pytest.mark.parametrize("order", ["shuffled", "same"])
@pytest.mark.long
def test_a_run_reads_about_the_bytes_of_its_tables(s3: str, tmp_path: Path, order: str) -> None:
    base = f"{s3}/{tmp_path.name}"
    images = pictures(200, least=150_000, most=350_000)
    records = [record_of(row, f"title {number}") for number, row in enumerate(images)]
    items = [{"item_id": f"item {n}", "kind": "image", "image_ids": [row["image_id"]]} for n, row in enumerate(images)]
    if order == "shuffled":
        DRAWS.shuffle(items)
    tables = {
        "input": write_units(f"{base}/items", "items", cut(items, 10 if order == "shuffled" else 50)),
        "images": write_units(f"{base}/images", "images", cut(images, 50)),
        "records": write_units(f"{base}/records", "records", cut(records, 50)),
    }
    size = sum(footer.object.size for uri in tables.values() for footer in open_table(uri).footers)
    sources = open_sources(
        tables["input"], images=tables["images"], records=tables["records"], texts=None, fields=["page_title"],
        pictures=True,
    )  # fmt: skip
    units = sources.units(PieceRule(actors=8))
    reader = reading(sources, fields=["page_title"], pictures=True)
    with counted_s3() as front:
        read = [row for unit in units for row in reader(UnitTask(unit)).to_pylist()]
    assert len(units) >= 20
    expected = {f"item {n}": f"title {n}" for n in range(len(images))}
    pictures_of = {f"item {n}": row["bytes"] for n, row in enumerate(images)}
    assert {row["item_id"]: row["page_title"] for row in read} == expected
    assert {row["item_id"]: row["pictures"][0] for row in read} == pictures_of
    assert front.answered < 1.3 * size  # of larger pictures less: a footer is read in at least 32 kB

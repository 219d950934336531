"""Large units of a parent's table are read in pieces: each row once, a bounded number at a time."""

import itertools
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors import schemas
from jobs import embed
from jobs.judging.items import item_units, open_sources, reading
from jobs.runtime import stages
from jobs.runtime.configuration.config import load
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.selection.draws import CompleteDrawConfig
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store import writer as store_writer
from jobs.store.files.objects import Object
from jobs.store.pieces import (
    FROM,
    LEAST_ROWS,
    PIECE_BYTES,
    PIECE_ROWS,
    PieceRule,
    UnitPieces,
    cut_of,
    in_pieces,
    range_without,
    ranges,
    read_piece,
    rows_per_piece,
    with_range,
)
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import LIMIT, Unit
from jobs.store.writer import UnitTask
from tests.cases import check_cases
from tests.factories import record, rows_of, write_records, write_units
from tests.in_process import stages_in_process

ROWS = 700
FRESH: dict[str, Any] = {"resume": True, "overwrite": False, "retry": []}


def ids(unit: int, count: int) -> list[str]:
    return [f"u{unit}-{row:04}" for row in range(count)]


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Tables `images` and `records` of a unit of 3 rows and one of 700, in row groups of about 100."""
    monkeypatch.setattr(store_writer, "ROW_GROUP_BYTES", 4000)
    units = [[image(one) for one in ids(unit, count)] for unit, count in enumerate((3, ROWS))]
    write_records(
        str(tmp_path / "records"),
        [[record(row["image_id"]) | {"image_id": row["image_id"]} for row in rows] for rows in units],
    )
    return write_units(tmp_path / "images", "images", units)


def image(image_id: str) -> dict[str, Any]:
    return {"image_id": image_id, "rendition": "w", "attempts": 1, "status": "ok"}


class Copy:
    """Returns rows of `images`."""

    INPUTS = pa.schema({"image_id": pa.string()})
    OUTPUTS = schemas.IMAGES

    def __call__(self, batch: pa.Table) -> pa.Table:
        return pa.Table.from_pylist([image(one) for one in batch["image_id"].to_pylist()], schema=schemas.IMAGES)


def read_ids(task: UnitTask) -> pa.Table:
    return read_piece(task.unit, ["image_id"])


def test_pieces_cover_a_unit() -> None:
    def check(rows: int, sizes: list[int]) -> None:
        parent = Unit("u", (Object("/t/u.parquet", 1, "1"),), rows=rows)
        pieces = list(in_pieces([parent]))
        assert [piece.rows for piece in pieces] == sizes
        assert {piece.parent for piece in pieces} == {"u"}
        if len(pieces) == 1:
            assert pieces == [parent]
        else:
            assert [piece.name for piece in pieces][:2] == ["u-000000000", f"u-{sizes[0]:09}"]
            assert len({piece.version for piece in pieces}) == len(pieces)

    check_cases(check, [(511, [511]), (512, [256, 256]), (700, [233, 233, 234]), (0, [0])])


def test_pieces_grow_with_the_table_until_a_kill_would_cost_too_much() -> None:
    parent = Unit("u", (Object("/t/u", 1, "e"),))
    of_rows = {1_000_000: 3907, 4_000_000: 8_000, 8_000_000: 8_000, 11_500_000: 7_998}
    for rows, count in of_rows.items():
        assert len(pieces := list(in_pieces([replace(parent, rows=rows)], PieceRule(actors=8)))) == count
        assert max(piece.rows or 0 for piece in pieces) <= 1440
    begun = {"u": UnitPieces(2, {0: "u-a", 1: "u-b"}, {0: (0, 6_000_000), 1: (6_000_000, 8_000_000)})}
    kept = list(in_pieces([replace(parent, rows=8_000_000)], PieceRule(begun=begun)))
    assert [(piece.name, piece.rows) for piece in kept] == [("u-a", 6_000_000), ("u-b", 2_000_000)]


def test_pieces_take_a_minute_where_the_pace_is_known() -> None:
    cases = {
        (100_000, 60): 60,
        (10_000, 1): LEAST_ROWS,
        (1_000_000, 60): 125,  # no more than 8,000 pieces, as long as these have no more than 256 rows
        (11_500_000, 60): 256,
        (11_500_000, 1_100): 1_100,
        (11_500_000, 100_000): 1_438,
        (1_280_000_000, 170_000): 160_000,
        (100_000, None): 256,
        (1_280_000_000, None): 1440,
    }
    assert {amounts: rows_per_piece(*amounts) for amounts in cases} == cases
    parent = Unit("u", (Object("/t/u", 1, "e"),), rows=6_000)
    for rule in (PieceRule(minute=60), PieceRule(actors=1, minute=60)):
        assert max(piece.rows or 0 for piece in in_pieces([parent], rule)) == 60


def test_many_actors_share_a_small_table() -> None:
    units = [Unit(f"u{number}", (Object(f"/t/{number}", 1, str(number)),), rows=100) for number in range(6)]
    pieces = list(in_pieces(units, PieceRule(actors=8)))
    assert len(pieces) >= 4 * 6
    assert len({piece.version for piece in pieces}) == len({piece.name for piece in pieces}) == len(pieces)
    ranges = [(piece.parent, piece.extra["from"], piece.extra["to"]) for piece in pieces]
    for unit in units:
        ends = [0, *(last for name, _, last in ranges if name == unit.name)]
        assert [(first, last) for name, first, last in ranges if name == unit.name] == [*itertools.pairwise(ends)]
        assert ends[-1] == 100
    few = [replace(unit, rows=10) for unit in units]
    assert list(in_pieces(few, PieceRule(actors=64))) != few
    assert min(piece.rows or 0 for piece in in_pieces(few, PieceRule(actors=64))) == 5
    large = [replace(unit, rows=100_000) for unit in units]
    assert list(in_pieces(large, PieceRule(actors=8))) == list(in_pieces(large))
    assert list(in_pieces(units)) == units


def test_an_interruption_of_a_single_actor_does_not_lose_a_small_table() -> None:
    def check(rows: int, sizes: list[int]) -> None:
        parent = Unit("u", (Object("/t/u.parquet", 1, "1"),), rows=rows)
        assert [piece.rows for piece in in_pieces([parent], PieceRule(actors=1))] == sizes

    check_cases(check, [(10, [10]), (40, [13, 13, 14]), (200, [50] * 4), (1200, [240] * 5)])


def test_pieces_have_a_bounded_number_of_bytes() -> None:
    photos = Unit("u", (Object("/t/u.parquet", 3 * PIECE_BYTES, "1"),), rows=100)
    assert [piece.rows for piece in in_pieces([photos])] == [33, 33, 34]
    assert [piece.rows for piece in in_pieces([replace(photos, rows=2)])] == [1, 1]
    assert list(in_pieces([replace(photos, rows=0)])) == [replace(photos, rows=0)]


def test_a_unit_with_a_limit_stays_whole() -> None:
    """Its first rows are read from the first row of the unit on; a piece would read other ones."""
    unit = Unit("u", (Object("s3://b/u", 10, ""),), rows=5000, extra={LIMIT: 600})
    assert list(in_pieces([unit], PieceRule(8))) == [unit]


def test_a_table_that_has_begun_keeps_its_cut(images: str, tmp_path: Path) -> None:
    out, source = str(tmp_path / "copy"), open_table(images, "images")

    def plan(actors: int, *, overwrite: bool = False) -> TablePlan:
        units = list(in_pieces(source.units(), cut_of(out, actors=actors, overwrite=overwrite)))
        return TablePlan(out, "images", {"by": "copy"}, units, {}, {}, derived=True)

    first = plan(8)
    assert len(first.units) > 30
    open_run(first, resume=True, overwrite=False, retry=[]).target  # noqa: B018
    assert plan(1).units == first.units
    assert [unit.rows for unit in plan(1, overwrite=True).units] == [3, 175, 175, 175, 175]
    frozen = Path(out, "_run", "inputs.jsonl")
    frozen.write_text(re.sub(r',? ?"pieces": ?\d+', "", frozen.read_text()))  # as of an earlier version
    assert plan(1).units == first.units


def test_pieces_keep_what_is_left_of_their_ranges(tmp_path: Path) -> None:
    """Also if the ranges are no longer equal; another number of rows is cut anew, with the same names."""
    parent = Unit("u", (Object("/t/u.parquet", 1, "1"),), rows=700)
    removed = np.array([3, 232, 233, 699])
    pieces = list(in_pieces([parent]))
    moved = [range_without(piece, removed) for piece in pieces]
    assert [tuple(ends.values()) for ends in moved] == [(0, 231), (231, 463), (463, 696)]
    left = [piece and with_range(piece, ends) for piece, ends in zip(pieces, moved, strict=True)]
    assert [piece and (piece.piece, piece.rows) for piece in left] == [
        ("rows 0-231", 231), ("rows 231-463", 232), ("rows 463-696", 233)
    ]  # fmt: skip
    out = str(tmp_path / "copy")
    open_run(TablePlan(out, "images", {}, list(filter(None, left)), {}, {}, derived=True), **FRESH)
    cut = cut_of(out, actors=1, overwrite=False)
    assert list(in_pieces([replace(parent, rows=696)], cut)) == left
    assert list(ranges(696, 256, cut.begun["u"])) == [(0, 231), (231, 463), (463, 696)]
    anew = list(in_pieces([replace(parent, rows=690)], cut))
    assert [(piece.name, piece.rows) for piece in anew] == [(piece.name, 230) for piece in pieces]
    # Of a draw and of a trial other rows may be read now.
    drawn = replace(pieces[1], piece=f"{pieces[1].piece}, draw x")
    limited = replace(pieces[1], extra={**pieces[1].extra, LIMIT: 5})
    assert [with_range(piece, range_without(piece, removed)) for piece in (drawn, limited, parent)] == [None] * 3
    assert range_without(drawn, removed) == moved[1]


def test_pieces_that_a_trial_left_out_have_names_of_their_own() -> None:
    """The trial had two of four pieces of 2,000 rows; a purge left half of the rows, so that piece 2 begins at 500."""
    names = {0: "u-000000000", 1: "u-000000500"}
    pieces = list(in_pieces([Unit("u", (), rows=1000)], PieceRule(begun={"u": UnitPieces(4, names)})))
    assert [piece.name for piece in pieces] == ["u-000000000", "u-000000500", "u-000000500-2", "u-000000750"]
    assert [piece.extra[FROM] for piece in pieces] == [0, 250, 500, 750]
    begun = UnitPieces(4, {0: "u"})
    empty = [begun.name(n, f"u-{first}", rows=last - first) for n, (first, last) in enumerate(ranges(100, 256, begun))]
    assert empty == ["u", "u-100-1", "u-100-2", "u-100-3"]


def test_a_table_made_of_pieces_has_every_row_once(images: str, tmp_path: Path) -> None:
    out = str(tmp_path / "copy")
    source = open_table(images, "images")
    assert open_table(images).footers[1].rows == ROWS
    plan = TablePlan(out, "images", {"by": "copy"}, list(in_pieces(source.units())), {}, {}, derived=True)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    with stages_in_process():
        read = stages.Read(read_ids, item="image_id", output_item="image_id")
        stages.stream(run, name="copy", read=read, stages=[stages.Stage("embed", Copy, {})], resources=Resources())
    run.finish()
    assert [row["image_id"] for row in rows_of(out)] == [*ids(0, 3), *ids(1, ROWS)]
    assert max(footer.rows for footer in open_table(out).footers) <= PIECE_ROWS
    again = open_run(plan, resume=True, overwrite=False, retry=[])
    assert not again.todo


def test_items_are_joined_and_drawn_from_pieces(images: str, tmp_path: Path) -> None:
    records = str(tmp_path / "records")
    sources = open_sources(images, images=None, texts=None, records=records, fields=["page_title"], pictures=False)
    objects = [footer.object for footer in open_table(records).footers]
    units = sources.units()
    assert [unit.inputs[1] for unit in units] == [objects[0], *[objects[1]] * 3]
    reader = reading(sources, fields=["page_title"], pictures=False)
    titles = [title for unit in units for title in reader(UnitTask(unit))["page_title"].to_pylist()]
    assert titles == [*ids(0, 3), *ids(1, ROWS)]
    drawn = item_units(sources, CompleteDrawConfig(n=50), frozenset())
    read = [one for unit in drawn.units for one in reader(UnitTask(unit))["item_id"].to_pylist()]
    assert len(read) == len(set(read)) == drawn.rows == 50
    assert len({unit.version for unit in drawn.units}) == len({unit.name for unit in drawn.units}) == 4


def test_embed_has_units_of_bounded_size(images: str) -> None:
    cfg = load("embed", embed.EmbedConfig, [f"input={images}", "out=/r", "embedder=local-tiny"])
    facts: Any = SimpleNamespace(encoder="e", preprocessing="p", dim=4)
    cfg.plan = True
    plan = embed._plan(cfg, open_table(images), facts, Exclusions())
    assert [unit.rows for unit in plan.units] == [3, 175, 175, 175, 175]

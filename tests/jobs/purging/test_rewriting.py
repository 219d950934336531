"""Positions of removed rows, and earlier generations of a unit without names of pictures."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.ids import content_id
from jobs.purging.matching import Gone
from jobs.purging.needles import Needles
from jobs.purging.rewriting import (
    PURGED,
    Rewritten,
    _anonymous,
    _matching,
    _Moved,
    _names,
    keep_list,
    rejects_to_remove,
    rewrite_tables,
)
from jobs.runtime.selection.exclusions import KEPT, TALLY
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.footers import Footer, read_footer
from jobs.store.pieces import FROM, PIECES, TO, piece_of
from jobs.store.reading import open_table
from jobs.store.run_files import begun_units
from jobs.store.units import LIMIT, OWN_ROWS, Unit
from jobs.store.writer import Reject
from tests.factories import embedding_rows, image_row, rating, record, write_table, write_units
from tests.jobs.purged_run import IDS, PICTURES, write

GONE = content_id("gone")


def footer_at(path: Path) -> Footer:
    footer = read_footer(locations.find(str(path))[0])
    assert footer is not None
    return footer


def test_positions_are_those_in_the_object_whatever_its_row_groups(tmp_path: Path) -> None:
    ids = ["a", "gone", "b", "c", "gone", "gone", "d"]
    table = pa.table({"image_id": ids, "title": ["", "", "", "", "", "", ""]})
    for rows in (2, 3, 10):
        pq.write_table(table, tmp_path / "unit.parquet", row_group_size=rows)
        removed, mentions = _matching(footer_at(tmp_path / "unit.parquet"), Needles(Gone({"gone"})), ("image_id",))
        assert (removed.tolist(), removed.dtype, mentions) == ([1, 4, 5], np.int64, 0)


def test_an_earlier_generation_keeps_its_numbers_and_names_no_picture() -> None:
    failure = {"rows": 2, "where": "https://h/gone.jpg", "message": "HTTP 404"}
    counts: dict[str, Any] = {
        "rows_in": 5, "rows_out": 4, "filtered": {"rule": 1}, "rejected": {}, "status": {"ok": 2, "missing": 2},
        "tallies": {TALLY: {"gone": 1}, "steps": {"read": 5}}, "failures": {"missing/gone": failure},
    }  # fmt: skip
    generation: Any = {"version": "v", "generation": 1, "counts": counts, "begun": 10.0, "seconds": 2.0}
    footer: Any = {**generation, "unit": {"name": "u"}}
    assert _anonymous(footer) == {
        **generation,
        "counts": {**counts, "tallies": {"steps": {"read": 5}}, "failures": {}},
    }
    assert TALLY in counts["tallies"], "the original stays"


PARENT, SECOND = Object("R/images/unit.parquet", 10, "old"), Object("R/records/unit.parquet", 9, "kept")
AGAIN = Object(PARENT.uri, 8, "new")


def test_units_of_rewritten_objects_name_the_new_ones() -> None:
    """A whole unit, one of own rows and a piece with known rows; others are left to the next run."""
    piece = {PIECES: 3, FROM: 2, TO: 6}
    cases: dict[str, tuple[Unit, Unit | None, dict[str, int]]] = {
        "nothing": (Unit("u", (), rows=4), Unit("u", (), rows=4), {}),
        "of another": (Unit("u", (SECOND,), piece="draw"), Unit("u", (SECOND,), piece="draw"), {}),
        "whole": (Unit("u", (PARENT, SECOND), rows=9), Unit("u", (AGAIN, SECOND), rows=9), {}),
        "own rows": (Unit("u", (PARENT,), f"{OWN_ROWS} 3"), Unit("u", (AGAIN,), f"{OWN_ROWS} 3"), {}),
        "limited": (Unit("u", (PARENT,), rows=3, extra={LIMIT: 3}), None, {}),
        "limited own rows": (Unit("u", (PARENT,), f"{OWN_ROWS} 3", extra={LIMIT: 3}), None, {}),
        "draw": (Unit("u", (PARENT,), "draw 7"), None, {}),
        "piece": (
            Unit("u", (PARENT, SECOND), piece_of(2, 6), 4, piece),
            Unit("u", (AGAIN, SECOND), piece_of(1, 4), 3),
            {FROM: 1, TO: 4},
        ),
        "piece of another": (
            Unit("u", (SECOND, PARENT), piece_of(2, 6), 4, piece),
            Unit("u", (SECOND, AGAIN), piece_of(2, 6), 4),
            {FROM: 2, TO: 6},
        ),
    }
    moved = _Moved({PARENT: AGAIN}, {PARENT: np.array([0, 5, 7])})
    assert {name: moved.renewed(unit) for name, (unit, *_) in cases.items()} == {
        name: tuple(renewed) for name, (_, *renewed) in cases.items()
    }
    piece_of_parent = cases["piece"][0]
    assert _Moved({PARENT: AGAIN}).renewed(piece_of_parent) == (None, {})  # which rows were removed is not known


def test_rows_with_mentions_are_counted_in_all_row_groups(tmp_path: Path) -> None:
    rows = pa.table({"image_id": ["a", GONE, "b", "c"], "title": [f"of {GONE}", GONE, f"see {GONE}", "d"]})
    pq.write_table(rows, tmp_path / "unit.parquet", row_group_size=1)
    needles = Needles(Gone({GONE}, pictures={GONE}))
    removed, mentions = _matching(footer_at(tmp_path / "unit.parquet"), needles, ("image_id",))
    assert (removed.tolist(), mentions) == ([1], 2)


def rewrite(uri: str, *gone: str) -> Rewritten:
    needles = Needles(Gone(set(gone), pictures=set(gone)))
    return rewrite_tables([open_table(uri)], needles, ("list", b"marks"), purge=gone[0])


def test_a_rewritten_unit_keeps_its_counts_and_its_metadata(tmp_path: Path) -> None:
    rows = [image_row(f"https://i/{name}") for name in "abcd"]
    uri = write_table(tmp_path / "images", "images", rows, filtered={"rule": 3})
    first, second = (row["image_id"] for row in rows[:2])
    for number, name in enumerate((first, second), start=1):
        result = rewrite(uri, name)
        assert result == Rewritten({uri: 1}, {}, {uri: 1}, {})
        (footer,) = open_table(uri).footers
        assert footer.record is not None
        assert (footer.record["generation"], len(footer.record["retired"])) == (number, number)
        counts = open_table(uri).counts()
        assert (counts.rows_in, counts.rows_out, counts.filtered) == (7, 4 - number, {"rule": 3, PURGED: number})
        assert counts.tallies == {"steps": {"/all/matched": 7, "/all/rule": 4}}
        assert counts.status == {"ok": 4 - number}
        manifest = json.loads((tmp_path / "images" / "_run" / "manifest.json").read_text())
        assert manifest["counts"] == counts.to_json()
    assert rewrite(uri, first) == Rewritten()
    vectors = embedding_rows([first, second], "image", np.eye(2, 4))
    uri = write_units(tmp_path / "vectors", "embeddings", [vectors], encoder="e", preprocessing="p")
    before = open_table(uri).footers[0].schema
    rewrite(uri, first)
    after = open_table(uri).footers[0].schema
    assert after.types == before.types
    names = [name for name in before.metadata if name.startswith(b"remine.") and name != b"remine.unit"]
    assert b"remine.encoder" in names
    assert {name: after.metadata[name] for name in names} == {name: before.metadata[name] for name in names}


def test_a_rewritten_object_has_no_record_of_its_earlier_rows(tmp_path: Path) -> None:
    """The record has an example of each kind of failure."""
    rows = [image_row("https://i/gone.jpg", status="missing"), image_row("https://i/stays.jpg", status="error")]
    uri = write_table(tmp_path / "images", "images", rows)

    def named() -> list[bool]:
        content = (tmp_path / "images" / "unit.parquet").read_bytes()
        return [name in content for name in (b"gone.jpg", b"stays.jpg")]

    assert named() == [True, True]
    rewrite(uri, rows[0]["image_id"])
    assert named() == [False, True]


def test_rejects_that_name_a_picture_are_removed_and_counted(tmp_path: Path) -> None:
    """Also where no row does: by their text, message or file."""
    texts = {"raw": GONE, "message": f"no {GONE}", "file": f"x/{GONE}.jpg"}
    plain: dict[str, Any] = {"file": "f", "position": 0, "reason": "r", "message": "m", "raw": "x"}
    rejects = [Reject(**(plain | {key: text})) for key, text in texts.items()]
    assert [_names(reject, Needles(Gone({GONE}))) for reject in [*rejects, Reject(**plain)]] == [
        True, True, True, False
    ]  # fmt: skip
    uri = write(str(tmp_path / "records"), "records", {"unit0": [record("a")], "unit1": [record("b")]},
                rejects={"unit0": ["other"], "unit1": [f"x {GONE}", "other", f"y {GONE}", "more"]})  # fmt: skip
    needles = Needles(Gone({GONE}, pictures={GONE}))
    assert rejects_to_remove(open_table(uri), needles) == 2
    result = rewrite(uri, GONE)
    assert result == Rewritten({uri: 2}, {}, {uri: 1}, {})
    counts = open_table(uri).counts()
    assert (counts.rows_in, counts.rows_out, counts.filtered, counts.rejected.total()) == (7, 2, {PURGED: 2}, 3)
    assert rejects_to_remove(open_table(uri), needles) == 0
    stored = [pq.read_table(path)["raw"].to_pylist() for path in (tmp_path / "records" / "_rejects").iterdir()]
    assert sorted(stored) == [["other"], ["other", "more"]]


def test_tables_made_from_a_rewritten_one_name_its_new_objects(tmp_path: Path) -> None:
    """Pieces cover the rows that are left of their ranges; a draw is left to the next run of its command."""
    images = write(f"{tmp_path}/z", "images", {"unit0": PICTURES[:3], "unit1": PICTURES[3:]})
    vectors = [rating(name, "m", "q", "1") for name in IDS]
    keys = {"piece": piece_of(0, 3), "extra": {PIECES: 1, FROM: 0, TO: 3}}
    pieces = write(f"{tmp_path}/pieces", "ratings", {"unit0": vectors[:3], "unit1": vectors[3:]}, images, **keys)
    draws = write(
        f"{tmp_path}/draws", "ratings", {"unit0": vectors[1:2], "unit1": vectors[3:4]}, images, piece="draw 1"
    )
    later = write(f"{tmp_path}/a", "ratings", {"unit0": vectors[:3], "unit1": vectors[3:]}, pieces)
    tables = [open_table(uri) for uri in (later, pieces, draws, images)]
    before = {table.uri: table.by_unit() for table in tables}
    needles = Needles(Gone({IDS[1]}, pictures={IDS[1]}))
    result = rewrite_tables(tables, needles, ("list", b""), purge="p")
    one = dict.fromkeys((images, pieces, draws, later), 1)
    assert result == Rewritten(one, {}, one, {draws: 1})
    after = {uri: open_table(uri).by_unit() for uri in before}
    assert {uri: after[uri]["unit1"] == before[uri]["unit1"] for uri in before} == dict.fromkeys(before, True)
    units = {uri: {footer.unit.name: footer.unit for footer in open_table(uri).footers} for uri in before}
    assert units[pieces]["unit0"].inputs == (after[images]["unit0"],) != (before[images]["unit0"],)
    assert units[later]["unit0"].inputs == (after[pieces]["unit0"],)
    assert (units[pieces]["unit0"].piece, units[pieces]["unit0"].rows) == (piece_of(0, 2), 2)
    assert units[draws]["unit0"].inputs == (before[images]["unit0"],)
    ranges = {unit.name: (unit.extra[FROM], unit.extra[TO]) for unit in begun_units(pieces)}
    assert ranges == {"unit0": (0, 2), "unit1": (0, 3)}


@pytest.mark.parametrize("complete", [True, False])
def test_only_jobs_with_exclusions_keep_the_list(tmp_path: Path, complete: bool) -> None:
    def files_after(config: dict[str, Any], identity: dict[str, Any] | None, digest: str = "new") -> dict[str, Any]:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        (folder / "_run").mkdir(parents=True)
        contents: dict[str, Any] = {"config.json": config}
        if identity is not None:
            contents["identity.json"] = identity
        if complete:
            contents |= {"manifest.json": {"config": config, "identity": {"a": 1}}, "config.json": {"other": 1}}
        for name, content in contents.items():
            (folder / "_run" / name).write_text(json.dumps(content))
        keep_list(str(folder), digest, b"marks")
        after = {path.name: path.read_bytes() for path in (folder / "_run").iterdir()}
        return {
            name: data if name == KEPT else json.loads(data) for name, data in after.items() if name != "config.json"
        }

    listed, key = {"exclusions": None}, {"by": "hand"}
    of_run = {"manifest.json": {"config": listed, "identity": {"a": 1, "exclusions": "new"}}} if complete else {}
    assert files_after(listed, key) == {**of_run, KEPT: b"marks", "identity.json": key | {"exclusions": "new"}}
    assert KEPT not in files_after({}, key)
    assert KEPT not in files_after(listed, None)
    assert KEPT not in files_after(listed, key | {"exclusions": "new"})  # it has the list already
    assert files_after(listed, key | {"exclusions": "old"})["identity.json"] == key | {"exclusions": "new"}

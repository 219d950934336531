"""The pieces of the parent's units, and the rows that are copied into them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.curate import CurateConfig
from jobs.curation import curated_units as cutting
from jobs.curation.apply_rules import CurationTables, select
from jobs.curation.curated_units import ParentRows, pieces
from jobs.runtime.configuration import config
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.object_rows import read_unit
from jobs.store.reading import open_table
from tests.factories import record, write_records


def test_pieces_cover_every_row_once_and_in_order(tmp_path: Path) -> None:
    units = [
        [record(f"{u}{i}", main="true" if (i + (u == "c")) % 3 else "false") for i in range(n)]
        for u, n in (("a", 20), ("b", 0), ("c", 4))
    ]
    write_records(str(tmp_path / "m"), units)
    source = open_table(str(tmp_path / "m"))
    settings = config.load("curate", CurateConfig, ["input=i", "out=o"])
    selection = select(settings, CurationTables(source), ExclusionFilter(frozenset()))
    staying = {row["record_id"] for rows in units for row in rows if row["is_main_image"] == "true"}
    for unit_rows in (1, 3, 4, 100):
        cut = list(pieces(source, selection, unit_rows))
        assert len({u.name for u in cut}) == len(cut)
        assert [u.parent for u in cut if not u.rows] == ["unit1"], "the unit without rows"
        seen: list[str] = []
        for unit in cut:
            ids = read_unit(unit.inputs[0].uri)["record_id"].to_pylist()[unit.extra["from"] : unit.extra["to"]]
            assert len(ids) == unit.rows
            assert sum(i in staying for i in ids) <= unit_rows
            assert unit.extra["offset"] + unit.extra["from"] == len(seen)
            assert unit.piece.endswith(selection.fingerprint(len(seen), len(seen) + len(ids)))
            seen += ids
        assert seen == [row["record_id"] for rows in units for row in rows]
        more = {unit.parent: 2 + [u.parent for u in cut].count(unit.parent) for unit in cut}
        kept = list(pieces(source, selection, unit_rows, begun=more))
        assert [unit.name for unit in kept if unit.rows] == [unit.name for unit in cut if unit.rows]
        assert {unit.parent: [u.parent for u in kept].count(unit.parent) for unit in kept} == more
        single = list(pieces(source, selection, unit_rows, begun=dict.fromkeys(more, 1)))
        assert [(unit.extra["from"], unit.rows) for unit in single] == [(0, 20), (0, 0), (0, 4)]


def test_rows_are_read_a_row_group_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"n": list(range(100))}), path, row_group_size=10)
    rng = np.random.default_rng(0)
    parent, files = ParentRows(), []
    for first, last in ((0, 100), (0, 35), (35, 36), (36, 90), (90, 100), (5, 5)):
        stays = rng.random(last - first) < 0.4
        for at_a_time in (1000, 6):
            monkeypatch.setattr(cutting, "ROWS_AT_A_TIME", at_a_time)
            parts = [rows["n"].to_pylist() for rows in parent.selected(path, first, stays)]
            assert [n for part in parts for n in part] == (np.flatnonzero(stays) + first).tolist()
            assert max(map(len, parts), default=0) < at_a_time + 10  # the last row group may be whole
        files.append(parent._file)
    assert all(file is files[0] for file in files)  # it is opened once
    other = str(tmp_path / "y.parquet")
    pq.write_table(pa.table({"n": list(range(100, 110))}), other)
    for source, first, is_last in ((path, 0, False), (other, 100, True), (other, 100, False), (path, 0, True)):
        (rows,) = parent.selected(source, 0, np.array([True, False, True]))
        assert rows["n"].to_pylist() == [first, first + 2]
        if is_last:
            parent.close()

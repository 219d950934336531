"""Positions of removed rows, and earlier generations of a unit without names of pictures."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.purging.matching import Gone
from jobs.purging.needles import Needles
from jobs.purging.rewriting import _anonymous, _matching
from jobs.runtime.selection.exclusions import TALLY


def test_positions_are_those_in_the_object_whatever_its_row_groups(tmp_path: Path) -> None:
    ids = ["a", "gone", "b", "c", "gone", "gone", "d"]
    table = pa.table({"image_id": ids, "title": ["", "", "", "", "", "", ""]})
    for rows in (2, 3, 10):
        pq.write_table(table, tmp_path / "unit.parquet", row_group_size=rows)
        removed, mentions = _matching(str(tmp_path / "unit.parquet"), Needles(Gone({"gone"})), ("image_id",))
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

"""Rows that are kept if an annotation is repeated in another file."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.annotation import model
from jobs.annotation.importing import ROWS_SPOOL, Importer, ImportSettings
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files.objects import Object


def kept(folder: Path, files: list[list[dict[str, Any]]], duplicates: str) -> list[int]:
    """Begins of the spans that stay, of one person's spans in one text in files at the times 0, 1, …"""
    shared = {"item_id": "i", "rater": "ada", "text_id": "t", "kind": "mistake"}
    tables = {
        f"f{number}": model.table(
            [{**shared, "end": row["start"] + 1, "time": float(number), "position": place, **row}
             for place, row in enumerate(rows)],
            model.SPANS,
        )
        for number, rows in enumerate(files)
    }  # fmt: skip
    importer = Importer(
        ImportSettings(table="spans", duplicates=duplicates),
        [Object(name, 1, "e") for name in tables],
        lambda uri, _: iter([tables[uri]]),
        exclusion_filter=ExclusionFilter(frozenset()),
        pseudonym=None,
    )
    importer.read(folder, named="input=x")
    stays, _ = importer._decide()
    starts: list[int] = pq.read_table(folder / ROWS_SPOOL)["start"].filter(pa.array(stays)).to_pylist()
    return starts


@pytest.mark.parametrize("number", [5, None])  # files may not number their annotations
def test_spans_of_two_files_are_two_annotations_whatever_their_numbers(tmp_path: Path, number: int | None) -> None:
    files = [[{"start": start, "annotation": number} for start in starts] for starts in ((1, 2), (3, 4))]
    assert kept(tmp_path, files, "last") == [3, 4]
    assert kept(tmp_path, files, "first") == [1, 2]
    assert kept(tmp_path, files[:1], "refuse") == [1, 2]
    with pytest.raises(InputError, match="duplicates=refuse: f1, position 0 has the same"):
        kept(tmp_path, files, "refuse")


def test_of_two_annotations_of_one_file_the_later_stays(tmp_path: Path) -> None:
    rows = [{"start": start, "annotation": number} for start, number in ((1, 5), (2, 5), (3, 6))]
    assert kept(tmp_path, [rows], "last") == [3]
    assert kept(tmp_path, [rows], "first") == [1, 2]

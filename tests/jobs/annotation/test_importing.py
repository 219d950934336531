"""Rows that are kept if an annotation is repeated in another file."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.annotation import importing, model
from jobs.annotation.importing import ROWS_SPOOL, Importer, ImportSettings
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files.objects import Object
from jobs.store.writer import Reject


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


def test_rejects_are_spooled_in_their_order_and_the_first_ones_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rejects = [Reject("f", number, "reason", "message", f"{number}") for number in range(7)]
    for held in (1, 3, 7, 100):
        monkeypatch.setattr(importing, "REJECTS_HELD", held)
        with importing._RejectSpool(tmp_path / "rejects.parquet") as spool:
            for reject in rejects:
                spool(reject)
        assert (spool.count, spool.first) == (7, rejects[:3])
        assert list(importing._spooled(tmp_path / "rejects.parquet")) == rejects


def test_an_import_without_rows_names_its_first_reject(tmp_path: Path) -> None:
    def importer(rows: list[dict[str, Any]], *rejects: Reject, table: str = "spans", **keys: Any) -> Importer:
        def read(_: str, reject: Any) -> Any:
            for one in rejects:
                reject(one)
            yield model.table(rows, model.SCHEMAS[table])

        keys = {"exclusion_filter": ExclusionFilter(frozenset()), "pseudonym": None, **keys}
        return Importer(ImportSettings(table=table), [Object("f", 1, "e")], read, **keys)

    wrong = Reject("f", 2, "bad_end", "the span ends before it begins")
    for rejects, message in (
        ((), r"^input=x: nothing to import for table spans \(no rows\)$"),
        ((wrong, wrong), r"^input=x: nothing to import for table spans \(2 rejects, the first: the span ends before"),
    ):
        with pytest.raises(InputError, match=message):
            importer([], *rejects).read(tmp_path, named="input=x")
    span = {"item_id": "i", "rater": "ada", "text_id": "t", "kind": "mistake", "start": 0, "end": 1}
    excluded = importer([span], exclusion_filter=ExclusionFilter(frozenset({"i"})))
    excluded.read(tmp_path, named="input=x")  # of excluded items alone
    assert not (tmp_path / ROWS_SPOOL).exists()
    raters = importer([{"rater": "ada"}], table="raters", pseudonym=lambda name: f"p-{name}")
    raters.read(tmp_path, named="input=x")
    assert raters._people.table()["rater"].to_pylist() == ["p-ada"]

"""Rows of CSV and Parquet as the readers give them: what each column becomes, and which rows are rejected."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.annotation import tabular
from jobs.annotation.columns import RatingColumns, Reading
from jobs.errors import InputError
from jobs.store.writer import Reject


def read(
    path: Path, table: str, *, columns: RatingColumns | None = None, **reading: Any
) -> tuple[list[Any], list[Any]]:
    """Return the rows, and (position, reason) of the rejects."""
    rejects: list[Reject] = []
    asked = Reading(table, columns or RatingColumns(), None, **reading)
    reader = tabular.read_parquet if path.suffix == ".parquet" else tabular.read_csv
    rows = [row for batch in reader(str(path), asked, rejects.append) for row in batch.to_pylist()]
    return rows, [(reject.position, reject.reason) for reject in rejects]


def test_samples_and_durations_of_the_long_form(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "item_id,rater,value,question,sample,seconds\n"
        "i,a,4,q,0,1.5\ni,a,3,q,2147483647,-1\ni,a,2,q,1.0,nan\ni,a,1,q,-1,2\ni,a,1,q,2147483648,2\ni,a,1,q,1.5,2\n"
    )
    rows, rejects = read(path, "ratings")
    kept = [(row["answer"], row["question"], row["sample"], row["seconds"]) for row in rows]
    assert kept == [("4", "q", 0, 1.5), ("3", "q", 2**31 - 1, None), ("2", "q", 1, None)]
    assert rejects == [(5, "bad_sample"), (6, "bad_sample"), (7, "bad_sample")]


@pytest.mark.parametrize("file", ["a.csv", "a.parquet"])
def test_free_texts_have_their_field_time_and_sample(tmp_path: Path, file: str) -> None:
    cells = {
        "model": ["m", "m", " "],
        "item": ["1", "2", "3"],
        "why": ["because", None, "lost"],
        "else": ["x", "y", "z"],
        "sample": ["3", "4", "5"],
        "time": ["10", None, "30"],
    }
    path = tmp_path / file
    if path.suffix == ".csv":
        lines = [",".join(cell or "" for cell in line) for line in zip(*cells.values(), strict=True)]
        path.write_text("\n".join([",".join(cells), *lines]) + "\n")
    else:
        pq.write_table(pa.table(cells), path)
    columns = RatingColumns(item_id="model+item", remarks={"reason": "why", "other": "else"})
    rows, rejects = read(path, "remarks", columns=columns, rater="anna")
    first = 2 if path.suffix == ".csv" else 1  # a line of the file, or a row from 1
    names = ("item_id", "rater", "field", "text", "sample", "time", "annotation")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("m/1", "anna", "reason", "because", 3, 10.0, first),
        ("m/2", "anna", "reason", None, 4, None, first + 1),
        ("m/1", "anna", "other", "x", 3, 10.0, first),
        ("m/2", "anna", "other", "y", 4, None, first + 1),
    ]
    assert rejects == [(first + 2, "no_item_id")]


def test_spans_have_whole_numbers_in_order_and_probabilities(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    spans = ["0,5,0.5", "5,5,1", "6,5,1", "0,x,1", ",5,1", "0,5,1.01", "0,5,-0.01", "0,5,0", "0,5,", "0,5,word"]
    lines = "".join(f"i,a,t,mistake,{span}\n" for span in spans)
    path.write_text(f"item_id,rater,text_id,kind,start,end,probability\n{lines}")
    rows, rejects = read(path, "spans")
    assert [(row["start"], row["end"], row["probability"]) for row in rows] == [
        (0, 5, 0.5), (5, 5, 1.0), (0, 5, 0.0), (0, 5, None), (0, 5, None)
    ]  # fmt: skip
    assert rejects == [(6, "no_start"), (5, "bad_end"), (4, "bad_end"), (7, "bad_probability"), (8, "bad_probability")]


def test_an_invalid_time_and_a_column_without_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("item_id,rater,value,time\ni,a,4,noon\n")
    with pytest.raises(InputError, match=r"columns\.time holds 'noon', neither ISO 8601 nor seconds since 1970"):
        read(path, "ratings", question="q")
    table = tmp_path / "a.parquet"
    pq.write_table(pa.table({"item_id": ["i"], "rater": ["a"], "value": [[4]]}), table)
    with pytest.raises(InputError, match=r"column value holds list<.*>, not text or numbers"):
        read(table, "ratings", question="q")
    pq.write_table(pa.table({"item_id": pa.array([], pa.string()), "rater": [], "value": []}), table)
    with pytest.raises(InputError, match="no rows"):
        read(table, "ratings", question="q")


@pytest.mark.parametrize(("private", "raw"), [(False, "item_id=i value=4 position=2"), (True, "")])
def test_private_cells_stay_out_of_rejects(tmp_path: Path, private: bool, raw: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("item_id,rater,value\ni,,4\n")
    rejects: list[Reject] = []
    asked = Reading("ratings", RatingColumns(), None, question="q", private=private)
    assert [batch.num_rows for batch in tabular.read_csv(str(path), asked, rejects.append)] == [0]
    assert [(reject.reason, reject.raw) for reject in rejects] == [("no_rater", raw)]


def test_one_rater_of_all_rows_needs_a_file_without_raters(tmp_path: Path) -> None:
    """Otherwise the answers of several people would become repeated ones of one person, of which the last stays."""
    (tmp_path / "one.csv").write_text("item_id,value,question,who\ni,1,q,\nj,2,q,bo\n")
    rows, rejects = read(tmp_path / "one.csv", "ratings", rater="anna")
    assert ([(row["item_id"], row["rater"]) for row in rows], rejects) == ([("i", "anna"), ("j", "anna")], [])
    (tmp_path / "two.csv").write_text("item_id,rater,value,question\ni,bo,1,q\ni,cy,2,q\n")
    for file, columns in (("two.csv", RatingColumns()), ("one.csv", RatingColumns(rater="who"))):
        with pytest.raises(InputError, match=r"rater=anna: .* names the raters in its column (rater|who); omit rater="):
            read(tmp_path / file, "ratings", columns=columns, rater="anna")

"""Rows that are kept if an annotation is repeated in another file, and their counts."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.rubrics.people import FreeText
from jobs.annotation import importing, model
from jobs.annotation.answers import of_list
from jobs.annotation.importing import ROWS_SPOOL, Importer, ImportSettings
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.counts import Counts
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


def imported(
    folder: Path, table: str, files: list[list[dict[str, Any]]], *, excluded: tuple[str, ...] = (), **settings: Any
) -> tuple[list[dict[str, Any]], Counts, dict[str, int]]:
    """Return the rows that an import of files writes, their counts, and how many people reported each picture."""
    batches = {f"f{number}": model.table(rows, model.SCHEMAS[table]) for number, rows in enumerate(files)}
    importer = Importer(
        ImportSettings(table=table, **settings),
        [Object(name, 1, "e") for name in batches],
        lambda uri, _: iter([batches[uri]]),
        exclusion_filter=ExclusionFilter(frozenset(excluded)),
        pseudonym=None,
    )
    importer.read(folder, named="input=x")
    written: list[dict[str, Any]] = []
    writer: Any = SimpleNamespace(counts=Counts(), write=lambda rows: written.extend(rows.to_pylist()))
    importer.write(folder, writer)
    writer.counts.rows_out = len(written)
    assert writer.counts.balances()
    return written, writer.counts, importer.reported()


def test_each_batch_that_is_written_has_its_own_rows_and_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "ROWS_AT_A_TIME", 2)
    shared = {"rater": "ada", "question": "q"}
    answers = [("i", "1"), ("j", "2"), ("i", "3"), ("k", "1"), ("i", "2")]
    rows = [{**shared, "item_id": item, "answer": answer, "position": n} for n, (item, answer) in enumerate(answers)]
    expected = {
        "last": [("j", "2", 0), ("k", "1", 0), ("i", "2", 0)],
        "first": [("i", "1", 0), ("j", "2", 0), ("k", "1", 0)],
        "sample": [("i", "1", 0), ("j", "2", 0), ("i", "3", 1), ("k", "1", 0), ("i", "2", 2)],
    }
    for rule, kept_rows in expected.items():
        for parts in ([rows], [rows[:3], rows[3:]]):
            written, counts, _ = imported(
                tmp_path, "ratings", parts, duplicates=rule, questionnaire=of_list("r", ["1", "2", "3"], ordinal=True)
            )
            assert [(row["item_id"], row["value"], row["sample"]) for row in written] == kept_rows, rule
            assert (counts.rows_in, counts.filtered["repeated"]) == (5, 5 - len(kept_rows))


def test_a_file_of_earlier_remarks_alone_leaves_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "ROWS_AT_A_TIME", 2)
    entry = {"item_id": "i", "field": "why", "annotation": 1, "position": 1}
    earlier = [{**entry, "rater": rater, "text": "x", "time": 1.0} for rater in ("ada", "bo")]
    later = [{**entry, "rater": "ada", "text": "y", "time": 2.0}, {**entry, "rater": "bo", "text": None, "time": 2.0}]
    written, counts, _ = imported(tmp_path, "remarks", [earlier, later], free_texts=[FreeText("why", "Why?")])
    assert [(row["rater"], row["text"]) for row in written] == [("ada", "y")]
    assert (counts.rows_in, dict(counts.filtered)) == (4, {"repeated": 2, "empty": 1})


@pytest.mark.parametrize("table", ["ratings", "spans", "remarks"])
def test_rows_of_an_excluded_item_or_picture_are_left_out_and_counted_once(tmp_path: Path, table: str) -> None:
    shared = {"rater": "ada", "question": "q", "answer": "1", "field": "why", "text": "x", "text_id": "t",
              "kind": "mistake", "start": 0, "end": 1, "annotation": 1, "position": 1}  # fmt: skip
    columns = model.SCHEMAS[table].names
    rows = [
        {name: value for name, value in {**shared, "item_id": item, "images": [picture]}.items() if name in columns}
        for item, picture in (("i", "p"), ("j", "q"), ("k", "q"))
    ]
    assert "images" in columns
    settings = {"questionnaire": of_list("r", ["1", "2"], ordinal=True), "free_texts": [FreeText("why", "Why?")]}
    written, counts, _ = imported(tmp_path, table, [rows], excluded=("k", "p"), **settings)
    assert [row["item_id"] for row in written] == ["j"]
    assert (counts.rows_in, dict(counts.filtered)) == (3, {"excluded": 2})
    assert counts.tallies["exclusions"] == {"p": 1, "k": 1}


def test_raters_of_several_rows_are_counted(tmp_path: Path) -> None:
    rows = [{"rater": "ada", "country": "Peru"}, {"rater": "bo"}, {"rater": "ada", "country": "Mali"}]
    written, counts, _ = imported(tmp_path, "raters", [rows[:2], rows[2:]], rater_kind="model")
    assert [(row["rater"], row["kind"], row["country"]) for row in written] == [
        ("ada", "model", None), ("bo", "model", None)
    ]  # fmt: skip
    assert (counts.rows_in, dict(counts.filtered), counts.tallies) == (
        3, {"seen_before": 1}, {"conflicts": {"country": 1}}
    )  # fmt: skip


def test_reports_are_about_the_pictures_of_an_item(tmp_path: Path) -> None:
    shared = {"question": "q", "status": "reported", "position": 1}
    people: list[tuple[str, str, list[str] | None]] = [
        ("i", "ada", ["q", "p"]), ("i", "bo", ["q", "p"]), ("j", "bo", ["q"]), ("k", "cy", None)
    ]  # fmt: skip
    rows = [{**shared, "item_id": item, "rater": rater, "images": images} for item, rater, images in people]
    questionnaire = of_list("r", ["1", "2"], ordinal=True)
    _, counts, reported = imported(tmp_path, "ratings", [rows], questionnaire=questionnaire)
    assert (reported, list(reported)) == ({"p": 2, "q": 2, "k": 1}, ["k", "p", "q"])
    assert counts.tallies["reports"] == {
        "tasks": 4, "of_tasks": 4, "items": 3, "of_items": 3, "people": 3, "of_people": 3
    }  # fmt: skip

"""Rows that are kept if an annotation is repeated in another file, and their counts."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.ids import content_id
from actors.rubrics.people import FreeText
from jobs.annotation import batch_schemas, importing
from jobs.annotation.importing import ROWS_SPOOL, Importer, ImportSettings, ItemNames, Repeats
from jobs.annotation.questionnaire import list_questionnaire
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.counts import Counts
from jobs.store.files.objects import Object
from jobs.store.reading import open_table
from jobs.store.writer import Reject
from tests.factories import rows_of, write_csv, write_table


def kept(folder: Path, files: list[list[dict[str, Any]]], duplicates: str) -> list[int]:
    """Begins of the spans that stay, of one person's spans in one text in files at the times 0, 1, …"""
    shared = {"item_id": "i", "rater": "ada", "text_id": "t", "kind": "mistake"}
    tables = {
        f"f{number}": batch_schemas.table(
            [{**shared, "end": row["start"] + 1, "time": float(number), "position": place, **row}
             for place, row in enumerate(rows)],
            batch_schemas.SPANS,
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
            yield batch_schemas.table(rows, batch_schemas.SCHEMAS[table])

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
    batches = {
        f"f{number}": batch_schemas.table(rows, batch_schemas.SCHEMAS[table]) for number, rows in enumerate(files)
    }
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
                tmp_path,
                "ratings",
                parts,
                duplicates=rule,
                questionnaire=list_questionnaire("r", ["1", "2", "3"], ordinal=True),
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
    columns = batch_schemas.SCHEMAS[table].names
    rows = [
        {name: value for name, value in {**shared, "item_id": item, "images": [picture]}.items() if name in columns}
        for item, picture in (("i", "p"), ("j", "q"), ("k", "q"))
    ]
    assert "images" in columns
    settings = {
        "questionnaire": list_questionnaire("r", ["1", "2"], ordinal=True),
        "free_texts": [FreeText("why", "Why?")],
    }
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
    questionnaire = list_questionnaire("r", ["1", "2"], ordinal=True)
    _, counts, reported = imported(tmp_path, "ratings", [rows], questionnaire=questionnaire)
    assert (reported, list(reported)) == ({"p": 2, "q": 2, "k": 1}, ["k", "p", "q"])
    assert counts.tallies["reports"] == {
        "tasks": 4, "of_tasks": 4, "items": 3, "of_items": 3, "people": 3, "of_people": 3
    }  # fmt: skip


# key, time (None: unknown) and annotation
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(-1, 2), st.integers(0, 2)), max_size=8)


@given(rows=ROWS, cut=st.integers(0, 8))
def test_rows_stay_by_their_times_and_then_by_their_order(rows: list[tuple[str, int | None, int]], cut: int) -> None:
    repeats = Repeats(["key"])
    for part in (rows[:cut], rows[cut:]):
        if part:
            times = pa.chunked_array([[time for _, time, _ in part]], pa.float64())
            repeats.add(pa.table({"key": pa.array([key for key, _, _ in part], pa.string())}), times)

    def place(row: int) -> tuple[float, int]:
        time = rows[row][1]
        return (-np.inf if time is None else time), row

    of_key = defaultdict(list)
    for row in sorted(range(len(rows)), key=place):
        of_key[rows[row][0]].append(row)
    ordered = of_key.values()
    stay = {"first": {group[0] for group in ordered}, "last": {group[-1] for group in ordered}}
    assert repeats.ranks().tolist() == [of_key[key].index(row) for row, (key, _, _) in enumerate(rows)]
    annotations = np.array([annotation for _, _, annotation in rows], np.int64)
    for rule, kept in stay.items():
        assert set(np.flatnonzero(repeats.keeps(rule))) == kept
        with_kept = {(rows[row][0], rows[row][2]) for row in kept}
        together = [(key, annotation) in with_kept for key, _, annotation in rows]
        assert repeats.keeps_with(rule, annotations).tolist() == together
    assert repeats.keeps("sample").tolist() == [True] * len(rows)
    later = [row for row, (key, _, _) in enumerate(rows) if key in [k for k, _, _ in rows[:row]]]
    assert repeats.first_repeat() == (later[0] if later else None)


def test_rows_without_times_stay_by_their_order() -> None:
    repeats = Repeats(["person", "item"])
    repeats.add(pa.table({"person": ["a", "a", "a"], "item": ["x", "y", "x"]}), None)
    assert repeats.ranks().tolist() == [0, 0, 1]
    assert repeats.keeps("last").tolist() == [False, True, True]


KEYS = ["question=fit", "answers=[1,2]", "columns.item_id=file"]


@pytest.fixture
def items(tmp_path):
    pictures = {"i0": ["00.png"], "i1": ["https://x/1.png"], "i2": ["sub/2.png"], "i3": ["sub/2.png", "3.png"]}
    rows: list[dict[str, Any]] = [{"item_id": name, "image_ids": [content_id(picture) for picture in of_item]}
            for name, of_item in pictures.items()]  # fmt: skip
    rows.append({"item_id": "text", "image_ids": None})
    return write_table(tmp_path / "items", "items", rows)


def found_items(tmp_path, names, *more):
    source = write_csv(tmp_path / "people.csv", ["file", "rater", "value"], [[name, "p", "1"] for name in names])
    out = tmp_path / "R"
    manifest: Any = cli.execute("import_ratings", [f"input={source}", *KEYS, *more, f"out={out}", "overwrite=true"])
    return [row["item_id"] for row in rows_of(str(out))], manifest["counts"]["rejected"]


def test_ids_paths_and_urls_become_items(tmp_path, items):
    names = ["00.png", "https://x/1.png", "3.png", content_id("00.png"), "i1", "nothing.png", "sub/2.png", "text"]
    resolved, rejects = found_items(tmp_path, names, f"items={items}", "duplicates=sample")
    assert resolved == ["i0", "i1", "i3", "i0", "i1", "text"]
    assert rejects == {"unknown_item": 1, "several_items": 1}


def test_absolute_paths_become_items_or_are_rejected(tmp_path, items):
    names = ["/home/ada/photos/00.png", "C:\\photos\\3.png", "D:\\00.png", "/home/ada/sub/2.png", "/home/ada/9.png"]
    resolved, rejects = found_items(tmp_path, names, f"items={items}", "duplicates=sample")
    assert resolved == ["i0", "i3", "i0"]
    assert rejects == {"unknown_item": 1, "several_items": 1}
    resolved, rejects = found_items(tmp_path, [*names, "a.png"])
    assert resolved == ["a.png"]
    assert rejects == {"absolute_path": 5}


def test_a_file_without_any_item_is_refused_with_its_first_name(tmp_path, items):
    with pytest.raises(InputError, match=r"'x\.png'"):
        found_items(tmp_path, ["x.png"], f"items={items}")
    with pytest.raises(InputError, match=r"nowhere: .*must be id, url or a table of items"):
        found_items(tmp_path, ["x.png"], f"items={tmp_path}/nowhere")


def test_excluded_pictures_stay_excluded(tmp_path, items):
    (tmp_path / "excluded.txt").write_text(content_id("00.png"))
    assert found_items(tmp_path, ["00.png", "3.png"], f"items={items}", f"exclusions={tmp_path}/excluded.txt")[0] == [
        "i3"
    ]


@pytest.mark.parametrize("private", [False, True])
def test_rejects_of_private_files_have_no_names(items, private):
    names = ItemNames(open_table(items), private=private)
    rejects: list[Any] = []
    rows = pa.table({"item_id": ["i1", "secret", "00.png", "sub/2.png"], "position": [2, 3, 4, 5]})
    resolved = names.resolve(rows, file="people.csv", reject=rejects.append)
    assert resolved.to_pydict() == {"item_id": ["i1", "i0"], "position": [2, 4]}
    assert [(reject.file, reject.position, reject.reason) for reject in rejects] == [
        ("people.csv", 3, "unknown_item"), ("people.csv", 5, "several_items")
    ]  # fmt: skip
    problems = ["no", "more than one"]
    shown = ["the row's name"] * 2 if private else ["'secret'", "'sub/2.png'"]
    assert [reject.message.partition(" as its id")[0] for reject in rejects] == [
        f"{problem} item of items={items} has {name}" for problem, name in zip(problems, shown, strict=True)
    ]
    assert [reject.raw for reject in rejects] == (["", ""] if private else ["secret", "sub/2.png"])

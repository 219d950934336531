"""Rows and output of a unit of `mine`, without Ray, and refusals of wrong keys."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors.ids import content_id
from actors.titles import Fold
from jobs import mine
from jobs.corpora.corpus import MatchedRow
from jobs.corpora.terms import pack
from jobs.corpora.wit import reader, row_index
from jobs.errors import InputError
from jobs.mine import MineConfig
from jobs.runtime.configuration.config import load
from jobs.runtime.selection import exclusions
from jobs.store.counts import Counts
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan, limited
from jobs.store.units import unit_of_file
from jobs.store.writer import UnitWriter
from jobs.tables import WIT_COLUMNS
from jobs.workers import mine as worker
from jobs.workers.mine import MineUnit

HEADER = "language\tpage_url\timage_url\tpage_title\tis_main_image\n"
TERMS = {"pain": ("manual",), "war": ("graph", "manual"), "world war": ("graph",)}


class Said:
    """Stands for the reporter: what was added up."""

    def __init__(self) -> None:
        self.done, self.notes = 0, Counter[str]()

    def add(self, done: int, **notes: int) -> None:
        self.done += done
        self.notes.update(notes)


def opened(tmp_path: Path, *titles: str, limit: int | None = None) -> TableRun:
    path = tmp_path / "wit.train.tsv"
    rows = "".join(f"en\thttps://p/{n}\thttps://i/{n}\t{title}\ttrue\n" for n, title in enumerate(titles))
    path.write_text(HEADER + rows, encoding="utf-8")
    from jobs.store.files import locations

    units = [unit_of_file(o) for o in locations.find(str(path))]
    return open_run(
        limited(TablePlan(str(tmp_path / "out"), "records", {}, units, {}, {}, derived=False), limit),
        resume=True, overwrite=False, retry=[],
    )  # fmt: skip


def mined(
    tmp_path: Path, *titles: str, listed: str | None = None, limit: int | None = None, **keys: Any
) -> tuple[list[dict[str, Any]], Counts, Said]:
    run = opened(tmp_path, *titles, limit=limit)
    settings = {"match": "substring", "fold": Fold(), "corpus": "wit", "language": "en", "step": 10, **keys}
    excluded = exclusions.keep(run, exclusions.read_exclusions(listed))
    unit = MineUnit(terms=run.keep("terms.json", pack(TERMS)), excluded=excluded, **settings)
    message = Said()
    (task,) = run.todo
    with UnitWriter(run.target, task) as writer:
        unit(task, writer, message)  # type: ignore[arg-type]
    import pyarrow.parquet as pq

    return pq.read_table(run.target.data_uri(task.unit.name)).to_pylist(), writer.counts, message


def test_terms_that_hit_stay_on_the_row_with_their_sources(tmp_path: Path) -> None:
    rows, counts, message = mined(tmp_path, "World War II", "Spain", "peace")
    assert [(row["page_title"], row["terms"], row["methods"]) for row in rows] == [
        ("World War II", ["war", "world war"], ["graph", "manual"]),
        ("Spain", ["pain"], ["manual"]),
    ]
    assert {row["split"] for row in rows} == {"train"}
    assert counts.tallies["term"] == {"war": 1, "world war": 1, "pain": 1}
    assert (message.notes["matched"], message.notes["rows"]) == (2, 3)


def test_a_limit_ends_a_file_after_so_many_records(tmp_path: Path) -> None:
    rows, counts, _ = mined(tmp_path, "peace", "World War II", "bread", "Spain", "the war", limit=2)
    assert [row["page_title"] for row in rows] == ["World War II", "Spain"]
    assert counts.rows_out == 2
    assert counts.balances()
    assert not counts.rejected


def test_records_are_written_some_at_a_time_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at_a_time in (1, 2, 3, 9):
        monkeypatch.setattr(worker, "ROWS_AT_A_TIME", at_a_time)
        folder = tmp_path / str(at_a_time)
        folder.mkdir()
        rows, counts, _ = mined(folder, "war 1", "war 2", "peace", "war 3")
        assert [row["page_title"] for row in rows] == ["war 1", "war 2", "war 3"], at_a_time
        assert counts.balances()


def test_equal_rows_of_a_file_have_ids_of_their_own() -> None:
    fields = dict.fromkeys(WIT_COLUMNS) | {"page_title": "War", "image_url": "https://i/1"}
    repeats = Counter[str]()
    rows = [worker.record_of("s3://b/wit.tsv", MatchedRow(fields, ["war"]), TERMS, repeats) for _ in range(3)]
    first = content_id("wit.tsv", *(fields[name] or "" for name in WIT_COLUMNS))
    assert [row["record_id"] for row in rows] == [first, content_id(first, "2"), content_id(first, "3")]
    assert {row["image_id"] for row in rows} == {content_id("https://i/1")}
    assert rows[0]["methods"] == ["graph", "manual"]
    bare = MatchedRow(fields | {"image_url": None}, [])
    assert worker.record_of("wit.tsv", bare, TERMS, repeats)["image_id"] == content_id("")


def test_excluded_pictures_are_not_mined_and_counted(tmp_path: Path) -> None:
    listed = tmp_path / "withdrawn.txt"
    listed.write_text(f"HTTP://I/0?x\n{content_id('https://i/2').upper()}\nhttps://i/9\n")
    rows, counts, _ = mined(tmp_path, "war", "wars", "warm", listed=str(listed))
    assert [row["page_title"] for row in rows] == ["wars"]
    assert counts.filtered["excluded"] == 2
    summary = exclusions.read_exclusions(str(listed)).summary(counts.tallies[exclusions.TALLY])
    assert "1 of 3 entries match no picture here, for example https://i/9" in summary


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("substring", ["Pain", "Spain", "A world war", "wartime"]),
        ("word", ["Pain", "A world war"]),
        ("exact", ["Pain"]),
    ],
)
def test_matches_follow_the_key_match(tmp_path: Path, match: str, expected: list[str]) -> None:
    rows, _, _ = mined(tmp_path, "Pain", "Spain", "A world war", "wartime", "peace", match=match)
    assert [row["page_title"] for row in rows] == expected


def test_the_fold_is_applied_to_both_sides(tmp_path: Path) -> None:
    assert mined(tmp_path, "ＷＡＲ")[0] == []
    folder = tmp_path / "again"
    folder.mkdir()
    assert len(mined(folder, "ＷＡＲ", fold=Fold(compose="NFKC"))[0]) == 1


def test_terms_that_mostly_hit_inside_words_are_named(tmp_path: Path) -> None:
    _, counts, _ = mined(tmp_path, "Spain", "Pain", "Spanish painter", "World War", "warpath")
    assert counts.tallies["inside_word"] == {"pain": 2, "war": 1}
    assert mine.suspects(counts.tallies) == {"pain": 2}
    assert "inside_word" not in mined_words(tmp_path)


def mined_words(tmp_path: Path) -> dict[str, dict[str, int]]:
    folder = tmp_path / "words"
    folder.mkdir()
    return mined(folder, "Spain", "Pain", match="word")[1].tallies


def test_counts_by_term_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "TERMS_COUNTED", 2)
    _, counts, _ = mined(tmp_path, "war", "war", "world war", "Spain", "Spain")
    assert (counts.tallies["term"], counts.tallies["inside_word"]) == ({"war": 3, "pain": 2}, {"pain": 2})


@pytest.mark.parametrize(("scan", "message"), [(None, "NumPy"), (lambda *_: 0, "compiled loop")])
def test_a_unit_records_how_it_was_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan: Any, message: str
) -> None:
    monkeypatch.setattr(row_index, "SCAN", scan)
    monkeypatch.setattr(reader, "scan_file", lambda *_, **__: iter(()))
    assert mined(tmp_path)[1].tallies["scanned_by"] == {message: 1}


def test_wrong_keys_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    paths = [f"corpus.path={tmp_path}/none", f"terms.path={tmp_path}/x", f"out={tmp_path}/o"]
    cases = {
        "match=prefix": "substring, word, exact",
        "fold.case=upper": "lower, casefold",
        "fold.compose=NFD": "NFC, NFKC",
        "corpus.name=laion": "wit, wit_base",
    }
    for key, allowed in cases.items():
        with pytest.raises(InputError) as raised:
            mine.execute(load("mine", MineConfig, [*paths, key]))
        assert key in str(raised.value)
        assert allowed in str(raised.value)
    assert not (tmp_path / "o").exists()


def test_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "wit.tsv").write_text(HEADER)
    keys = [f"corpus.path={tmp_path}/*/wit.tsv", f"terms.path={tmp_path}/x", f"out={tmp_path}/o"]
    with pytest.raises(InputError, match=r"a/wit\.tsv and .*b/wit\.tsv have the same name"):
        mine.execute(load("mine", MineConfig, keys))

"""Knowledge bases: rows of several shapes become entries; what names no node is reported with its row."""

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.ids import content_id
from jobs.corpora import json_files, knowledge_base
from jobs.corpora.knowledge_base import (
    ROW_SPAN,
    BadRow,
    KnowledgeBaseConfig,
    NodeColumns,
    NodeEntry,
    entries,
    find_files,
    image_id,
    node_units,
    windows,
)
from jobs.errors import InputError
from jobs.runtime.board import Reporter
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.writer import UnitWriter
from jobs.workers import kb
from jobs.workers.kb import PARTS, KnowledgeBaseUnit, nodes
from tests.factories import rows_of


def config(path: Path, **keys: object) -> KnowledgeBaseConfig:
    columns = NodeColumns(
        node="id", language="lang", lemmas="names", title="title", gloss="gloss", article="article", images="images"
    )
    return KnowledgeBaseConfig(name="test", path=str(path), columns=columns, separator="|", **keys)  # type: ignore[arg-type]


ROWS = [
    {
        "id": "bn:1",
        "lang": "en",
        "names": "dog|hound|dog",
        "title": "Dog",
        "gloss": "an animal",
        "article": "",
        "images": "a.jpg",
    },
    {
        "id": "bn:1",
        "lang": "de",
        "names": "Hund",
        "title": "",
        "gloss": "ein Tier",
        "article": "Der\nHund",
        "images": "",
    },
    {"id": "", "lang": "en", "names": "nobody", "title": "", "gloss": "", "article": "", "images": ""},
]
EXPECTED = [
    NodeEntry("bn:1", "en", ("dog", "hound"), "Dog", "an animal", "", ("a.jpg",)),
    NodeEntry("bn:1", "de", ("Hund",), "", "ein Tier", "Der\nHund", ()),
    BadRow(3, "column id is empty"),
]


def written(folder: Path, suffix: str) -> Path:
    path = folder / f"kb{suffix}"
    if suffix == ".parquet":
        lists = [{**row, "names": row["names"].split("|"), "images": [i for i in [row["images"]] if i]} for row in ROWS]
        pq.write_table(pa.Table.from_pylist(lists), path)
    elif suffix == ".jsonl":
        path.write_text("\ufeff" + "\n".join(json.dumps(row) for row in ROWS) + "\n", encoding="utf-8")
    else:
        comma = "\t" if suffix == ".tsv" else ","
        lines = [comma.join(ROWS[0])]
        lines += [comma.join(f'"{value}"' if "\n" in value else value for value in row.values()) for row in ROWS]
        path.write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize("block", [7, json_files.CHUNK])
def test_every_format_reads_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, block: int) -> None:
    monkeypatch.setattr(json_files, "CHUNK", block)
    path = written(tmp_path, suffix)
    cfg = config(path)
    assert [o.uri.rsplit("/", 1)[-1] for o in find_files(cfg)] == [path.name]
    assert list(entries(str(path), cfg)) == EXPECTED


@pytest.mark.parametrize("rows", [3, 100])
def test_a_span_of_a_row_group_that_is_read_in_several_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(knowledge_base, "ROWS", rows)
    path = tmp_path / "kb.parquet"
    pq.write_table(pa.table({"node": [str(number) for number in range(20)]}), path, row_group_size=10)
    cfg = KnowledgeBaseConfig(name="test", path=str(path))
    for first, last in ((4, 9), (0, 10), (8, 15), (19, 20)):
        read = entries(str(path), cfg, span=(first, last))
        assert [entry.node_id for entry in read if isinstance(entry, NodeEntry)] == [str(n) for n in range(first, last)]
    pq.write_table(pa.table({"node": pa.array([None] * 20, pa.string())}), path, row_group_size=10)
    for first, last in ((0, 3), (8, 12)):
        read = entries(str(path), cfg, span=(first, last))
        assert [entry.row for entry in read if isinstance(entry, BadRow)] == list(range(first + 1, last + 1))


def test_languages_are_trimmed_and_a_blank_one_is_the_configured_one(tmp_path: Path) -> None:
    path = tmp_path / "kb.csv"
    path.write_text("id,lang,names,title,gloss,article,images\n1, de ,Hund,,,,\n2,  ,dog,,,,\n", encoding="utf-8")
    read = entries(str(path), config(path, language="en"))
    assert [entry.language for entry in read if isinstance(entry, NodeEntry)] == ["de", "en"]


def test_a_value_that_is_not_text_is_rejected_with_its_row(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "names": {"en": "dog"}},
        {"id": 2, "names": 7, "images": 0},
        {"id": ["3"], "names": "x"},
        {"id": "4", "names": ["a", None, ["b"]]},
        ["5"],
    ]
    path = tmp_path / "kb.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + '\n\n{"id"\n', encoding="utf-8")
    actual = entries(str(path), config(path))
    assert list(actual) == [
        BadRow(1, "column names has a dict instead of text", "no_text"),
        NodeEntry("2", "", ("7",), "", "", "", ("0",)),
        BadRow(3, "column id has a list instead of text", "no_text"),
        BadRow(4, "column names has a list instead of text", "no_text"),
        BadRow(5, "the line is not a JSON object", "not_json"),
        BadRow(7, "the line is not JSON: Expecting ':' delimiter: line 1 column 6 (char 5)", "not_json"),
    ]
    by_language = pa.array([[("en", "dog")]], pa.map_(pa.string(), pa.string()))
    pq.write_table(pa.table({"id": ["1"], "names": by_language}), tmp_path / "map.parquet")
    cfg = KnowledgeBaseConfig(name="m", path="", columns=NodeColumns(node="id", lemmas="names"))
    (bad,) = entries(str(tmp_path / "map.parquet"), cfg)
    assert bad == BadRow(1, "column names has a tuple instead of text", "no_text")


def test_the_rows_of_a_node_are_put_together() -> None:
    (node,) = nodes(entry for entry in EXPECTED if isinstance(entry, NodeEntry))
    assert node["lemmas"] == [("en", ["dog", "hound"]), ("de", ["Hund"])]
    assert node["glosses"] == [("en", "an animal"), ("de", "ein Tier")]
    assert node["titles"] == [("en", "Dog")]
    assert node["article_text_ids"] == [("de", content_id("article", "bn:1", "de", "Der\nHund"))]


def test_windows_overlap_and_cover_every_word(tmp_path: Path) -> None:
    cfg = config(tmp_path, window_words=4, overlap_words=1)
    text = "a b c d e f g h"
    assert windows(text, cfg) == ["a b c d", "d e f g", "g h"]
    assert windows("a b c d", cfg) == ["a b c d"]
    assert windows(" ", cfg) == []
    assert windows("a", cfg) == ["a"], "no more words than an overlap"
    assert windows("a", config(tmp_path, window_words=2, overlap_words=1)) == ["a"]
    assert windows(text, config(tmp_path, window_words=4, overlap_words=1, windows=1)) == ["a b c d"]


def test_picture_ids_are_those_of_fetch() -> None:
    assert image_id("a.jpg") == content_id("a.jpg")
    assert image_id(content_id("a.jpg")) == content_id("a.jpg")


def test_invalid_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(InputError, match=r"has no \.parquet, \.csv"):
        find_files(config(tmp_path / "x.txt"))
    path = tmp_path / "kb.csv"
    path.write_text("id,lang\n1,en\n")
    with pytest.raises(InputError, match=r"no column names, title, gloss, article, images; there are id, lang \(cho"):
        find_files(config(path))
    path.write_bytes(b"id,lang\n1,\xe9n\n")
    with pytest.raises(InputError, match=r"for instance knowledge_base\.encoding=cp1252"):
        find_files(config(path))
    path.write_text("id,lang,names,title,gloss,article,images,lang\n1,en,x,,,,,de\n")
    with pytest.raises(InputError, match="duplicate column lang"):
        find_files(config(path))
    with pytest.raises(InputError, match="overlap_words"):
        find_files(config(path, window_words=3, overlap_words=3))
    for keys, message in (
        ({"window_words": 0, "overlap_words": 0}, "window_words=0"), ({"overlap_words": -1}, "overlap_words=-1"),
        ({"windows": 0}, r"knowledge_base\.windows=0: must be at least 1"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            find_files(config(path, **keys))
    path.write_text("id,lang,names,title,gloss,article,images\n")
    assert len(find_files(config(path, window_words=1, overlap_words=0, windows=1))) == 1
    broken = tmp_path / "kb.jsonl"
    for line in ('{"id"', "[" * 100_000):
        broken.write_text(f"{line}\n")
        with pytest.raises(InputError, match=r"kb\.jsonl: line 1 is not a JSON object"):
            find_files(config(broken))
    torn = tmp_path / "kb.parquet"
    torn.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        find_files(config(torn))


def test_a_number_with_thousands_of_digits_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "kb.jsonl"
    path.write_text('{"id": %s, "names": "x"}\n{"id": 2, "names": %s}\n{"id": 3}\n' % (("9" * 5000,) * 2))
    bad, two, three = entries(str(path), config(path))
    assert isinstance(bad, BadRow)
    assert isinstance(two, NodeEntry)
    assert isinstance(three, NodeEntry)
    assert (two.node_id, two.lemmas, three.node_id) == ("2", (), "3")


def test_a_parquet_file_is_cut_between_nodes_and_read_in_parts(tmp_path: Path) -> None:
    names = [None, "a", "a", None, "a ", "b", "c", "c", "c", "d"]
    rows = [{"id": name, "lang": "en", "names": str(n)} for n, name in enumerate(names)]
    columns = NodeColumns(node="id", language="lang", lemmas="names")
    config = KnowledgeBaseConfig(name="k", path=str(tmp_path), columns=columns)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "sorted.parquet", row_group_size=3)
    (file,) = find_files(config)
    whole = list(entries(file.uri, config))
    for unit_rows, ends in ((2, [0, 5, 6, 9, 10]), (4, [0, 5, 9, 10]), (6, [0, 6, 10])):
        units = list(node_units([file], node="id", unit_rows=unit_rows))
        spans = [(unit.extra[ROW_SPAN][0], unit.extra[ROW_SPAN][1]) for unit in units]
        assert spans == list(pairwise(ends))
        assert [entry for span in spans for entry in entries(file.uri, config, span=span)] == whole
        assert len({unit.name for unit in units}) == len(units)
        assert sum(unit.bytes for unit in units) == file.size
    (unit,) = node_units([file], node="id", unit_rows=10)
    assert ROW_SPAN not in unit.extra
    assert (unit.rows, unit.bytes) == (len(rows), file.size)
    pq.write_table(pa.Table.from_pylist([*rows, rows[1]]), tmp_path / "sorted.parquet")  # a is not in one place
    assert len(list(node_units(find_files(config), node="id", unit_rows=2))) == 1
    for ids in (pa.array([["a"], ["b"], ["c"]]), pa.array([None, " ", ""]), pa.array([1, 2, 2])):
        pq.write_table(pa.table({"id": ids, "lang": ["en"] * 3, "names": ["x"] * 3}), tmp_path / "sorted.parquet")
        units = list(node_units(find_files(config), node="id", unit_rows=1))
        assert [unit.rows for unit in units] == ([1, 2] if ids.type == pa.int64() else [3])


def test_a_node_whose_texts_cannot_be_written_affects_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = KnowledgeBaseConfig(
        name="k", path=str(tmp_path / "kb.csv"), columns=NodeColumns(node="id", lemmas="names")
    )
    (tmp_path / "kb.csv").write_text("id,names\nn1,a\nn2,b\nn3,c\n")

    def cursed(entry: NodeEntry, _: Any) -> Any:
        if entry.node_id == "n2":
            raise IndexError("cursed")
        return kb._lemmas(entry, config)

    monkeypatch.setitem(kb._ROWS, "lemmas", cursed)
    units = list(node_units(find_files(config), node="id", unit_rows=10))
    plan = TablePlan(str(tmp_path / "out"), "texts", {}, units, {}, {}, derived=False)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    with UnitWriter(run.target, run.todo[0]) as writer:
        KnowledgeBaseUnit(part="lemmas", config=config, excluded=None)(run.todo[0], writer, Reporter(None, "kb"))
    run.finish()
    assert [row["source"] for row in rows_of(str(tmp_path / "out"))] == ["n1", "n3"]
    (reject,) = open_table(str(tmp_path / "out")).rejects()
    assert (reject.file, reject.position, reject.reason) == ("node n2", 1, "IndexError")


def test_each_part_has_the_rows_of_its_fields() -> None:
    entry = NodeEntry("n1", "en", ("dog", "hound"), "Dog", "an animal", "a b c", ("https://h/x.jpg", "f" * 32))
    bare = NodeEntry("n2", "", (), "", "", "", ())
    config = KnowledgeBaseConfig(name="k", window_words=2, overlap_words=1)
    texts = {
        "lemmas": ("lemma", ["dog", "hound"]),
        "glosses": ("gloss", ["an animal"]),
        "articles": ("article", ["a b c"]),
        "windows": ("window", ["a b", "b c"]),
    }
    for part, (role, expected) in texts.items():
        rows = list(kb._ROWS[part](entry, config))
        assert [row.pop("text") for row in rows] == expected
        assert [row.pop("text_id") for row in rows] == [content_id(role, "n1", "en", text) for text in expected]
        assert rows == [{"role": role, "language": "en", "date": None, "source": "n1", "revision": None}] * len(rows)
    assert list(kb._node_images(entry, config)) == [
        {"node_id": "n1", "image_id": content_id("https://h/x.jpg"), "name": "https://h/x.jpg"},
        {"node_id": "n1", "image_id": "f" * 32, "name": "f" * 32},
    ]
    assert [list(rows_of(bare, config)) for rows_of in kb._ROWS.values()] == [[]] * 5


@pytest.mark.parametrize("at_a_time", [2, 100])
def test_rows_are_written_and_reported_in_batches(
    at_a_time: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kb, "ROWS_AT_A_TIME", at_a_time)
    config = KnowledgeBaseConfig(
        name="k", path=str(tmp_path / "kb.csv"), columns=NodeColumns(node="id", lemmas="names")
    )
    (tmp_path / "kb.csv").write_text("id,names\n" + "".join(f"n{n},name {n}\n" for n in range(5)))
    units = list(node_units(find_files(config), node="id", unit_rows=10))
    plan = TablePlan(str(tmp_path / "out"), "texts", {}, units, {}, {}, derived=False)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    reported: list[int] = []
    report: Any = SimpleNamespace(add=reported.append)
    with UnitWriter(run.target, run.todo[0]) as writer:
        KnowledgeBaseUnit(part="lemmas", config=config, excluded=None)(run.todo[0], writer, report)
    run.finish()
    assert reported == ([2, 2, 1] if at_a_time == 2 else [5])
    assert [row["text"] for row in rows_of(str(tmp_path / "out"))] == [f"name {n}" for n in range(5)]


def test_units_of_a_file_write_what_the_whole_file_does(tmp_path: Path) -> None:
    columns = NodeColumns(node="id", lemmas="names", article="article")
    config = KnowledgeBaseConfig(name="k", path=str(tmp_path / "kb.parquet"), columns=columns, window_words=2)
    config.overlap_words = 0
    rows = [{"id": f"n{n // 2}", "names": f"name {n}", "article": f"a b c {n}" * (n % 2)} for n in range(12)]
    pq.write_table(pa.Table.from_pylist(rows), config.path)

    def rows_by_unit(part: str, unit_rows: int) -> list[dict[str, object]]:
        units = list(node_units(find_files(config), node="id", unit_rows=unit_rows))
        out = str(tmp_path / f"{part}{unit_rows}")
        run = open_run(
            TablePlan(out, PARTS[part], {}, units, {}, {}, derived=False), resume=True, overwrite=False, retry=[]
        )
        for task in run.todo:
            with UnitWriter(run.target, task) as writer:
                KnowledgeBaseUnit(part=part, config=config, excluded=None)(task, writer, Reporter(None, "kb"))
        assert len(units) == -(-len(rows) // unit_rows)
        run.finish()
        return sorted(rows_of(out), key=str)

    for part in ("nodes", "windows", "articles"):
        assert rows_by_unit(part, 4) == rows_by_unit(part, len(rows))

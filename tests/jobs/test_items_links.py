"""Items from links: each picture with an article, titles, the right article or nothing, under one id."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.items_from.kept_rows import ROWS, KeptRows, column_keys, value_keys
from jobs.judging.items import open_sources, reading
from jobs.runtime.command_line import cli
from jobs.store.hashing import hash_texts
from jobs.store.reading import TableSource, open_table
from jobs.store.writer import UnitTask
from tests.cases import check_cases
from tests.factories import picture, rows_of, write_table, write_units

PICTURES = [picture(number) for number in range(5)]
IMAGES = [row["image_id"] for row in PICTURES]
ARTICLES = {"apple": ("en", "Apples are old."), "bread": ("de", "Brot ist alt.")}
LINKED = {0: ["apple", "bread"], 1: ["bread", "corn"], 2: ["corn", "apple"], 3: ["gone", "gone2"]}  # 4 has none


@pytest.fixture
def world(tmp_path: Path) -> Path:
    write_units(tmp_path / "images", "images", [PICTURES[:3], PICTURES[3:]])
    nodes: list[dict[str, Any]] = [
        {"node_id": "apple", "lemmas": [("en", ["apple"])], "titles": [("de", "Apfel"), ("en", "Apple")]},
        {"node_id": "bread", "lemmas": [("en", ["bread"])], "titles": [("de", "Brot")]},
        {"node_id": "corn", "lemmas": [("en", ["corn"])]},
        {"node_id": "dog", "lemmas": []},
    ]
    articles = []
    for node, (language, text) in ARTICLES.items():
        row = {"text_id": f"text of {node}", "role": "article", "language": language, "source": node, "text": text}
        articles.append(row)
        next(n for n in nodes if n["node_id"] == node)["article_text_ids"] = [(language, row["text_id"])]
    write_units(tmp_path / "kb" / "nodes", "nodes", [nodes[:2], nodes[2:]])
    write_table(tmp_path / "kb" / "articles", "texts", articles)
    links = [
        {"image_id": IMAGES[number], "method": "m", "rank": rank, "node_id": node, "lemma": f"{node} lemma"}
        for number, linked in LINKED.items()
        for rank, node in enumerate(linked, 1)
    ]
    write_units(tmp_path / "links", "links", [links[:6], links[6:]])
    return tmp_path


def items(world: Path, out: str, *keys: str, code: int = 0) -> Path:
    arguments = [f"links={world}/links", f"kb.path={world}/kb", f"out={world}/{out}", *keys]
    assert cli.main("items", arguments) == code
    return world / out


def contexts_of(world: Path, out: Path, *fields: str) -> dict[str, dict[str, Any]]:
    """Return item_id -> context fields, as `judge` reads them."""
    sources = open_sources(
        f"{out}/items", images=f"{world}/images", texts=f"{out}/texts", records=None, fields=fields, pictures=True
    )
    units = sources.units()
    assert all(unit.inputs[-1].uri.endswith(".parquet") for unit in units)  # texts are joined unit by unit
    read = reading(sources, fields=fields, pictures=True)
    rows = [row for unit in units for row in read(UnitTask(unit)).to_pylist()]
    assert all(row["status"] == "ok" for row in rows)
    return {row["item_id"]: {field: row[field] for field in fields} for row in rows}


def test_a_picture_keeps_its_id_and_gets_the_whole_article_of_the_best_entity(world: Path, capsys) -> None:
    out = items(world, "article", f"input_items={world}/images")
    assert contexts_of(world, out, "entity", "article", "empty_context") == {
        IMAGES[0]: {"entity": "Apple", "article": "Apples are old.", "empty_context": None},
        # has no English title
        IMAGES[1]: {"entity": "bread lemma", "article": "Brot ist alt.", "empty_context": None},
        IMAGES[2]: {"entity": "corn lemma", "article": None, "empty_context": "no article"},
        IMAGES[3]: {"entity": None, "article": None, "empty_context": "not in the knowledge base"},
        IMAGES[4]: {"entity": None, "article": None, "empty_context": "no link"},
    }
    table = open_table(f"{out}/items")
    assert table.metadata["remine.condition"] == "article"
    tally = {"article": 2, "no article": 1, "not in the knowledge base": 1, "no link": 1}
    assert table.counts().tallies["context"] == tally
    printed = capsys.readouterr().out
    assert all(f"{outcome} {n}" in printed for outcome, n in tally.items())
    assert {row["role"] for row in rows_of(f"{out}/texts")} == {"article"}
    assert cli.main("items", [f"links={world}/links", f"kb.path={world}/kb", f"out={out}"]) == 2  # another input


def test_titles_are_one_per_line_and_none_has_no_context(world: Path) -> None:
    out = items(world, "titles", "context=titles", f"input_items={world}/images")
    assert contexts_of(world, out, "entity", "titles") == {
        IMAGES[0]: {"entity": None, "titles": "Apple\nbread lemma"},
        IMAGES[1]: {"entity": None, "titles": "bread lemma\ncorn lemma"},
        IMAGES[2]: {"entity": None, "titles": "corn lemma\nApple"},
        IMAGES[3]: {"entity": None, "titles": None},
        IMAGES[4]: {"entity": None, "titles": None},
    }
    one = items(world, "one", "context=titles", "k=1", "condition=best title")
    assert contexts_of(world, one, "titles")[IMAGES[0]] == {"titles": "Apple"}
    assert open_table(f"{one}/items").metadata["remine.condition"] == "best title"
    none = items(world, "none", "context=none")  # without input_items=, the pictures that have links
    assert [row["item_id"] for row in rows_of(f"{none}/items")] == IMAGES[:4]
    assert not open_table(f"{none}/texts").rows
    assert open_table(f"{none}/items").metadata["remine.condition"] == "none"


def test_items_keep_their_texts_targets_and_gold_and_name_the_right_entity(world: Path, capsys) -> None:
    gold = ["bread", "Apfel", "nobody", "corn", None]  # nodes or titles
    rows = [
        {
            "item_id": f"item {number}",
            "kind": "image",
            "image_ids": [IMAGES[number]],
            "text_ids": [f"prompt {number}"],
            "targets": ["Peru", "Chad"],
            "gold": ["Peru"],
            "attributes": [("concept", "food"), ("entity", "old"), *([("gold_node", name)] if name else [])],
        }
        for number, name in enumerate(gold)
    ]
    prompts = [{"text_id": f"prompt {n}", "role": "prompt", "source": "", "text": f"text {n}"} for n in range(5)]
    stale = {"text_id": "stale", "role": "article", "source": "", "text": "of another knowledge base"}
    rows[4]["text_ids"] = ["prompt 4", "stale"]
    write_table(world / "set", "items", rows)
    write_table(world / "set_texts", "texts", [*prompts, stale])
    arguments = ["context=gold", f"input_items={world}/set"]
    items(world, "gold", *arguments, code=2)
    assert "texts=" in capsys.readouterr().err
    out = items(world, "gold", *arguments, f"texts={world}/set_texts", "unit_rows=2")
    assert contexts_of(world, out, "entity", "article", "prompt") == {
        "item 0": {"entity": "Brot", "article": "Brot ist alt.", "prompt": "text 0"},
        "item 1": {"entity": "Apple", "article": "Apples are old.", "prompt": "text 1"},
        "item 3": {"entity": "corn", "article": None, "prompt": "text 3"},
        **{f"item {n}": {"entity": None, "article": None, "prompt": f"text {n}"} for n in (2, 4)},
    }
    table = open_table(f"{out}/items")
    assert table.counts().tallies["context"] == {
        "article": 2, "not in the knowledge base": 1, "no article": 1, "no gold entity": 1
    }  # fmt: skip
    assert [footer.rows for footer in table.footers] == [2, 2, 1]
    first = rows_of(f"{out}/items")[0]
    assert (first["targets"], first["gold"], dict(first["attributes"])["concept"]) == (
        ["Peru", "Chad"],
        ["Peru"],
        "food",
    )

    items(world, "other", *arguments, f"texts={world}/set_texts", "gold_node=concept", code=2)
    assert "gold_node=concept" in capsys.readouterr().err
    items(world, "other", *arguments, f"texts={world}/set_texts", "gold_node=scenario", code=2)
    assert not (world / "other").exists()


def test_a_killed_run_continues_and_excluded_pictures_are_left_out(world: Path) -> None:
    keys = [f"input_items={world}/images", "unit_rows=1"]
    out = items(world, "whole", *keys)
    rows, texts = rows_of(f"{out}/items"), rows_of(f"{out}/texts")
    (out / "items" / "unit0-000000001.parquet").unlink()  # as if killed between the two tables
    (out / "texts" / "unit1-000000000.parquet").unlink()
    other = (out / "items" / "unit0-000000000.parquet").stat().st_mtime_ns
    items(world, "whole", *keys)
    assert (rows_of(f"{out}/items"), rows_of(f"{out}/texts")) == (rows, texts)
    assert (out / "items" / "unit0-000000000.parquet").stat().st_mtime_ns == other
    (world / "no.txt").write_text(f"{PICTURES[0]['source_url']}\n{IMAGES[3]}\n")
    fewer = items(world, "fewer", *keys, f"exclusions={world}/no.txt")
    assert [row["item_id"] for row in rows_of(f"{fewer}/items")] == [IMAGES[1], IMAGES[2], IMAGES[4]]
    assert open_table(f"{fewer}/items").counts().filtered == {"excluded": 2}


def test_the_knowledge_base_is_read_once_for_any_number_of_units(world: Path, monkeypatch) -> None:
    reads = Counter[str]()
    batches = TableSource.batches

    def counted(self: TableSource, *arguments: Any, **keys: Any) -> Any:
        reads[self.uri] += 1
        return batches(self, *arguments, **keys)

    monkeypatch.setattr(TableSource, "batches", counted)
    out = items(world, "many", f"input_items={world}/images", "unit_rows=1")
    assert len(open_table(f"{out}/items").footers) == 5
    assert reads == {f"{world}/links": 1, f"{world}/kb/nodes": 1, f"{world}/kb/articles": 1}


def test_keys_that_do_not_fit_are_refused(world: Path, capsys) -> None:
    cases = [
        (["context=page"], "context=page"),
        (["context=titles", "k=0"], "k=0"),
        (["kb.path=null"], "kb.path="),
        (["texts=t"], "texts=t"),
        (["context=gold"], "input_items="),
        (["input=set.csv"], "input=, links=: cannot be set together"),
    ]

    def check(keys: list[str], message: str) -> None:
        items(world, "never", *keys, code=2)
        assert message in capsys.readouterr().err
        assert not (world / "never").exists()

    check_cases(check, cases)


def test_a_knowledge_base_of_other_links_or_without_articles_is_refused(world: Path, capsys) -> None:
    write_table(world / "kb2" / "nodes", "nodes", [{"node_id": "other"}])
    write_table(world / "kb2" / "articles", "texts", [])
    items(world, "never", f"kb.path={world}/kb2", code=2)
    assert "columns.article=" in capsys.readouterr().err
    items(world, "never", f"kb.path={world}/kb2", "context=titles", code=2)
    assert f"kb.path={world}/kb2" in capsys.readouterr().err
    assert not (world / "never").exists()


def test_rows_are_found_by_every_key_whatever_their_number(tmp_path: Path) -> None:
    count = 3 * ROWS + 7
    rows = [
        {"node_id": f"n{i}", "titles": [("en", f"t{i % 1000}"), ("de", f"d{i}")] if i % 3 else None}
        for i in range(count)
    ]
    source = open_table(write_units(tmp_path / "nodes", "nodes", [rows[:1500], rows[1500:]]))
    wanted = hash_texts(["n0", "n2999", "t7", "d4", "absent"])
    keys = [column_keys("node_id"), value_keys("titles")]
    kept = KeptRows(tmp_path / "copy", source, ["node_id", "titles"], keys_of=keys, wanted=wanted)
    expected = [row["node_id"] for i, row in enumerate(rows) if i in (0, 2999, 4) or (i % 1000 == 7 and i % 3)]
    assert [node for batch in kept.batches() for node in batch["node_id"].to_pylist()] == expected
    pairs = [(key, row["node_id"]) for key, row in kept.rows(["n0", "t7", "n5", "absent"])]
    assert pairs == [("n0", "n0"), ("t7", "n7"), ("t7", "n1007"), ("t7", "n3007")]  # n2007 has no title
    assert kept.rows([]) == []
    everything = KeptRows(tmp_path / "all", source, ["node_id"], keys_of=[column_keys("node_id")])
    drawn = [f"n{i}" for i in np.random.default_rng(0).permutation(count)[:50].tolist()]
    assert {key for key, _ in everything.rows(drawn)} == set(drawn)

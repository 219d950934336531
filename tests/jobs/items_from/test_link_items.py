"""Items from links, unit by unit without a run: which links, which row of several, what a run depends on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.items_from.items_config import ItemsConfig
from jobs.items_from.items_output import ItemsPlan
from jobs.items_from.link_items import link_plan, linked_items, linked_units
from jobs.runtime.configuration.config import load
from jobs.runtime.selection.exclusions import Exclusions, marks_of
from jobs.store.files.objects import Object
from jobs.store.pieces import UnitPieces
from jobs.store.reading import open_table
from tests.factories import image_row, write_table, write_units

NODES = [
    {"node_id": "n1", "titles": [("en", "One"), ("de", "Eins")], "article_text_ids": [("en", "t1"), ("de", "d1")]},
    {"node_id": "n2", "titles": [("en", "Two"), ("de", "Zwei")], "article_text_ids": [("en", "t2")]},
    {"node_id": "n3", "titles": [("en", "Three")], "article_text_ids": [("en", "t3")]},
    {"node_id": "n4", "titles": [("en", "One")], "article_text_ids": [("en", "t4")]},
]
ARTICLES = {"t1": "of one", "d1": "von eins", "t2": "of two", "t3": "of three", "t4": "of four"}


def link(image: str, rank: int, node: str) -> dict[str, Any]:
    return {"image_id": image, "method": "m", "rank": rank, "node_id": node, "lemma": f"lemma {node}"}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Three entities of picture a, the worst first; two of picture b; an item with the pictures x, b and a."""
    links = [link("a", 3, "n3"), link("a", 1, "n2"), link("a", 2, "n1"), link("b", 2, "n1"), link("b", 1, "n3")]
    write_units(tmp_path / "links", "links", [links[:1], links[1:]])
    write_units(tmp_path / "kb" / "nodes", "nodes", [NODES[:2], NODES[2:]])
    rows = [{"text_id": name, "role": "article", "text": text} for name, text in ARTICLES.items()]
    write_table(tmp_path / "kb" / "articles", "texts", rows)
    return tmp_path


def write_items(world: Path, *rows: Mapping[str, Any]) -> str:
    defaults = {"kind": "image", "image_ids": ["a"], "text_ids": [], "attributes": []}
    return f"input_items={write_table(world / 'set', 'items', [{**defaults, **row} for row in rows])}"


@contextmanager
def planned(world: Path, *keys: str, excluded: Sequence[str] = ()) -> Iterator[ItemsPlan]:
    arguments = [f"links={world}/links", f"kb.path={world}/kb", f"out={world}/R", *keys]
    listed = Exclusions(tuple(excluded), tuple(map(marks_of, excluded)))
    with link_plan(load("items", ItemsConfig, arguments), listed) as plan:
        yield plan


def contexts(world: Path, *keys: str) -> dict[str, list[str]]:
    """Return item_id -> its texts."""
    texts_of: dict[str, list[str]] = {}
    with planned(world, *keys) as plan:
        for unit in plan.units:
            tables = plan.read(unit).tables
            texts = {row["text_id"]: row["text"] for row in tables["texts"].to_pylist()}
            for item in tables["items"].to_pylist():
                texts_of[item["item_id"]] = [texts[name] for name in item["text_ids"]]
    return texts_of


def test_links_count_by_rank_whatever_their_order(world: Path) -> None:
    assert contexts(world) == {"a": ["of two"], "b": ["of three"]}
    assert contexts(world, "context=titles", "k=1") == {"a": ["Two"], "b": ["Three"]}
    assert contexts(world, "context=titles", "k=2") == {"a": ["Two\nOne"], "b": ["Three\nOne"]}
    assert contexts(world, "context=titles") == {"a": ["Two\nOne\nThree"], "b": ["Three\nOne"]}
    assert contexts(world, "context=none") == {"a": [], "b": []}


def test_the_language_of_titles_and_articles(world: Path) -> None:
    """Without an article or title in it another language's article, and the lemma, take its place."""
    assert contexts(world, "kb.language=de", "context=titles")["a"] == ["Zwei\nEins\nlemma n3"]
    key = write_items(world, *({"item_id": name, "attributes": [("gold_node", name)]} for name in ("n1", "n2")))
    assert contexts(world, "kb.language=de", "context=gold", key) == {"n1": ["von eins"], "n2": ["of two"]}


def test_an_item_takes_the_links_of_its_first_linked_picture(world: Path) -> None:
    rows = [{"item_id": "".join(ids), "image_ids": ids} for ids in (["x", "b", "a"], ["a", "b"], ["x"], [])]
    key = write_items(world, *rows, {"item_id": "null", "image_ids": None})
    assert contexts(world, key) == {"xba": ["of three"], "ab": ["of two"], "x": [], "": [], "null": []}
    with planned(world, key) as plan:
        assert plan.read(plan.units[0]).tallies == {"context": {"article": 2, "no link": 3}}


def test_of_several_entities_with_one_title_the_first_counts(world: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"item_id": name, "attributes": [("right", name)]} for name in ("One", "Zwei", "n4", "")
    ]
    rows.append({"item_id": "null", "attributes": None})
    assert contexts(world, "context=gold", "gold_node=right", write_items(world, *rows)) == {
        "One": ["of one"], "Zwei": ["of two"], "n4": ["of four"], "": [], "null": [],
    }  # fmt: skip


def test_an_excluded_picture_removes_its_items(world: Path) -> None:
    rows = [{"item_id": "".join(ids), "image_ids": ids} for ids in (["a"], ["b", "a"], ["b"], ["c"])]
    with planned(world, write_items(world, *rows), excluded=["a", "z"]) as plan:
        read = plan.read(plan.units[0])
    assert read.tables["items"].column("item_id").to_pylist() == ["b", "c"]
    assert (read.rows_in, read.filtered, read.tallies["context"]) == (4, {"excluded": 2}, {"article": 1, "no link": 1})
    assert sum(read.tallies["exclusions"].values()) == 2
    with planned(world, excluded=["z"]) as plan:
        read = plan.read(plan.units[0])
    assert (read.filtered, set(read.tallies)) == ({}, {"context"})
    images = [image_row(f"https://x/{name}", image_id=name) for name in "ab"]
    write_table(world / "images", "images", images)
    with planned(world, f"input_items={world}/images", excluded=["https://x/a"]) as plan:
        read = plan.read(plan.units[0])
    assert (read.tables["items"].column("item_id").to_pylist(), read.filtered) == (["b"], {"excluded": 1})


def test_items_of_a_unit_share_a_text_once(world: Path) -> None:
    write_table(world / "set_texts", "texts", [{"text_id": "t", "role": "prompt", "text": "p"}])
    rows = [{"item_id": name, "text_ids": ids} for name, ids in (("i", ["t", "absent"]), ("j", ["t"]), ("k", None))]
    key = write_items(world, *rows)
    with planned(world, key, f"texts={world}/set_texts") as plan:
        tables = plan.read(plan.units[0]).tables
    assert tables["texts"].column("text").to_pylist().count("p") == 1
    assert [len(ids) for ids in tables["items"].column("text_ids").to_pylist()] == [2, 2, 1], "with the article"
    rows = [{"item_id": "i", "image_ids": ["a"], "text_ids": ids} for ids in ([], ["t"])]
    some = write_units(world / "some", "items", [rows[:1], [], rows[1:]])
    with pytest.raises(InputError, match="its items have texts"), planned(world, f"input_items={some}"):
        pass


def test_a_run_depends_on_the_keys_that_its_context_reads(world: Path) -> None:
    items = write_items(world, {"item_id": "i", "attributes": [("gold_node", "n1")]})
    cases = {
        "none": {"context", "unit_rows", "links", "items"},
        "article": {"context", "unit_rows", "language", "links", "items", "nodes", "articles"},
        "titles": {"context", "unit_rows", "language", "k", "links", "items", "nodes"},
        "gold": {"context", "unit_rows", "language", "gold_node", "links", "items", "nodes", "articles"},
    }
    with planned(world, "context=none", "kb.path=null") as plan:
        assert len(plan.units) == 2, "no knowledge base is needed"
    for context, names in cases.items():
        with planned(world, items, f"context={context}", "k=5", "unit_rows=3", "plan=true") as plan:
            assert set(plan.identity) == names, context
            assert (plan.condition, plan.derived, len(plan.units[0].inputs)) == (context, True, len(names & {
                "links", "items", "nodes", "articles"})), context  # fmt: skip
            values = {"context": context, "unit_rows": 3, "language": "en", "k": 5, "gold_node": "gold_node"}
            assert values.items() >= {key: plan.identity[key] for key in names & set(values)}.items(), context


def test_links_without_any_entity_are_no_error(world: Path) -> None:
    """An empty table of links is that of pictures without entities; entities that the base lacks are refused."""
    write_units(world / "empty", "links", [[]])
    key = write_items(world, {"item_id": "i"})
    assert contexts(world, key, f"links={world}/empty") == {"i": []}
    write_table(world / "others", "links", [link("a", 1, "absent")])
    with pytest.raises(InputError, match=r"links=: no entity is in kb\.path="):
        contexts(world, key, f"links={world}/others")
    write_table(world / "second", "links", [link("a", 1, "absent"), link("a", 2, "n1")])
    with pytest.raises(InputError, match="no entity is in"):
        contexts(world, key, f"links={world}/second")  # only the best one has an article
    assert contexts(world, key, f"links={world}/second", "context=titles") == {"i": ["One"]}
    gold = write_items(world / "g", {"item_id": "i", "attributes": [("gold_node", "absent")]})
    with pytest.raises(InputError, match=r"gold_node=gold_node: no entity is in kb\.path="):
        contexts(world, gold, "context=gold")


def test_pictures_are_no_items_with_a_right_entity(world: Path) -> None:
    images = write_table(world / "images", "images", [{"image_id": "a", "rendition": "original", "status": "ok"}])
    assert contexts(world, f"input_items={images}") == {"a": ["of two"]}
    with pytest.raises(InputError, match="images"):
        contexts(world, f"input_items={images}", "context=gold")


@pytest.mark.parametrize("unit_rows", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("table", ["items", "images"])
def test_every_row_is_in_one_unit(tmp_path: Path, table: str, unit_rows: int) -> None:
    if table == "items":
        rows = [{"item_id": f"i{n}", "kind": "image", "image_ids": [], "text_ids": []} for n in range(7)]
        ids = [str(row["item_id"]) for row in rows]
        write_units(tmp_path / "t", "items", [rows])
    else:
        pictures = [image_row(f"https://i/{n}.jpg") for n in range(7)]
        renditions = [picture | {"rendition": "w300"} for picture in pictures[:3]]
        ids = [picture["image_id"] for picture in pictures]
        write_units(tmp_path / "t", "images", [[pictures[0], *renditions, *pictures[1:]]])
    base = open_table(str(tmp_path / "t"))
    units = list(linked_units(base, (), unit_rows, {}))
    read = [[item["item_id"] for item in linked_items(base, unit)[0]] for unit in units]
    assert [item for unit in read for item in unit] == ids
    assert sum(unit.rows or 0 for unit in units) == sum(unit.rows or 0 for unit in base.units())
    assert max(map(len, read)) == min(unit_rows, 7)
    assert len({unit.name for unit in units}) == len(units)


@pytest.mark.parametrize("table", ["items", "images"])
def test_a_unit_has_the_other_inputs_and_a_range_of_rows(tmp_path: Path, table: str) -> None:
    """A changed knowledge base makes every unit a new one; `purge` moves ranges of rows."""
    rows = (
        [{"item_id": f"i{n}", "kind": "image", "image_ids": [], "text_ids": []} for n in range(3)]
        if table == "items"
        else [image_row(f"https://i/{n}.jpg") for n in range(3)]
    )
    write_units(tmp_path / "t", table, [rows])
    base = open_table(str(tmp_path / "t"))
    other = Object("memory/kb", 1, "etag")
    units = list(linked_units(base, (other,), 2, {}))
    assert [unit.inputs for unit in units] == [(*next(iter(base.units())).inputs, other)] * 2
    assert [(unit.extra["from"], unit.extra["to"], unit.piece) for unit in units] == [
        (0, 2, "rows 0-2"),
        (2, 3, "rows 2-3"),
    ]
    assert [(unit.extra["pieces"], unit.extra["number"]) for unit in units] == [(2, 0), (2, 1)]


def test_a_range_has_the_first_rows_of_its_pictures_and_a_begun_table_keeps_its_ranges(tmp_path: Path) -> None:
    a, b, c = (image_row(f"https://i/{n}.jpg") for n in "abc")
    rows = [a, a | {"rendition": "w300"}, b, a | {"rendition": "w600"}, c]
    write_units(tmp_path / "t", "images", [rows])
    base = open_table(str(tmp_path / "t"))
    (parent,) = base.units()

    def ranges_of(begun: UnitPieces) -> list[tuple[int, int]]:
        units = linked_units(base, (), 1, {parent.name: begun})
        return [(unit.extra["from"], unit.extra["to"]) for unit in units]

    assert ranges_of(UnitPieces()) == [(0, 2), (2, 4), (4, 5)]
    assert ranges_of(UnitPieces(2, ranges={0: (0, 4), 1: (4, 5)})) == [(0, 4), (4, 5)]
    assert ranges_of(UnitPieces(5, ranges={0: (0, 9)})) == [(0, 2), (2, 4), (4, 5), (5, 5), (5, 5)]

"""Parts of an item that people see, read from the tables that name it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.annotation.form import OwnSet
from jobs.annotation.shown_items import (
    Showing,
    ShownTables,
    choose,
    open_shown,
    read_own_sets,
    show_items,
    write_pictures,
)
from jobs.errors import InputError
from jobs.judging.model_config import OwnQuestionsConfig
from jobs.judging.own_questions import set_id_of
from jobs.runtime.selection.draws import CompleteDrawConfig
from jobs.runtime.selection.exclusions import ExclusionFilter
from tests.factories import write_table, write_units

PICTURES = [
    {"image_id": "p", "rendition": "w300", "source_url": "https://i/p.jpg", "status": "ok", "format": "JPEG"},
    {"image_id": "q", "rendition": "w300", "source_url": "file:///q", "final_url": "https://i/q", "status": "ok"},
    {"image_id": "local", "rendition": "w300", "source_url": "file:///x", "status": "ok", "format": "PNG"},
    {"image_id": "moved", "rendition": "w300", "source_url": "https://i/old", "final_url": "https://i/new"},
]
TEXTS = [
    {"text_id": "a", "role": "article", "text": "the article"},
    {"text_id": "c", "role": "caption", "text": None},
    {"text_id": "g", "role": "generated", "text": "from the item"},
]
RESPONSES = [{"response_id": "r", "item_id": "i", "text": "from the responses"}]
RECORDS = [
    {"record_id": "1", "image_id": "p", "page_title": "First", "page_url": "https://w/1"},
    {"record_id": "2", "image_id": "p", "page_title": "Second", "page_url": "https://w/2"},
    {"record_id": "3", "image_id": "q", "page_title": "Third", "terms": ["cat", "dog"], "methods": []},
]


def tables(folder: Path, **rows: Any) -> ShownTables:
    """Return the tables, of which `main` is items; those that are None are absent."""
    held: dict[str, Any] = {
        "main": [],
        "images": PICTURES,
        "records": RECORDS,
        "texts": TEXTS,
        "responses": RESPONSES,
        **rows,
    }
    opened = {}
    for key, table in held.items():
        name = "items" if key == "main" else key
        if table:
            write_table(folder / key, name, [dict(row) for row in table])
        opened[key] = open_shown(key, str(folder / key), name) if table else None
    return ShownTables(**opened)  # type: ignore[arg-type]


def item(item_id: str, pictures: Sequence[str] = (), texts: Sequence[str] = (), **columns: Any) -> dict[str, Any]:
    return {"item_id": item_id, "kind": "image", "image_ids": list(pictures), "text_ids": list(texts), **columns}


def chosen(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"response_id": None, "attributes": None, **row} for row in rows]


LINKS = [{"label": "page", "url": "{page_url}"}, {"label": "search", "url": "https://s/?q={source_url}"}]
ATTRIBUTES = [("page_url", "https://w/of-the-item")]  # the record has one too
LOOK = Showing(columns=["page_title"], links=LINKS, base=None)


def test_an_item_is_shown_with_its_texts_pictures_and_first_record(tmp_path: Path) -> None:
    held = tables(tmp_path)
    (shown,) = show_items(
        chosen([item("i", ["p", "q"], ["c", "a"], response_id="r", attributes=ATTRIBUTES)]), held, LOOK
    )
    assert shown.pictures == ("https://i/p.jpg", "https://i/q")
    assert list(shown.texts.items()) == [
        ("article", ("a", "the article")), ("caption", ("c", "")), ("generated", ("r", "from the responses"))
    ]  # fmt: skip
    assert shown.facts == (("page title", "First"),)
    assert shown.links == (("page", "https://w/1"), ("search", "https://s/?q=https%3A%2F%2Fi%2Fp.jpg"))


def test_a_response_that_is_a_text_of_the_item_is_not_looked_up(tmp_path: Path) -> None:
    held = tables(tmp_path, responses=None, records=None)
    some = Showing(columns=[], links=[], base="http://here/", roles=["generated"])
    (shown,) = show_items(chosen([item("i", ["p"], ["a", "g"], response_id="r")]), held, some)
    assert shown.texts == {"generated": ("g", "from the item")}
    assert shown.pictures == ("http://here/p.jpg",)
    with pytest.raises(InputError, match=r"responses=: required"):
        show_items(chosen([item("i", ["p"], ["a"], response_id="r")]), held, some)


def test_links_are_about_the_first_picture_and_its_address_after_redirects(tmp_path: Path) -> None:
    held = tables(tmp_path)
    (moved,) = show_items(chosen([item("i", ["moved", "p"])]), held, LOOK)
    assert (moved.pictures, moved.facts) == (("https://i/new", "https://i/p.jpg"), ())
    assert moved.links == (("search", "https://s/?q=https%3A%2F%2Fi%2Fnew"),)
    (local,) = show_items(chosen([item("i", ["local", "p"])]), held, replace(LOOK, base=""))
    assert (local.pictures, local.links) == (("local.png", "p.jpg"), ())


def test_facts_that_are_lists_are_shown_as_one_text(tmp_path: Path) -> None:
    links = [{"label": "terms", "url": "https://s/?q={terms}"}]
    look = Showing(columns=["terms", "methods", "page_title"], links=links, base=None)
    (shown,) = show_items(chosen([item("i", ["q"])]), tables(tmp_path), look)
    assert shown.facts == (("terms", "cat, dog"), ("page title", "Third"))
    assert shown.links == (("terms", "https://s/?q=cat%2C%20dog"),)


def test_an_item_of_texts_alone_needs_no_other_table(tmp_path: Path) -> None:
    held = tables(tmp_path, images=None, records=None, responses=None)
    own_set = OwnSet("s", (("1", "Red?"),))
    (shown,) = show_items(chosen([item("i", texts=["a"])]), held, replace(LOOK, own_sets={"i": own_set, "j": own_set}))
    assert (shown.pictures, shown.image_ids, shown.facts, shown.links) == ((), (), (), ())
    assert (shown.texts, shown.own_set) == ({"article": ("a", "the article")}, own_set)
    with pytest.raises(InputError, match=r"^texts=: required: the table of the items' texts"):
        show_items(chosen([item("i", texts=["a"])]), replace(held, texts=None), LOOK)
    with pytest.raises(InputError, match=r"^images=: required"):
        show_items(chosen([item("i", ["p"])]), held, LOOK)
    silent = tables(tmp_path / "silent", responses=[{"response_id": "r", "item_id": "i", "text": None}])
    (shown,) = show_items(chosen([item("i", response_id="r") | {"image_ids": None, "text_ids": None}]), silent, LOOK)
    assert (shown.texts, shown.own_set) == ({"generated": ("r", "")}, None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([item("i", ["gone"])], r"images: no image_id 'gone', which an item names"),
        ([item("i", ["p"], ["gone"])], r"texts: no text_id 'gone', which an item names"),
        ([item("i", ["local"])], r"pictures: local: a browser cannot open its source 'file:///x'"),
        ([item("i", ["p"]), item("j", ["p", "q"])], r"items i and j have 1 pictures and texts none and 2 pictures"),
        ([item("i", texts=["a"]), item("j", texts=["c"])], r"0 pictures and texts article and 0 pictures and texts c"),
    ],
)
def test_what_no_form_can_show_is_refused(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        show_items(chosen(rows), tables(tmp_path), LOOK)


def test_a_column_that_records_do_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="show_columns=author: must be columns of records: record_id, "):
        show_items(chosen([item("i", ["p"])]), tables(tmp_path), Showing(["author"], [], None))


def test_items_are_chosen_in_order_without_excluded_ones_and_in_sets(tmp_path: Path) -> None:
    rows = [
        item("j", ["q"], attributes=[("scenario", "x")]),
        item("i", ["p"], attributes=[("scenario", "x")]),
        item("k", ["p"], attributes=[("scenario", "y")]),
        item("out", ["local"], attributes=[("scenario", "x")]),
    ]
    held, excluded = tables(tmp_path, main=rows), ExclusionFilter(frozenset({"local"}))
    apart = choose(held, CompleteDrawConfig(), exclusion_filter=excluded)
    assert ([row["item_id"] for row in apart.rows], apart.description, apart.frame) == (["i", "j", "k"], "", None)
    assert [row["set"] for row in apart.rows] == ["i", "j", "k"]
    together = choose(held, CompleteDrawConfig(), "scenario", exclusion_filter=excluded)
    sets = [row["set"] for row in together.rows]
    assert sets[0] == sets[1] != sets[2]
    of_one = choose(held, CompleteDrawConfig(n=1), exclusion_filter=excluded)
    assert [row["item_id"] for row in of_one.rows] in (["i", "k"], ["j"])
    assert of_one.description == "drew 1 of 2 pictures"
    assert of_one.frame is not None
    assert of_one.frame.to_pydict() == {"item_id": ["i", "j", "k"], "probability": [0.5] * 3}
    with pytest.raises(InputError, match="together=place: not a column or attribute"):
        choose(held, CompleteDrawConfig(), "place", exclusion_filter=excluded)
    everything = ExclusionFilter(frozenset({"local", "p", "q"}))
    with pytest.raises(InputError, match="no item is left to show"):
        choose(held, CompleteDrawConfig(), exclusion_filter=everything)


def test_items_whose_picture_is_not_ok_are_left_out_and_counted(tmp_path: Path) -> None:
    """A picture is ok if a rendition is; nobody is asked about an item of which another picture is not."""
    pictures = [
        *({"image_id": name, "rendition": "w300", "source_url": f"https://i/{name}", "status": status}
          for name, status in (("p", "ok"), ("gone", "missing"), ("bad", "error"), ("twice", "error"))),
        {"image_id": "twice", "rendition": "w600", "source_url": "https://i/twice", "status": "ok"},
    ]  # fmt: skip
    rows = [
        item("a", ["p"]), item("b", ["gone"]), item("c", ["p", "bad"]), item("d", ["twice"]), item("e", ["gone"]),
        item("f", ["p"], attributes=[("response_status", "refused")]), item("g", texts=["a"]),
    ]  # fmt: skip
    held, nothing = tables(tmp_path, main=rows, images=pictures), ExclusionFilter(frozenset())
    for draw in (CompleteDrawConfig(), CompleteDrawConfig(n=9)):
        left_out: Counter[str] = Counter()
        shown = choose(held, draw, exclusion_filter=nothing, left_out=left_out).rows
        assert [row["item_id"] for row in shown] == ["a", "d", "g"]
        assert left_out == {"picture missing": 2, "picture error": 1, "response refused": 1}
    nobody = replace(held, main=tables(tmp_path / "none", main=rows[1:3], images=pictures).main)
    with pytest.raises(InputError, match="no item is left to show; left out: picture error 1, picture missing 1"):
        choose(nobody, CompleteDrawConfig(), exclusion_filter=nothing)


def test_of_two_tables_with_one_item_both_must_say_the_same(tmp_path: Path) -> None:
    for name, pictures in (("a", ["p"]), ("b", ["p"]), ("c", ["q"])):
        write_table(tmp_path / name, "items", [item("i", pictures)])
    nothing = ExclusionFilter(frozenset())
    held = tables(tmp_path / "others")

    def main(*names: str) -> ShownTables:
        source = open_shown("input", [str(tmp_path / name) for name in names], "items")
        assert source is not None
        return ShownTables(source, held.images, held.records, held.texts, held.responses)

    (row,) = choose(main("a", "b"), CompleteDrawConfig(), exclusion_filter=nothing).rows
    assert row["image_ids"] == ["p"]
    with pytest.raises(InputError, match="two tables hold item_id 'i' with different image_ids"):
        choose(main("a", "c"), CompleteDrawConfig(), exclusion_filter=nothing)


def test_each_picture_is_written_once_with_its_extension(tmp_path: Path) -> None:
    rows = [
        {"image_id": "p", "rendition": "w300", "bytes": None, "status": "error"},
        {"image_id": "p", "rendition": "w600", "bytes": b"first", "format": "JPEG", "status": "ok"},
        {"image_id": "p", "rendition": "w900", "bytes": b"second", "format": "JPEG", "status": "ok"},
        {"image_id": "q", "rendition": "w300", "bytes": b"other", "format": None, "status": "ok"},
        {"image_id": "r", "rendition": "w300", "bytes": b"not wanted", "format": "PNG", "status": "ok"},
    ]
    images = tables(tmp_path, images=rows).images
    assert images is not None
    assert write_pictures(images, ["q", "p", "none"], f"{tmp_path}/files") == 2
    files = {path.name: path.read_bytes() for path in (tmp_path / "files").iterdir()}
    assert files == {"p.jpg": b"first", "q.bin": b"other"}


def test_the_address_of_a_picture_is_that_of_the_rendition_that_is_written(tmp_path: Path) -> None:
    rows = [
        {"image_id": "p", "rendition": "a", "source_url": "https://i/p", "status": "error"},
        {
            "image_id": "p",
            "rendition": "b",
            "source_url": "https://i/p",
            "bytes": b"p",
            "format": "PNG",
            "status": "ok",
        },
        {
            "image_id": "p",
            "rendition": "c",
            "source_url": "https://i/p",
            "bytes": b"q",
            "format": "GIF",
            "status": "ok",
        },
        {"image_id": "q", "rendition": "verified", "source_url": "https://i/q", "status": "ok"},
        {
            "image_id": "q",
            "rendition": "z",
            "source_url": "https://i/q",
            "bytes": b"q",
            "format": "GIF",
            "status": "ok",
        },
    ]
    held = tables(tmp_path, images=rows)
    (shown,) = show_items(chosen([item("i", ["p", "q"])]), held, replace(LOOK, base=""))
    assert shown.pictures == ("p.png", "q.gif")
    assert held.images is not None
    assert write_pictures(held.images, ["p", "q"], f"{tmp_path}/files") == 2
    assert {path.name for path in (tmp_path / "files").iterdir()} == set(shown.pictures)


def test_several_tables_are_read_in_the_order_of_their_addresses(tmp_path: Path) -> None:
    for name, count in (("b", 2), ("a", 3), ("c", 1)):
        write_table(tmp_path / name, "texts", [{"text_id": f"{name}{n}", "text": "x"} for n in range(count)])
    shown = open_shown("texts", f"{tmp_path}/*", "texts", "items")
    assert shown is not None
    ids = ["a0", "a1", "a2", "b0", "b1", "c0"]

    def first(limit: int | None) -> list[str]:
        return [text for batch in shown.first(limit).batches(["text_id"]) for text in batch["text_id"].to_pylist()]

    for limit in (1, 3, 4, 5, 6, 9):
        assert (first(limit), shown.first(limit).rows, shown.first(limit).limit) == (ids[:limit], min(limit, 6), limit)
    assert (first(None), shown.rows, shown.name) == (ids, 6, "texts")
    assert shown.uri == ", ".join(f"{tmp_path}/{name}" for name in "abc")
    assert len(list(shown.objects)) == 3
    listed = open_shown("texts", [f"{tmp_path}/{name}" for name in "cba"], "texts")
    assert listed is not None
    assert listed.identity == shown.identity
    assert open_shown("texts", None, "texts") is open_shown("texts", [], "texts") is None
    wrong: list[Any] = ["", [""], [3], [str(tmp_path / "a"), 3], {"a": 1}, 3]
    for value in wrong:
        with pytest.raises(InputError, match=r"texts=.*must be a table, a glob of tables, or a list of them"):
            open_shown("texts", value, "texts")
    write_table(tmp_path / "d", "items", [item("i", ["p"])])
    with pytest.raises(InputError, match=r"input=.*holds tables of items and texts; run annotate once for each"):
        open_shown("input", f"{tmp_path}/*", "texts", "items")


def question(set_id: str, question_id: str, **columns: Any) -> dict[str, Any]:
    return {"set_id": set_id, "question_id": question_id, "text": f"{question_id}?", "valid": True, **columns}


def asked_item(name: str, prompt: str | None = None, *texts: str) -> dict[str, Any]:
    return {"item_id": name, "attributes": [("prompt", prompt)] if prompt else None, "text_ids": list(texts) or None}


def own_sets(folder: Path, items: list[dict[str, Any]], *units: list[dict[str, Any]]) -> dict[str, OwnSet]:
    cfg = OwnQuestionsConfig(questions=write_units(folder / "questions", "questions", units))
    texts = {name: {"role": role, "text": text} for name, role, text in (
        ("t", "prompt", "one"), ("u", "prompt", None), ("v", "prompt", "two"), ("n", "note", "three"))}  # fmt: skip
    return read_own_sets(cfg, items, texts)


def test_the_set_is_named_by_the_item_or_by_its_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    joined = "one\n\n\n\ntwo"
    units = [
        [question("s", "2"), question("s", "1"), question("s", "3", valid=False), question("s", "4", text="")],
        [question(set_id_of("s"), "9"), question(set_id_of(joined), "5", valid=None), question("s", "0")],
        [question("unasked", "1", valid=False), question("one", "7")],
    ]
    items = [
        asked_item("a", "s", "n"), asked_item("b", None, "t", "n", "u", "v"), asked_item("c", None, "n"),
        asked_item("d", "unasked"), asked_item("e", "one", "v"), asked_item("f"),
    ]  # fmt: skip
    sets = own_sets(tmp_path, items, *units)
    assert sets == {
        "a": OwnSet("s", (("2", "2?"), ("1", "1?"), ("0", "0?"))),
        "b": OwnSet(set_id_of(joined), (("5", "5?"),)),
        "e": OwnSet("one", (("7", "7?"),)),
    }
    assert "  3 of 6 items have no questions and are left out\n" in capsys.readouterr().out


def test_nothing_is_printed_if_all_items_have_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(own_sets(tmp_path, [asked_item("a", "s")], [question("s", "1")])) == {"a"}
    assert capsys.readouterr().out == ""
    with pytest.raises(InputError, match=r"questions=.*: none of the 1 items .*'prompt' of an item \(questions_by=\)"):
        own_sets(tmp_path / "none", [asked_item("a", "t")], [question("s", "1")])

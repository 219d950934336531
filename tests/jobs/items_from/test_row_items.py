"""Rows of a user's file -> items: which cells, which of two, ids, rejects, without files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.items_from.input_rows import PICTURE, UserFile
from jobs.items_from.items_config import ItemsConfig
from jobs.items_from.named_pictures import NamedPicture, Paths, Urls
from jobs.items_from.row_items import ItemRow, ItemRowReader, record_of, roles_of
from jobs.runtime.configuration.config import load
from jobs.store.files.objects import Object
from jobs.store.writer import RAW_KEPT, Reject
from tests.cases import check_cases

URL = "https://a.example/{}.jpg"


def file_of(*columns: str) -> UserFile:
    return UserFile(Object("F", 1, "etag"), columns, lambda _: iter(()))


def reader_of(columns: Mapping[str, Any] | tuple[str, ...], *keys: str) -> ItemRowReader:
    """Return a reader of rows with these columns."""
    cfg, file = load("items", ItemsConfig, ["input=F", "out=O", *keys]), file_of(*columns)
    return ItemRowReader(cfg, file, roles_of(cfg, file), Urls())


def items_of(row: Mapping[str, Any], *keys: str) -> list[ItemRow]:
    items = reader_of(tuple(row), *keys).items(2, row)
    assert isinstance(items, list), items
    return items


def texts_of(item: ItemRow) -> list[tuple[str, str]]:
    assert item.item["text_ids"] == [text["text_id"] for text in item.texts]
    return [(text["role"], text["text"]) for text in item.texts]


def test_the_kind_is_that_of_the_number_of_pictures() -> None:
    cells = {0: None, 1: URL.format(1), 2: [URL.format(1), URL.format(2)], 3: [URL.format(n) for n in range(3)]}
    keys = ["columns.pictures=p", "columns.texts.note=t"]
    kinds = {0: "description", 1: "image", 2: "pair", 3: "pair"}
    for number, cell in cells.items():
        if number:
            (item,) = items_of({"p": cell, "t": "x"}, *keys)
        else:
            (item,) = items_of({"t": "x"}, keys[1])
        assert item.item["kind"] == kinds[number]
        assert len(item.item["image_ids"]) == len(item.pictures) == number
        (item,) = items_of({"p": cell or URL.format(1), "t": "x"}, *keys, "kind=caption")
        assert item.item["kind"] == "caption"


def test_pictures_of_several_columns_follow_the_order_of_the_key() -> None:
    row = {"a": URL.format(1), "b": f"{URL.format(2)} | {URL.format(3)}", "c": None}
    (item,) = items_of(row, "columns.pictures=[b,c,a]", "separators.pictures='|'")
    assert item.item["image_ids"] == [content_id(URL.format(n)) for n in (2, 3, 1)]
    assert item.item["attributes"] == []


def test_ids_without_a_column_depend_on_all_that_is_judged() -> None:
    """A single picture without texts has its own id; texts, roles, language and the order of pictures count."""
    keys = ["columns.pictures=p", "columns.texts={note: t, prompt: u}"]
    one, other = URL.format(1), URL.format(2)
    rows: list[tuple[dict[str, Any], list[str]]] = [
        ({"p": one, "t": None, "u": None}, []),
        ({"p": one, "t": "x", "u": None}, []),
        ({"p": one, "t": None, "u": "x"}, []),
        ({"p": one, "t": "x", "u": None}, ["language=de"]),
        ({"p": one, "t": "y", "u": None}, []),
        ({"p": [one, other], "t": None, "u": None}, []),
        ({"p": [other, one], "t": None, "u": None}, []),
    ]
    ids = [items_of(row, *keys, *more)[0].item["item_id"] for row, more in rows]
    assert len(set(ids)) == len(rows)
    assert ids[0] == content_id(one)
    with_attribute = items_of({**rows[1][0], "other": "z"}, *keys)[0]
    assert (with_attribute.item["item_id"], with_attribute.item["attributes"]) == (ids[1], [("other", "z")])
    (text,) = items_of(rows[1][0], *keys)[0].texts
    assert (text["source"], text["language"], text["role"]) == (ids[1], "", "note")


def test_texts_have_ids_of_their_own_within_an_item() -> None:
    row = {"id": "i", "a": "x", "b": "x"}
    keys = ["columns.id=id", "columns.texts={note: [a, b], prompt: a}"]
    ids = [items_of(cells, *keys)[0].item["text_ids"] for cells in (row, {**row, "a": "y"}, {**row, "id": "j"})]
    assert [len(set(of_item)) for of_item in ids] == [3] * 3
    assert [len({*ids[0], *of_item}) for of_item in ids] == [3, 5, 6]


def test_the_language_of_a_cell_comes_before_that_of_the_key() -> None:
    row = {"t": "x", "l": "fr"}
    assert items_of(row, "columns.texts.note=t", "columns.language=l", "language=de")[0].texts[0]["language"] == "fr"
    assert items_of(row, "columns.texts.note=t", "language=de")[0].texts[0]["language"] == "de"
    empty = items_of(row | {"l": None}, "columns.texts.note=t", "columns.language=l", "language=de")[0]
    assert empty.texts[0]["language"] == ""


def test_item_per_numbers_the_texts_of_a_cell() -> None:
    row = {"id": "q", "a": "one / two", "b": None, "c": "three", "n": "shared", "x": "y"}
    keys = ["columns.id=id", "columns.texts={answer: [a, b, c], note: n}", "item_per=answer", "separators.texts='/'"]
    items = items_of(row, *keys)
    assert [texts_of(item) for item in items] == [
        [("note", "shared"), ("answer", text)] for text in ("one", "two", "three")
    ]
    columns = ["a", "a/2", "c"]
    assert [item.item["attributes"] for item in items] == [
        [("x", "y"), ("set", "q"), ("text_column", column)] for column in columns
    ]
    assert [item.item["item_id"] for item in items] == [content_id("item", "q", column) for column in columns]
    assert len({text["text_id"] for item in items for text in item.texts}) == 6


def test_rows_without_what_an_item_needs_are_rejects() -> None:
    def check(row: dict[str, Any], keys: list[str], reason: str, message: str) -> None:
        reject = reader_of(tuple(row), *keys).items(7, row)
        assert isinstance(reject, Reject)
        assert (reject.file, reject.position, reject.reason, reject.message) == ("F", 7, reason, message)

    texts = "columns.texts={note: t, prompt: u}"
    cases = [
        ({"i": None, "t": "x", "u": "y"}, ["columns.id=i", texts], "no_id", "column i is empty"),
        ({"p": None, "q": None}, ["columns.pictures=[p,q]"], "no_picture", "no picture in p, q"),
        ({"t": None, "u": None}, [texts], "no_text", "no text"),
        ({"t": "x", "u": None}, [texts, "item_per=prompt"], "no_text", "no text of role prompt"),
        ({"p": URL.format(1), "t": "x", "u": None}, ["columns.pictures=p", texts, "item_per=prompt"], "no_text",
         "no text of role prompt"),
        ({"p": "x y"}, ["columns.pictures=p"], "not_a_url",
         "column p: 'x y' is not a URL; for files set pictures.path=FOLDER, for image_ids images=TABLE"),
    ]  # fmt: skip
    check_cases(check, cases)
    assert texts_of(items_of({"t": None, "u": "y"}, texts)[0]) == [("prompt", "y")]
    (item,) = items_of({"p": URL.format(1), "t": None, "u": None}, "columns.pictures=p", texts)
    assert item.texts == []


def test_absolute_paths_become_relative(tmp_path: Path) -> None:
    """In ids and attributes; an id elsewhere on a disk is refused, and a knowledge base's stays."""
    photos = tmp_path / "photos"
    (photos / "sub").mkdir(parents=True)
    (photos / "sub" / "a.png").write_bytes(b"x")
    cfg = load("items", ItemsConfig, ["input=F", "out=O", "columns.pictures=p", "columns.id=i"])
    file = UserFile(Object(f"{tmp_path}/set.csv", 1, "etag"), ("p", "i", "scan"), lambda _: iter(()))
    reader = ItemRowReader(cfg, file, roles_of(cfg, file), Paths(str(photos)))
    ids = {
        f"{photos}/sub/a.png": "sub/a.png",
        f"{tmp_path}/scans/1.tif": "scans/1.tif",
        "C:\\Users\\ada\\photos\\sub\\a.png": "sub/a.png",
        "/m/02h": "/m/02h",
        "https://a.example/1": "https://a.example/1",
        "plain": "plain",
    }
    for written, expected in ids.items():
        items = reader.items(2, {"p": f"{photos}/sub/a.png", "i": written, "scan": "/home/ada/1.tif"})
        assert isinstance(items, list), items
        assert items[0].item["item_id"] == expected
        assert items[0].item["image_ids"] == [content_id("sub/a.png")]
        assert items[0].item["attributes"] == [("scan", "1.tif")]
    for written in ("/home/ada/other/9.png", "D:/x/9.png", "file:///root/9.png", "\\\\server\\x\\9.png"):
        reject = reader.items(2, {"p": "sub/a.png", "i": written})
        assert isinstance(reject, Reject)
        assert (reject.reason, reject.raw) == ("absolute_path", "p=sub/a.png i=9.png")
        assert reject.message.startswith("column i: '9.png' is given by an absolute path")


def test_a_reject_keeps_the_beginning_of_the_row() -> None:
    row = {"id": None, "t": ["x", "y"], "n": None, "long": "z" * RAW_KEPT}
    reject = reader_of(tuple(row), "columns.id=id", "columns.texts.note=t").items(2, row)
    assert isinstance(reject, Reject)
    assert reject.raw == f"t=x, y long={'z' * RAW_KEPT}"[:RAW_KEPT]


def test_targets_and_gold_are_distinct_entries() -> None:
    row = {"t": "x", "l": "a; b ;;a", "m": ["c", "a"], "g": "c;a;c"}
    keys = ["columns.texts.note=t", "columns.targets=[l,m]", "columns.gold=g"]
    item = items_of(row, *keys)[0].item
    assert (item["targets"], item["gold"], item["attributes"]) == (["a", "b", "c"], ["c", "a"], [])
    alone = items_of(row, keys[0], keys[2], "columns.attributes=[m,l]")[0].item
    assert (alone["targets"], alone["gold"]) == (None, ["c", "a"])
    assert alone["attributes"] == [("m", "c, a"), ("l", "a; b ;;a")]
    none = items_of(row | {"l": None, "m": None, "g": None}, *keys, "columns.attributes=[]")[0].item
    assert (none["targets"], none["gold"], none["attributes"]) == (None, None, [])
    wrong: dict[str, Any] = row | {"g": "a;d;e"}
    reject = reader_of(tuple(wrong), *keys).items(2, wrong)
    assert isinstance(reject, Reject)
    assert (reject.position, reject.reason) == (2, "gold_not_a_target")
    assert reject.message.startswith("gold 'd' is not among the targets a, b, c; ")


def test_an_empty_list_says_that_no_label_is_right_and_an_empty_cell_that_it_is_unknown() -> None:
    def check(first: Any, second: Any, gold: list[str] | None) -> None:
        row = {"t": "x", "l": ["a", "b"], "g": first, "h": second}
        keys = ["columns.texts.note=t", "columns.targets=l", "columns.gold=[g,h]"]
        assert items_of(row, *keys)[0].item["gold"] == gold

    cases: list[tuple[Any, Any, list[str] | None]] = [
        (None, None, None), ([], None, []), (None, [], []), ([], [], []), ([], "a", ["a"]), (["a"], [], ["a"]),
        ("[]", None, []), ("[ ]", None, []), (";", None, None), (" ", None, None), ('["a", "b"]', None, ["a", "b"]),
        ('["a"]', "b", ["a", "b"]), ('[""]', None, None), ("[null]", None, None),
    ]  # fmt: skip
    check_cases(check, cases)
    labels = items_of({"t": "x", "g": "[sic]"}, "columns.texts.note=t", "columns.gold=g")[0].item["gold"]
    assert labels == ["[sic]"]
    without = items_of({"t": "x", "l": "[]"}, "columns.texts.note=t", "columns.targets=l")[0].item
    assert (without["targets"], without["gold"]) == (None, None)


def test_a_list_as_python_prints_it_is_refused() -> None:
    reader = reader_of(("t", "g"), "columns.texts.note=t", "columns.gold=g")
    for line, cell in ((2, "a;b"), (3, "['a', 'b']"), (4, "['a' 'b']")):
        reader.items(line, {"t": "x", "g": cell})
    with pytest.raises(InputError, match=r"F: line 3: .*as Python prints it.*separators.gold=';'"):
        reader.finish()


def test_another_separator_is_refused_if_no_cell_has_that_of_the_key() -> None:
    keys = ["columns.texts.note=t", "columns.targets=l"]

    def check(cells: list[Any], more: list[str], message: str | None) -> None:
        reader = reader_of(("t", "l"), *keys, *more)
        for line, cell in enumerate(cells, start=2):
            reader.items(line, {"t": "x", "l": cell})
        if message is None:
            reader.finish()
            return
        with pytest.raises(InputError, match=message):
            reader.finish()

    cases: list[tuple[list[Any], list[str], str | None]] = [
        (["a", "b,c", "d|e"], [], r"line 3: a cell has ',', and no cell of the file has separators.targets=';'"),
        (["b|c"], [], r"line 2: a cell has '\|'"),
        (["b\tc"], [], r"line 2: a cell has '\\t'"),
        (["b,c", "d;e"], [], None),
        (["d;e", "b,c"], [], None),
        (["a", "b"], [], None),
        ([["b,c", "d"], None], [], None),
        (["b,c"], ["separators.targets=null"], None),
        (["b,c"], ["separators.targets=','"], None),
        (["b;c"], ["separators.targets=','"], r"line 2: a cell has ';'"),
    ]
    check_cases(check, cases)


def test_a_column_of_bytes_is_named() -> None:
    file = UserFile(Object("F", 1, "etag"), ("text",), lambda _: iter(()), binary=("id",))
    with pytest.raises(InputError, match=r"no column id \(columns.id=\); its columns are text; not read, .*: id; cast"):
        roles_of(load("items", ItemsConfig, ["input=F", "out=O", "columns.id=id", "columns.texts.note=text"]), file)


def test_columns_of_a_list_of_pictures_and_those_that_fit_nothing() -> None:
    (item,) = items_of({PICTURE: URL.format(1)})
    assert (item.pictures, item.item["attributes"]) == ([NamedPicture(content_id(URL.format(1)), URL.format(1))], [])
    (item,) = items_of({PICTURE: URL.format(1), "more": "x"}, "columns.texts.note=more")
    assert (item.pictures, item.item["attributes"]) == ([], [(PICTURE, URL.format(1))])

    def check(columns: tuple[str, ...], keys: list[str], part: str) -> None:
        with pytest.raises(InputError) as error:
            reader_of(columns, *keys)
        assert part in str(error.value)

    texts = "columns.texts.note=a"
    cases = [
        (("a",), ["columns.id=b", "columns.language=c", texts],
         "F: no column b (columns.id=), c (columns.language=); its columns are a"),
        ((), [texts], "no column a (columns.texts.note=); its columns are none"),
        (("a",), ["columns.targets=b", "columns.attributes=[c]", texts],
         "F: no column b (columns.targets=), c (columns.attributes=); its columns are a"),
        (("a", "b"), [], "columns.pictures= or columns.texts.ROLE= is required; the columns of the file are a, b"),
        (("a", "b"), ["columns.pictures=[]", "columns.texts={note: []}"], "is required"),
        (("a",), [texts, "separators.texts=''"], "separators.texts: empty"),
        (("a",), [texts, "kind=photo"], "kind=photo: must be one of image, pair, description, caption"),
        (("a",), [texts, "item_per=prompt"], "must be one of note"),
        (("a", "set"), [texts, "item_per=note"], "writes the attribute set, which is also a column"),
        (("a", "text_column"), [texts, "item_per=note", "columns.attributes=[text_column]"], "attribute text_column"),
        (("a",), ["columns.texts.note=true"], "columns.texts.note=true: must be the name of a column"),
        (("a",), ["columns.pictures=['']"], "columns.pictures=['']: must be"),
    ]  # fmt: skip
    check_cases(check, cases)
    reader_of(("a", "set"), texts, "item_per=note", "columns.attributes=[a]")
    reader_of(("a", "set"), texts)
    reader_of(("3",), "columns.texts.note=3")


def test_a_record_takes_the_columns_that_are_named_as_wits() -> None:
    picture = NamedPicture("id", "u")
    record = record_of(picture, "item", {"page_title": "T", "image_url": "other", "unknown": "x"})
    assert (record["page_title"], record["image_url"], record["image_id"]) == ("T", "u", "id")
    assert record["record_id"] == content_id("item", "item", "id")
    assert "unknown" not in record
    assert (record["split"], record["terms"], record["methods"]) == ("", [], [])
    released = {"wikipedia_url": "P", "wit_split": "validation", "century_method": "with_knowledge_graph"}
    record = record_of(picture, "item", released)
    assert (record["page_url"], record["split"], record["methods"]) == ("P", "val", ["knowledge_graph"])

"""Items as the stages get them: pictures, statuses, context fields and texts, from tables written by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.items import NO_RESPONSE
from jobs.errors import InputError
from jobs.judging.items import DRAWN, ItemTables, Reader, open_sources, reading
from jobs.runtime.selection.exclusions import SHOWN
from jobs.store.writer import UnitTask
from tests.cases import check_cases
from tests.factories import picture, record_of, write_file, write_units

PICTURES = [picture(0), picture(1), picture(2, status="error"), picture(3)]
IDS = [row["image_id"] for row in PICTURES]
URLS = [row["source_url"] for row in PICTURES]
TEXTS: list[dict[str, Any]] = [
    {"text_id": "a", "role": "generated", "text": "first"},
    {"text_id": "b", "role": "caption", "text": "second"},
    {"text_id": "c", "role": "generated", "text": "third"},
    {"text_id": "d", "role": "", "text": None},
    {"text_id": "e", "role": "page_title", "text": "of a text"},
]
ITEMS: list[dict[str, Any]] = [
    {"item_id": "both", "image_ids": [IDS[1], IDS[0]], "text_ids": ["c", "b", "a"], "targets": ["joy"],
     "attributes": [("scenario", "x"), ("caption", ""), ("response_status", "truncated")]},
    {"item_id": "failed", "image_ids": [IDS[0], IDS[2]], "text_ids": ["gone", "d"],
     "attributes": [("page_title", "of the item")]},
    {"item_id": "gone", "image_ids": ["gone", IDS[3]], "text_ids": ["e"], "attributes": [("response_status", "ok")]},
    {"item_id": "refused", "image_ids": [IDS[0]], "attributes": [("response_status", "refused")]},
    {"item_id": "plain", "image_ids": None, "text_ids": ["b"], "targets": []},
]  # fmt: skip
FIELDS = ("page_title", "generated", "caption", "text", "scenario")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    tmp_path = tmp_path_factory.mktemp("tables")
    return {
        "images": write_units(tmp_path / "images", "images", [PICTURES]),
        "items": write_units(tmp_path / "items", "items", [[{"kind": "image", **item} for item in ITEMS]]),
        "texts": write_units(tmp_path / "texts", "texts", [TEXTS]),
        "records": write_units(
            tmp_path / "records", "records", [[record_of(PICTURES[0], "zero"), record_of(PICTURES[3], "three")]]
        ),
    }


def sources(tables: dict[str, str], main: str, **keys: Any) -> ItemTables:
    joined = {name: None if main == "images" else tables[name] for name in ("images", "texts")}
    fields = FIELDS[:1] if main == "images" else FIELDS
    return open_sources(
        tables[main], **{**joined, "records": tables["records"], "fields": fields, "pictures": True, **keys}
    )


def read(source: ItemTables, reader: Reader | None = None, drawn: list[int] | None = None) -> list[dict[str, Any]]:
    (unit,) = source.units()
    unit = replace(unit, extra={**unit.extra, DRAWN: drawn}) if drawn is not None else unit
    return (reader or reading(source, fields=FIELDS, pictures=True))(UnitTask(unit)).to_pylist()


def test_items_have_their_pictures_texts_and_attributes(tables: dict[str, str]) -> None:
    rows = read(sources(tables, "items"))
    assert [(row["item_id"], row["status"]) for row in rows] == [
        ("both", "ok"), ("failed", "error"), ("gone", "missing_input"), ("refused", NO_RESPONSE), ("plain", "ok")
    ]  # fmt: skip
    zero, one, three = (PICTURES[number]["bytes"] for number in (0, 1, 3))
    assert [row["pictures"] for row in rows] == [[one, zero], [zero, None], [None, three], [zero], []]
    assert [row["targets"] for row in rows] == [["joy"], None, None, None, []]
    # An attribute comes before the texts of its name, and these before the record of the first picture that has one.
    assert [tuple(row[name] for name in FIELDS) for row in rows] == [
        ("zero", "third\n\nfirst", "second", "third\n\nsecond\n\nfirst", "x"),
        ("of the item", None, None, "", None),
        ("of a text", None, None, "of a text", None),
        ("zero", None, None, None, None),
        (None, None, "second", "second", None),
    ]
    assert [row[SHOWN] for row in rows] == [
        [IDS[1], IDS[0], URLS[1], URLS[0]], [IDS[0], IDS[2], URLS[0], URLS[2]], ["gone", IDS[3], URLS[3]],
        [IDS[0], URLS[0]], [],
    ]  # fmt: skip
    assert [row["item_id"] for row in read(sources(tables, "items"), drawn=[1, 3])] == ["failed", "refused"]


def test_without_pictures_their_statuses_and_bytes_do_not_count(tables: dict[str, str]) -> None:
    source = sources(tables, "items", pictures=False)
    rows = read(source, reading(source, fields=(), pictures=False))
    assert [row["status"] for row in rows] == ["ok", "ok", "ok", NO_RESPONSE, "ok"]
    assert [row["pictures"] for row in rows] == [[]] * 5
    assert rows[0][SHOWN] == [IDS[1], IDS[0], URLS[1], URLS[0]]  # exclusions are compared all the same
    assert set(rows[0]) == {"item_id", "pictures", "status", "targets", SHOWN}


def test_whole_texts_keep_their_roles_and_ids(tables: dict[str, str]) -> None:
    source = sources(tables, "items")
    rows = read(source, Reader("items", ("images", "texts", "records"), (), pictures=True, whole_texts=True))
    assert rows[0]["texts"] == [("generated", ["third", "first"]), ("caption", ["second"])]
    assert rows[0]["text_ids"] == [("generated", ["c", "a"]), ("caption", ["b"])]
    assert (rows[1]["texts"], rows[1]["text_ids"]) == ([("", [None])], [("", ["d"])])
    assert [row["texts"] for row in rows[2:]] == [[("page_title", ["of a text"])], [], [("caption", ["second"])]]


def test_each_picture_of_images_is_an_item(tables: dict[str, str]) -> None:
    source = sources(tables, "images")
    rows = read(source, reading(source, fields=FIELDS[:1], pictures=True))
    assert [(row["item_id"], row["status"], row["targets"]) for row in rows] == [
        (IDS[0], "ok", None), (IDS[1], "ok", None), (IDS[2], "error", None), (IDS[3], "ok", None)
    ]  # fmt: skip
    assert [row["pictures"] for row in rows] == [[row["bytes"]] for row in PICTURES]
    assert [row["page_title"] for row in rows] == ["zero", None, None, "three"]
    assert [row[SHOWN] for row in rows] == [[url] for url in URLS]
    bare = read(source, reading(source, fields=(), pictures=False), drawn=[2])
    assert bare == [{"item_id": IDS[2], "pictures": [], "status": "error", "targets": None, SHOWN: [URLS[2]]}]


def test_a_field_of_several_values_is_one_text(tables: dict[str, str], tmp_path: Path) -> None:
    record = {**record_of(PICTURES[0], "zero"), "terms": ["war", "peace"]}
    source = sources({**tables, "records": write_units(tmp_path / "records", "records", [[record]])}, "images")
    rows = read(source, reading(source, fields=("terms",), pictures=False))
    assert [row["terms"] for row in rows] == ["war, peace", None, None, None]


def test_tables_that_do_not_fit_are_refused(tables: dict[str, str], tmp_path: Path) -> None:
    unnamed: dict[str, Any] = {"images": None, "texts": None, "records": None}
    cases = [
        ("images", {**unnamed, "images": tables["images"]}, r"images=.*/images: allowed only for a table of items"),
        ("images", {**unnamed, "texts": tables["texts"]}, r"texts=.*/texts: allowed only for a table of items"),
        ("items", unnamed, r"input=.*/items: a table of items, and the prompt shows a picture; .* images="),
        ("items", {"texts": None}, r"input=.*/items: the prompt uses the items' texts; set texts="),
        ("images", {"fields": ("scenario",)}, r"records=.*/records: no context field of the prompt \(scenario\)"),
    ]  # fmt: skip

    def check(main: str, keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            sources(tables, main, **keys)

    check_cases(check, cases)
    sources(tables, "items", **{**unnamed, "pictures": False, "fields": ("caption",)})
    sources(tables, "items", fields=("scenario",))
    sources(tables, "images", fields=())
    sources(tables, "images", records=None, fields=("scenario",))
    other = sources({**tables, "records": write_file(tmp_path / "other", "records", [])}, "items")
    assert {name: table.uri for name, table in other.joined_tables.items()} == {
        "images": tables["images"], "texts": tables["texts"], "records": str(tmp_path / "other")
    }  # fmt: skip
    of_both = [sources(tables, main).pictures for main in ("items", "images")]
    assert [table and table.uri for table in of_both] == [tables["images"]] * 2
    assert set(other.identity) == {"input", "images", "texts", "records"}
    assert set(sources(tables, "images", records=None).identity) == {"input"}


def test_tables_with_other_units_are_joined_as_a_whole(tmp_path: Path) -> None:
    """Else an item would lack the texts and pictures that are in another unit than itself."""
    rows = [{"item_id": f"i{n}", "kind": "image", "image_ids": [IDS[n]], "text_ids": ["abc"[n]]} for n in range(3)]
    items = write_units(tmp_path / "items", "items", [rows[:2], rows[2:], []])
    images = write_units(tmp_path / "images", "images", [PICTURES[:2], PICTURES[2:], []])
    texts = write_units(tmp_path / "texts", "texts", [TEXTS[2:], TEXTS[:2]])
    source = open_sources(items, images=images, texts=texts, records=None, fields=("text",), pictures=True)
    assert source.texts is not None
    assert source.images is not None
    units = source.units()
    assert [unit.rows for unit in units] == [2, 1, 0]
    assert [unit.inputs[1] for unit in units] == [footer.object for footer in source.images.footers]
    assert [unit.inputs[2] for unit in units] == [source.texts.whole()] * 3
    reader = reading(source, fields=("text",), pictures=True)
    assert [row["text"] for unit in units for row in reader(UnitTask(unit)).to_pylist()] == ["first", "second", "third"]

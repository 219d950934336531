"""The rows, ids and texts that `gather` and `matches` find for a withdrawn picture."""

from pathlib import Path

import pyarrow as pa

from actors.ids import content_id
from jobs.purging.matching import gather, matches
from jobs.runtime.selection.exclusions import ID, ExclusionFilter, marks_of
from jobs.store.reading import open_table
from tests.factories import image_row, record, write_table

GONE, OTHER = content_id("gone"), content_id("other")


def test_rows_of_every_chunk_are_matched_by_their_lists_and_ids() -> None:
    parts = (
        ([["x"], None, ["y", GONE]], ["1", "2", "3"]),
        ([[], [GONE, "x"], ["z"]], [GONE, "5", "6"]),
        ([["z"], [GONE]], ["7", "8"]),
    )
    chunks = [
        pa.table({"image_ids": pa.array(image_ids, pa.list_(pa.string())), "item_id": item_ids})
        for image_ids, item_ids in parts
    ]
    hit = matches(pa.concat_tables(chunks), ExclusionFilter(frozenset({GONE})))
    assert hit.tolist() == [False, False, True, True, True, False, False, True]


def test_texts_go_with_a_picture_unless_an_item_of_any_table_uses_them(tmp_path: Path) -> None:
    names = ("alone", "here", "there", "of item", "elsewhere")
    text = {name: content_id("text", name) for name in names}
    about = {
        "item_id": content_id("about"),
        "image_ids": [GONE],
        "text_ids": [text[n] for n in ("alone", "here", "there")],
    }
    near = {"item_id": content_id("near"), "image_ids": [OTHER], "text_ids": [text["here"]]}
    later = {"item_id": content_id("later"), "image_ids": [OTHER], "text_ids": [text["there"], text["elsewhere"]]}
    numbered = {"item_id": "7", "image_ids": [GONE], "text_ids": ["8"]}  # ids that may be words of any text
    texts = [
        {"text_id": text["of item"], "source": about["item_id"]},
        {"text_id": text["elsewhere"], "source": near["item_id"]},
    ]
    tables = [
        open_table(write_table(tmp_path / out, name, rows))
        for out, name, rows in (
            ("first", "items", [about, near, numbered]), ("second", "items", [later]), ("texts", "texts", texts)
        )
    ]  # fmt: skip
    gone = gather(tables, frozenset({GONE}))
    assert gone.marks == {GONE, about["item_id"], text["alone"], text["of item"], "7", "8"}
    assert gone.others == gone.marks - {GONE, "7", "8"}
    assert (gone.pictures, gone.urls, gone.matched) == ({GONE}, set(), {GONE, about["item_id"], "7"})


def test_a_picture_with_another_id_is_removed_with_all_rows_about_it(tmp_path: Path) -> None:
    shown = record("a", record_id=content_id("row"))
    url = shown["image_url"]
    shared = {"final_url": "https://i/gone.svg"}  # where both pictures are redirected, which names neither
    copy = image_row(url, image_id=OTHER) | shared
    tables = [
        open_table(write_table(tmp_path / "records", "records", [shown, record("b")])),
        open_table(write_table(tmp_path / "images", "images", [copy, image_row("https://i/b.jpg") | shared])),
    ]
    gone = gather(tables, frozenset({shown["image_id"]}))
    assert gone.urls == {url}
    assert gone.others == {shown["record_id"]}
    assert gone.marks == {shown["image_id"], OTHER, shown["record_id"], *marks_of(url)}
    assert gone.pictures == set(filter(ID.fullmatch, gone.marks)) - gone.others

"""The rows, ids and texts that `gather` and `matches` find for a withdrawn picture."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.purging import matching
from jobs.purging.matching import Gone, gather, matches
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


JOURNALLED = Gone({"b", "a"}, {"https://x/a.jpg"}, {"a"}, {"m"}, {"b"})


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert matching.read(str(tmp_path), "list") is None
    begun = matching.begin(str(tmp_path), "list", JOURNALLED, None)
    assert (begun.listed, begun.gone) == ("list", JOURNALLED)
    assert matching.read(str(tmp_path), "list") == begun
    content = json.loads((tmp_path / matching.FILE).read_text())
    assert content["marks"] == ["a", "b"]
    assert set(content) == {"purge", "listed", "marks", "urls", "pictures", "matched", "others"}


def test_a_continued_purge_keeps_its_name_and_its_ids(tmp_path: Path) -> None:
    first = matching.begin(str(tmp_path), "list", JOURNALLED, None)
    more = matching.begin(str(tmp_path), "list", Gone({"c"}, {"https://x/c.jpg"}, set(), {"n"}), first)
    assert more == matching.read(str(tmp_path), "list")
    assert more.purge == first.purge
    assert more.gone == Gone({"a", "b", "c"}, {"https://x/a.jpg", "https://x/c.jpg"}, {"a"}, {"m", "n"}, {"b"})
    assert matching.begin(str(tmp_path), "list", JOURNALLED, None).purge != first.purge


def test_another_list_is_refused(tmp_path: Path) -> None:
    matching.begin(str(tmp_path), "list", JOURNALLED, None)
    with pytest.raises(InputError, match=r"^exclusions: .*_purge\.json"):
        matching.read(str(tmp_path), "other")


def test_an_interruption_names_the_remaining_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with matching.mentioned_if_interrupted(str(tmp_path)):
        pass
    assert capsys.readouterr() == ("", "")
    with pytest.raises(KeyboardInterrupt), matching.mentioned_if_interrupted(str(tmp_path)):
        raise KeyboardInterrupt
    output = capsys.readouterr()
    assert output.out == ""
    assert matching.uri_of(str(tmp_path)) in output.err

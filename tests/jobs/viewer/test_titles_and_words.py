"""What the viewer calls a picture, and by which words pictures and ratings are found."""

from typing import Any

import pytest

from jobs.viewer import queries
from jobs.viewer.queries import View
from tests.factories import image_row, rating
from tests.jobs.viewer.queried import loaded, shown


@pytest.fixture(scope="module")
def cursor(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Picture a has a page, b an attribute, c a file, and d nothing."""
    images = [image_row(f"https://h.example/{name}/File_{name}.jpg", image_id=f"id-{name}") for name in "abc"]
    images[0]["author"] = "Ada Author"
    images.append(image_row("", image_id="id-d"))
    records = [
        {"record_id": "1", "image_id": "id-a", "image_url": "u", "page_title": "Zebra",
         "caption_reference_description": "A Striped Animal", "caption_attribution_description": "By a Museum"},
        {"record_id": "2", "image_id": "id-a", "image_url": "u", "page_title": "Later"},
        {"record_id": "3", "image_id": "id-b", "image_url": "u", "page_title": ""},
    ]  # fmt: skip
    attributes = [("Title", "Bridge"), ("film", "Agfa")]
    items = [{"item_id": "id-b", "kind": "image", "image_ids": ["id-b"], "attributes": attributes}]
    ratings = [
        rating("id-a", "m", "fit", "high", target="Mali"), rating("id-b", "m", "fit", None, raw="Cannot Say"),
        rating("id-c", "m", "fit", "low", comment="Too Dark"),
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("titles")
    with loaded(folder, images=images, records=records, items=items, ratings=ratings) as connection:
        yield connection


def test_a_picture_is_called_after_its_page_its_attribute_its_file_or_its_id(cursor: Any) -> None:
    titles = {row["image_id"]: row["title"] for row in queries.pictures(cursor, View()).rows}
    assert titles == {"id-a": "Zebra", "id-b": "Bridge", "id-c": "File_c.jpg", "id-d": "id-d"}
    assert shown(cursor, sort="title") == ["id-b", "id-c", "id-a", "id-d"]


def test_pictures_are_found_by_all_that_is_known_of_them(cursor: Any) -> None:
    words = {
        "zebra": "a", "striped animal": "a", "by a museum": "a", "ada author": "a", "h.example/a/": "a", "AGFA": "b",
        "bridge": "b", "file_c": "c", "id-d": "d",
    }  # fmt: skip
    assert {word: shown(cursor, q=word) for word in words} == {word: [f"id-{name}"] for word, name in words.items()}
    assert shown(cursor, q="later") == []  # the first of two records counts
    assert shown(cursor, q="%") == shown(cursor, q="a_author") == []  # no patterns


def test_ratings_are_found_by_what_was_answered_and_by_their_picture(cursor: Any) -> None:
    words = {"HIGH": "a", "mali": "a", "cannot": "b", "too dark": "c", "ID-B": "b", "zebra": "a", "Agfa": "b"}
    results = {word: [row["item_id"] for row in queries.ratings(cursor, View(q=word)).rows] for word in words}
    assert results == {word: [f"id-{name}"] for word, name in words.items()}

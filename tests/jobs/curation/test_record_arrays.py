"""The columns that curation decides on, as arrays over all rows."""

from typing import Any

import numpy as np
import pytest

from jobs.curation.record_arrays import HashIndex, Rows, batches_at, columns_at, ranks, read_rows, unique_codes
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from tests.cases import check_cases
from tests.factories import TableInMemory, record


def source(*changes: dict[str, Any]) -> Any:
    return TableInMemory("records", [record(f"r{n}") | change for n, change in enumerate(changes)], batch=2)


def read(*changes: dict[str, Any], **options: Any) -> Rows:
    return read_rows(source(*changes), **{"thumbnails": "any", **options})


def test_rows_without_a_method_or_a_split_count_as_unknown() -> None:
    rows = read(
        {"methods": ["b", "a"], "split": "train"},
        {"methods": [], "split": ""},
        {"methods": None, "split": None},
        {"methods": ["a", ""], "split": "val"},
    )
    assert (rows.methods, rows.splits) == (("b", "a", "unknown"), ("train", "unknown", "val"))
    assert rows.member.tolist() == [
        [True, False, False, False], [True, False, False, True], [False, True, True, True]
    ]  # fmt: skip
    assert rows.split.tolist() == [0, 1, 1, 2]
    assert len(rows) == 4
    with pytest.raises(InputError, match=r"more than 64 values of method \(the last is 'm64'\)"):
        read(*({"methods": [f"m{n}"]} for n in range(65)))
    assert len(read(*({"split": f"s{n}"} for n in range(256))).splits) == 256
    with pytest.raises(InputError, match=r"more than 256 values of split \(the last is 's256'\)"):
        read(*({"split": f"s{n}"} for n in range(257)))


def test_flags_are_those_of_the_text_of_the_columns() -> None:
    rows = read(
        {"is_main_image": "TRUE", "image_url": "https://a"},
        {"is_main_image": None, "image_url": None},
        {"is_main_image": "false", "image_url": "http://a"},
    )
    assert (rows.main.tolist(), rows.https.tolist()) == ([True, False, False], [True, False, False])
    assert rows.thumbnail.tolist() == [True] * 3


def test_what_is_not_a_picture_has_no_resized_form() -> None:
    url = "https://upload.wikimedia.org/wikipedia/commons/a/ab/x.jpg"
    changes: list[dict[str, Any]] = [
        {"image_url": url, "mime_type": None},
        {"image_url": url, "mime_type": "image/jpeg"},
        {"image_url": url, "mime_type": "audio/ogg"},
        {"image_url": None},
    ]
    resized = {form: read(*changes, thumbnails=form).thumbnail.tolist() for form in ("wikimedia", "all")}
    assert resized == {"wikimedia": [True, True, False, True], "all": [True, True, False, False]}


def test_equal_pages_addresses_and_pictures_have_equal_numbers() -> None:
    same = {"page_title": "T", "language": "en"}
    changes: list[dict[str, Any]] = [
        {"page_url": "p", "image_url": "u", "image_id": "i", **same},
        {"page_url": "q", "image_url": "u", "image_id": "j", **same},
        {"page_url": "p", "image_url": "v", "image_id": "i", **same, "language": "fr"},
    ]
    rows = read(*changes)
    for numbers, pattern in ((rows.page, "aba"), (rows.url, "aab"), (rows.image, "aba")):
        assert [numbers[0] == number for number in numbers] == [letter == "a" for letter in pattern]
    assert len(rows.pictures) == 2
    by_title = read(*changes, page="page_title").page
    assert (by_title[0] == by_title[1], by_title[0] == by_title[2]) == (True, False)
    assert read(*changes).excluded.tolist() == [False] * 3
    for name, expected in (("j", [False, True, False]), ("v", [False, False, True])):
        assert read(*changes, exclusion_filter=ExclusionFilter(frozenset({name}))).excluded.tolist() == expected


def test_rows_at_positions_are_read_with_nulls_as_empty_texts() -> None:
    table = source(*({"page_title": title} for title in ("c", None, "a", "b", "b")))
    positions = np.array([1, 2, 4])
    assert columns_at(table, positions, ["page_title"])["page_title"].to_pylist() == ["", "a", "b"]
    assert [rows.num_rows for rows in batches_at(table, positions, ["page_title"])] == [1, 1, 1]
    assert [rows.num_rows for rows in batches_at(table, np.array([4]), ["page_title"])] == [1]
    empty = columns_at(table, np.array([], np.int64), ["page_title", "record_id"])
    assert (empty.column_names, empty.num_rows) == (["page_title", "record_id"], 0)


def test_ranks_are_by_title_then_address_then_id() -> None:
    rows = [("b", "x", "1"), ("a", "y", "3"), ("a", "x", "4"), ("a", "x", "2"), (None, "z", "0")]
    names = ("page_title", "page_url", "record_id")
    table = source(*(dict(zip(names, row, strict=True)) for row in rows))
    assert ranks(table, np.arange(5)).tolist() == [4, 3, 2, 1, 0]
    assert ranks(table, np.array([0, 3])).tolist() == [1, 0]


# Two share their first 64 bits.
HASHES = np.array([[1, 5], [1, 9], [3, 2], [7, 0]], np.uint64)


def test_index_of_a_hash() -> None:
    cases = [([1, 5], 0), ([1, 9], 1), ([3, 2], 2), ([7, 0], 3), ([1, 7], -1), ([3, 5], -1), ([0, 5], -1), ([9, 0], -1)]

    def check(wanted: list[int], index: int) -> None:
        assert HashIndex(HASHES).find_hashes(np.array([wanted], np.uint64)).tolist() == [index]

    check_cases(check, cases)


def test_index_of_several_in_their_order() -> None:
    wanted = np.array([[7, 0], [1, 7], [1, 9], [1, 5]], np.uint64)
    assert HashIndex(HASHES).find_hashes(wanted).tolist() == [3, -1, 1, 0]
    subset = HashIndex(HASHES).subset(np.array([1, 3]))
    assert (len(subset), subset.find_hashes(wanted).tolist()) == (2, [1, -1, 0, -1])
    assert HashIndex(HASHES[:0]).find_hashes(wanted).tolist() == [-1] * 4


def test_codes_of_rows() -> None:
    distinct, codes = unique_codes(HASHES[[2, 1, 0, 1, 3, 2]])
    assert distinct.tolist() == HASHES.tolist()
    assert codes.tolist() == [2, 1, 0, 1, 3, 2]

"""Columns of Century's released list of pictures."""

from typing import Any

import pytest

from jobs.corpora.released_pictures import record_columns


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"wikipedia_url": "https://w/1"}, {"page_url": "https://w/1"}),
        ({"wit_split": "validation"}, {"split": "val"}),
        ({"wit_split": "test"}, {"split": "test"}),
        (
            {"century_method": "with_foundation_model;manually_curated;other"},
            {"methods": ["language_model", "manual", "other"]},
        ),
        ({"wikipedia_url": "", "title": "x"}, {}),
    ],
)
def test_columns_of_records(row: dict[str, str], columns: dict[str, Any]) -> None:
    assert record_columns(row) == columns

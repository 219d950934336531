"""Columns of Century's released list of pictures."""

from typing import Any

from jobs.corpora.released_pictures import record_columns
from tests.cases import check_cases


def test_columns_of_records() -> None:
    cases = [
        ({"wikipedia_url": "https://w/1"}, {"page_url": "https://w/1"}),
        ({"wit_split": "validation"}, {"split": "val"}),
        ({"wit_split": "test"}, {"split": "test"}),
        (
            {"century_method": " with_knowledge_graph; "},
            {"methods": ["knowledge_graph"], "credited_method": "knowledge_graph"},
        ),
        (
            {"century_method": "with_foundation_model;manually_curated;other"},
            {"methods": ["language_model", "manual", "other"]},
        ),
        ({"wikipedia_url": "", "title": "x"}, {}),
    ]

    def check(row: dict[str, str], columns: dict[str, Any]) -> None:
        assert record_columns(row) == columns

    check_cases(check, cases)

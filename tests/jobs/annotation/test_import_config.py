"""Combinations of keys that `import_ratings` accepts and refuses."""

from typing import Any

import pytest

from jobs.annotation.columns import RatingColumns
from jobs.annotation.import_config import ImportRatingsConfig, check
from jobs.errors import InputError
from tests.cases import check_cases

RUBRIC = {"rubric": {"name": "r"}}
ANSWERS = {"answers": ["1", "2"]}


def test_accepted_combinations_of_keys() -> None:
    cases = [
        RUBRIC,
        ANSWERS,
        {"table": "spans"},
        {"table": "raters"},
        {"table": "remarks", **RUBRIC},
        {"table": "remarks", "columns": RatingColumns(remarks={"why": "reason"})},
        {**RUBRIC, "format": "century"},
        {**RUBRIC, "rater": "anna"},
        {**RUBRIC, "duplicates": "sample"},
        {**RUBRIC, "reports": "list.csv", "reports_min": 1},
        {**RUBRIC, "columns": RatingColumns(questions={"q": "column"})},
    ]

    def check_case(keys: dict[str, Any]) -> None:
        check(ImportRatingsConfig(input="x", out="y", **keys))  # raises nothing

    check_cases(check_case, cases)


def test_keys_that_do_not_are_refused() -> None:
    cases = [
        ({}, r"rubric= is required, or answers="),
        ({"table": "remarks"}, r"table=remarks: rubric=NAME with free_texts is required"),
        ({**RUBRIC, **ANSWERS}, "not allowed with rubric=; omit one"),
        ({"table": "spans", "format": "century"}, "^table=spans: format=century"),
        ({**RUBRIC, "rater": "anna", "format": "century"}, "^rater=anna: format=century"),
        ({"table": "spans", "duplicates": "sample"}, "duplicates=sample: table=spans has no samples"),
        (
            {**RUBRIC, "duplicates": "sample", "columns": RatingColumns(sample="n")},
            r"duplicates=sample: columns\.sample= maps",
        ),
        ({"table": "raters", "items": "url"}, "items=url: table=raters has no items"),
        ({"table": "spans", "reports": "list.csv"}, r"reports=list\.csv: needs table=ratings"),
        ({**RUBRIC, "reports_min": 0}, "reports_min=0: must be at least 1"),
        ({**RUBRIC, "columns": RatingColumns(questions={})}, r"columns\.questions=\{\}: must be of the form"),
        ({**RUBRIC, "columns": RatingColumns(questions={"q": 3})}, r"columns\.questions=\{'q': 3\}: must be"),
        ({**RUBRIC, "columns": RatingColumns(questions="q")}, r"columns\.questions=q: must be of the form"),
        ({"table": "remarks", **RUBRIC, "columns": RatingColumns(remarks=["q"])}, r"columns\.remarks=\['q'\]: must be"),
        *(({**RUBRIC, key: "other"}, f"{key}=other: must be one of") for key in
          ("format", "table", "duplicates", "rater_from", "rater_kind", "scale")),
    ]  # fmt: skip

    def check_case(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            check(ImportRatingsConfig(input="x", out="y", **keys))

    check_cases(check_case, cases)

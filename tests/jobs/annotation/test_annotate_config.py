"""Combinations of keys that `annotate` accepts and refuses."""

from typing import Any

import pytest

from jobs.annotation.annotate_config import AnnotateConfig, check
from jobs.errors import InputError
from tests.cases import check_cases

REQUIRED: dict[str, Any] = {"rubric": {"name": "r"}, "per_item": 3}
BY_GROUP: dict[str, Any] = {**REQUIRED, "per_item": None, "group": "country"}


def config(**keys: Any) -> AnnotateConfig:
    return AnnotateConfig(input="x", raters="y", out="z", **keys)


def test_accepted_combinations_of_keys() -> None:
    cases = [
        REQUIRED,
        {**REQUIRED, "group": "country"},
        {**BY_GROUP, "per_group": 2},
        {**BY_GROUP, "quotas": {"China": 20, "India": 10}},
        {**REQUIRED, "rubric": {}, "span_labels": {"name": "s"}},
        {**REQUIRED, "audit": 0.1, "auditor": "zoe"},
        *({**REQUIRED, key: value} for key, value in (
            ("tool", "prodigy"), ("tool", "spreadsheet"), ("files", "group"), ("pictures", "files"), ("target", "group")
        )),
    ]  # fmt: skip
    check_cases(lambda keys: check(config(**keys)), [(case,) for case in cases])


def test_keys_that_do_not_are_refused() -> None:
    cases = [
        ({**REQUIRED, "tool": "paper"}, "tool=paper: must be one of label_studio, prodigy, spreadsheet"),
        ({**REQUIRED, "files": "all"}, "files=all: must be one of rater, group"),
        ({**REQUIRED, "pictures": "none"}, "pictures=none: must be one of url, files"),
        ({**REQUIRED, "target": "all"}, "target=all: must be one of rubric, group"),
        ({**REQUIRED, "rubric": {}}, "rubric= or span_labels= is required"),
        ({**REQUIRED, "per_item": None}, r"exactly one \(none is given\)"),
        ({**BY_GROUP, "per_item": 1, "per_group": 1}, r"exactly one \(per_item, per_group is given\)"),
        ({**BY_GROUP, "per_item": 0, "quotas": {"x": 1}}, r"exactly one \(per_item, quotas is given\)"),
        ({**BY_GROUP, "per_group": 2, "group": None}, "group= is required"),
        ({**BY_GROUP, "quotas": {"China": 20}, "group": None}, "group= is required"),
        ({**BY_GROUP, "quotas": {"China": "20"}}, "quotas=.*: must be of the form"),
        ({**BY_GROUP, "quotas": {"China": True}}, "quotas=.*: must be of the form"),
        ({**BY_GROUP, "quotas": ["China"]}, "quotas=.*: must be of the form"),
        ({**REQUIRED, "audit": 0.1}, "audit= and auditor= go together"),
        ({**REQUIRED, "auditor": "zoe"}, "audit= and auditor= go together"),
        ({**REQUIRED, "limit": 0}, "limit=0"),
    ]

    def check_case(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            check(config(**keys))

    check_cases(check_case, cases)


def test_raters_of_an_item() -> None:
    cases: list[tuple[dict[str, Any], int]] = [
        ({"per_item": 3}, 3),
        ({"per_group": 2}, 2),
        ({"quotas": {"China": 20, "India": 10}}, 20),
    ]
    values = [config(**keys).raters_per_item for keys, _ in cases]
    assert values == [expected for _, expected in cases]

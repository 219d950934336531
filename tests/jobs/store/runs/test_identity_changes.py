"""A difference of identities names the keys of the command line, never a hash."""

import re
from typing import Any

from jobs.store.runs.identity_changes import describe
from tests.cases import check_cases

A, B = "38932c0f84bb8d1e4ac9f3a3f3c9f2bd", "9eba846c6c4d3f0fa5b8c7d6e5f4a3b2"
RUBRIC = {"name": "mood", "questions": [{"name": "shown", "text": "Calm?"}]}
LONGER = {"name": "mood", "questions": [{"name": "shown", "text": "Is it calm?"}]}

CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None, dict[str, Any], str]] = [
    ({"match": "word"}, {"match": "exact"}, {}, {}, "match was 'word', now 'exact'"),
    ({"k": 4}, {"k": 4, "limit": 10}, {}, {}, "limit was not set, now 10"),
    (
        {"match": "word", "terms": A}, {"match": "exact", "terms": B}, {}, {}, "match was 'word', now 'exact'",
    ),
    (
        {"k": 4, "score": "a"}, {"k": 5, "score": "b"}, {}, {}, "k was 4, now 5 (also differing: score)",
    ),
    (
        {"terms": A}, {"terms": B},
        {"out": "R/a", "terms": {"path": "t.csv", "source": "manual"}, "resources": {"mine": 1}},
        {"out": "R/b", "terms": {"path": "t.csv", "source": "other"}, "resources": {"mine": 2}},
        "terms.source was 'manual', now 'other'",
    ),
    (
        {"terms": A}, {"terms": B}, {"terms": {"path": "t.csv"}}, {"terms": {"path": "t.csv"}},
        "terms.path=t.csv has other content than when the table was written",
    ),
    (
        {"rubric": {"name": "mood", "hash": A}}, {"rubric": {"name": "mood", "hash": B}},
        {"rubric": RUBRIC}, {"rubric": LONGER},
        "rubric.questions[0].text was 'Calm?', now 'Is it calm?'",
    ),
    (
        {"input": A}, {"input": B}, None, {"input": "R/images"},
        "input=R/images has other content than when the table was written",
    ),
    (
        {"input": A}, {"input": B}, {"input": "R/old"}, {"input": "R/new"}, "input was 'R/old', now 'R/new'",
    ),
    (
        {"terms": None}, {"terms": B}, {"terms": {"path": None}}, {"terms": {"path": "t.csv"}},
        "terms.path was null, now 't.csv'",
    ),
    (
        {"k": 1, "terms": A}, {"k": 1}, {"terms": {"path": "t.csv"}}, {}, "terms.path was 't.csv', now not set",
    ),
    (
        {"terms": A, "in": A}, {"terms": B, "in": B}, None, {"in": "R"},
        "in=R has other content than when the table was written (also differing: terms)",
    ),
    (
        {"key": "64abdcf4"}, {"key": "ef896930"}, {}, {}, "key has other content than when the table was written",
    ),
    (
        {"columns": {"questions": None}}, {"columns": {"questions": {"calm": "c"}}}, {}, {},
        "columns.questions.calm was not set, now 'c'",
    ),
    (
        {"columns": {"questions": {"calm": "c"}}}, {"columns": {"questions": None}}, {}, {},
        "columns.questions.calm was 'c', now not set",
    ),
    (
        {"columns": A}, {"columns": B}, {"columns": {"questions": {}}}, {"columns": {"questions": {"a": "b"}}},
        "columns.questions.a was not set, now 'b'",
    ),
    ({"day": "20260101"}, {"day": "20260102"}, {}, {}, "day was '20260101', now '20260102'"),
    ({"x": {"a": None}}, {"x": {"a": True}}, {}, {}, "x.a was null, now true"),
    (
        {"text": "short"}, {"text": "x" * 100}, {}, {}, f"text was 'short', now '{'x' * 59}…",
    ),
]  # fmt: skip


def test_the_sentence() -> None:
    def check(
        written: dict[str, Any],
        planned: dict[str, Any],
        config: dict[str, Any] | None,
        planned_config: dict[str, Any],
        sentence: str,
    ) -> None:
        message = describe(written, planned, written_config=config, planned_config=planned_config)
        assert message == sentence
        assert not re.search("[0-9a-f]{16}", message)

    check_cases(check, CASES)

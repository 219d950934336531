"""The steps from the corpus to vectors, from the counts of the tables."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from jobs.page.build import RULE_LABELS, funnel
from jobs.store.counts import Counts


def table(**counts: Any) -> Any:
    whole = Counts()
    for name, value in counts.items():
        setattr(whole, name, Counter(value) if isinstance(value, dict) and name != "tallies" else value)
    return SimpleNamespace(counts=lambda: whole)


def steps(**corpus: Any) -> list[tuple[str, int]]:
    return [(step.label, step.n) for step in funnel(corpus)]


def test_each_step_has_what_is_left() -> None:
    first, second = list(RULE_LABELS)[:2]
    matches = table(rows_in=1000, rows_out=30, filtered={"language": 600, "title": 370})
    records = table(
        rows_in=30,
        filtered={first: 4, second: 6, "other": 2},
        tallies={"steps": {f"0/{second}": 1, f"1/{first}": 1}},
    )
    images = table(status={"ok": 15, "missing": 3})
    vectors = table(status={"ok": 14, "error": 1})
    assert steps(matches=matches, records=records, images=images, embeddings=vectors) == [
        ("read from the corpus", 1000),
        ("in the requested language", 400),
        ("title contains a search term", 30),
        (RULE_LABELS[first], 26),
        (RULE_LABELS[second], 20),
        ("picture found and readable", 15),
        ("embedded", 14),
    ]


def test_steps_that_were_not_taken_are_left_out() -> None:
    first = next(iter(RULE_LABELS))
    assert steps(matches=table(rows_in=9, rows_out=2, filtered={"title": 7})) == [
        ("read from the corpus", 9), ("title contains a search term", 2)
    ]  # fmt: skip
    assert steps(records=table(rows_in=5, filtered={first: 1})) == []  # no rule was applied
    assert steps(records=table(rows_in=5, tallies={"steps": {f"0/{first}": 0}})) == [(RULE_LABELS[first], 5)]
    assert steps(images=table(status={"missing": 3})) == [("picture found and readable", 0)]
    assert steps() == []

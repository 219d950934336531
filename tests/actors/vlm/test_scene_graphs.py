"""Lines of scene graphs: canonical forms, and what is a fault."""

import pytest

from actors.vlm.scene_graphs import PARENTS, QUESTIONS, TUPLES, LineFault, category_of, parse, tuple_line


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("entity - whole (chariot)", "entity - whole (chariot)"),
        ("Attribute-Color( chariot ,golden )", "attribute - color (chariot, golden)"),
        ("action - (man, chariot, drive)", "action - (man, chariot, drive)"),
        ("other - count (horses, 2)", "other - count (horses, 2)"),
        ("global - (dark)", "global - (dark)"),
        ("entity - (chariot)", None),
        ("entity - color (chariot)", None),
        ("action - state (man)", None),
        ("thing - whole (chariot)", None),
        ("entity - whole (chariot,)", None),
        ("entity - whole ()", None),
        ("entity - whole (a (b))", None),
        ("entity whole (chariot)", None),
    ],
)
def test_tuples(text: str, canonical: str | None) -> None:
    parsed = parse(TUPLES, f"1 | {text}")
    assert parsed.entries == ({1: (1, canonical)} if canonical else {})
    assert parsed.faults == ([] if canonical else [LineFault(TUPLES, 1, "unparsed", f"1 | {text}")])
    if canonical:
        assert parse(TUPLES, tuple_line(1, canonical)) == parsed
        assert category_of(canonical) == canonical.split(" -")[0]


@pytest.mark.parametrize(
    ("step", "text", "said"),
    [
        (QUESTIONS, "Is there a chariot?", "Is there a chariot?"),
        (QUESTIONS, "Is there a chariot", None),
        (QUESTIONS, "?", None),
        (PARENTS, "0", ""),
        (PARENTS, "1", "1"),
        (PARENTS, "2 , 1,2", "2,1"),
        (PARENTS, "0, 1", None),
        (PARENTS, "1 2", None),
        (PARENTS, "one", None),
    ],
)
def test_questions_and_parents(step: str, text: str, said: str | None) -> None:
    assert parse(step, f"3 | {text}").entries == ({} if said is None else {3: (1, said)})


def test_lines() -> None:
    answer = "\n 1 | Is it?\n\nHere are more:\n1 | Was it?\n99|Why?\n100 | When?\n0 | Who?\n2 | What?"
    parsed = parse(QUESTIONS, answer, known=[1, 99])
    assert parsed.entries == {1: (2, "Is it?"), 99: (6, "Why?")}
    assert [(fault.line, fault.kind) for fault in parsed.faults] == [
        (4, "unparsed"), (5, "duplicate_number"), (7, "unparsed"), (8, "unparsed"), (9, "unknown_number")
    ]  # fmt: skip
    assert parsed.faults[0].text == "Here are more:"
    assert 2 in parse(QUESTIONS, answer).entries  # any number in the first step

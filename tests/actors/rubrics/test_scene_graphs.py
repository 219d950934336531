"""Lines of scene graphs: canonical forms, and what is a fault."""

from typing import Any

import pytest

from actors.rubrics.scene_graphs import (
    PARENTS,
    QUESTIONS,
    TUPLES,
    LineFault,
    SceneGraphInstructions,
    parse,
    tuple_line,
)
from tests.cases import check_cases


def test_tuples() -> None:
    cases = [
        ("entity - whole (chariot)", "entity - whole (chariot)"),
        ("Attribute-Color( chariot ,golden )", "attribute - color (chariot, golden)"),
        ("action - (man, chariot, drive)", "action - (man, chariot, drive)"),
        ("other - count (horses, 2)", "other - count (horses, 2)"),
        ("global - (dark)", "global - (dark)"),
        *(
            (text, text)
            for text in (
                "entity - part (wheel)",
                *(f"attribute - {kind} (x, y)" for kind in "material scale shape state texture type".split()),
                *(f"relation - {kind} (x, y)" for kind in ("spatial", "scale")),
                "other - text (x)",
            )
        ),
        ("entity - (chariot)", None),
        ("entity - color (chariot)", None),
        ("action - state (man)", None),
        ("thing - whole (chariot)", None),
        ("entity - whole (chariot,)", None),
        ("entity - whole ()", None),
        ("entity - whole (a (b))", None),
        ("entity whole (chariot)", None),
    ]

    def check(text: str, canonical: str | None) -> None:
        parsed = parse(TUPLES, f"1 | {text}")
        assert parsed.entries == ({1: (1, canonical)} if canonical else {})
        assert parsed.faults == ([] if canonical else [LineFault(TUPLES, 1, "unparsed", f"1 | {text}")])
        if canonical:
            assert parse(TUPLES, tuple_line(1, canonical)) == parsed

    check_cases(check, cases)


def test_questions_and_parents() -> None:
    cases = [
        (QUESTIONS, "Is there a chariot?", "Is there a chariot?"),
        (QUESTIONS, "Is there a chariot", None),
        (QUESTIONS, "?", None),
        (PARENTS, "0", ""),
        (PARENTS, "1", "1"),
        (PARENTS, "2 , 1,2", "2,1"),
        (PARENTS, "0, 1", None),
        (PARENTS, "1 2", None),
        (PARENTS, "one", None),
    ]

    def check(step: str, text: str, message: str | None) -> None:
        assert parse(step, f"3 | {text}").entries == ({} if message is None else {3: (1, message)})

    check_cases(check, cases)


def test_lines() -> None:
    answer = "\n 1 | Is it?\n\nHere are more:\n1 | Was it?\n99|Why?\n100 | When?\n0 | Who?\n2 | What?"
    parsed = parse(QUESTIONS, answer, numbers=[1, 99])
    assert parsed.entries == {1: (2, "Is it?"), 99: (6, "Why?")}
    assert [(fault.line, fault.kind) for fault in parsed.faults] == [
        (4, "unparsed"), (5, "duplicate_number"), (7, "unparsed"), (8, "unparsed"), (9, "unknown_number")
    ]  # fmt: skip
    assert parsed.faults[0].text == "Here are more:"
    assert 2 in parse(QUESTIONS, answer).entries  # any number in the first step


STEP_TEXTS = {TUPLES: "Write tuples.", QUESTIONS: "Write questions.", PARENTS: "Write parents."}


def instructions(*graph: dict[str, Any], **changes: Any) -> SceneGraphInstructions:
    rows = graph or (
        {"tuple": "entity - whole (dog)", "question": "Is there a dog?"},
        {"tuple": "attribute - color (dog, black)", "question": "Is the dog black?", "parents": [1]},
    )
    data = {
        "name": "n",
        "version": 1,
        "source": "s",
        "steps": STEP_TEXTS,
        "examples": [{"text": "A dog.", "graph": rows}],
    }
    return SceneGraphInstructions.from_dict(data | changes)


def test_prompts_of_the_steps() -> None:
    written = instructions(system="Be brief.")
    assert (written.name, written.source, written.system) == ("n", "s", "Be brief.")
    assert written.prompt(TUPLES, "A\n cat.") == (
        "Write tuples.\n\nExample 1\nText: A dog.\nAnswer:\n1 | entity - whole (dog)\n"
        "2 | attribute - color (dog, black)\n\nYour turn\nText: A cat.\nAnswer:"
    )
    assert written.prompt(PARENTS, "A cat.", "1 | entity - whole (cat)") == (
        "Write parents.\n\nExample 1\nText: A dog.\nTuples:\n1 | entity - whole (dog)\n"
        "2 | attribute - color (dog, black)\nAnswer:\n1 | 0\n2 | 1\n\n"
        "Your turn\nText: A cat.\nTuples:\n1 | entity - whole (cat)\nAnswer:"
    )
    assert written.hash != instructions().hash
    assert instructions(source="elsewhere").hash == instructions().hash


ROW = {"tuple": "entity - whole (dog)", "question": "Is there a dog?"}


def test_examples_that_do_not_follow_the_grammar() -> None:
    cases = [
        ([{**ROW, "parents": [1]}], "parent 1 is not another row"),
        ([ROW, {**ROW, "parents": [3]}], "parent 3 is not another row"),
        ([{**ROW, "question": "A dog"}], "questions: 'A dog' must have the form"),
        ([{**ROW, "tuple": "dog"}], "tuples: 'dog' must have the form"),
        ([], "the graph is empty"),
    ]

    def check(rows: list[dict[str, Any]], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            instructions(examples=[{"text": "A dog.", "graph": rows}])

    check_cases(check, cases)
    assert len(instructions({**ROW, "parents": [2]}, ROW).examples[0].tuples) == 2


def test_files_that_are_refused() -> None:
    without_parents = {step: text for step, text in STEP_TEXTS.items() if step != PARENTS}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"more": 1}, "scene_graph 'n': unknown key 'more'"),
        ({"steps": []}, "scene_graph 'n', steps: .* must be a mapping"),
        ({"steps": without_parents}, "scene_graph 'n', steps: missing key 'parents'"),
        ({"steps": STEP_TEXTS | {"relations": "Write."}}, "scene_graph 'n', steps: unknown key 'relations'"),
        *(({"steps": STEP_TEXTS | {step: " "}}, f"scene_graph 'n', steps, {step}: ' ' must") for step in STEP_TEXTS),
        *(({key: True}, f"scene_graph 'n', {key}: True is a boolean") for key in ("source", "system")),
        ({"examples": "A dog."}, "scene_graph 'n', examples: 'A dog.' must be a list"),
        ({"examples": [{"text": "A dog.", "graph": [ROW]}, {"text": "A dog."}]},
         "scene_graph 'n', examples, entry 2: missing key 'graph'"),
        ({"examples": [{"text": " ", "graph": [ROW]}]}, "scene_graph 'n', examples, entry 1, text: ' ' must"),
        ({"examples": [{"text": "a", "graph": {}}]}, "scene_graph 'n', examples, entry 1, graph: {} must be a list"),
        ({"examples": [{"text": "a", "graph": [ROW, ROW | {"kind": 1}]}]},
         "scene_graph 'n', examples, entry 1, graph, entry 2: unknown key 'kind'"),
        ({"examples": [{"text": "a", "graph": [ROW, ROW | {"parents": [0]}]}]},
         "scene_graph 'n', examples, entry 1, graph, entry 2: parent 0 is not another row"),
    ]  # fmt: skip

    def check(changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=f"^{message}"):
            instructions(**changes)

    check_cases(check, cases)


def test_everything_that_changes_the_prompts_changes_their_hash() -> None:
    other, first = {**ROW, "question": "Is it a dog?"}, {"text": "A dog.", "graph": [ROW]}
    changes: list[dict[str, Any]] = [
        {"system": "Be brief."},
        *({"steps": STEP_TEXTS | {step: "Write."}} for step in STEP_TEXTS),
        *({"examples": examples} for examples in (
            [], [first], [first, first], [{"text": "A cat.", "graph": [ROW]}], [{"text": "A dog.", "graph": [other]}],
            [{"text": "A dog.", "graph": [ROW | {"tuple": "entity - part (dog)"}]}],
            [{"text": "A dog.", "graph": [ROW, ROW]}], [{"text": "A dog.", "graph": [ROW, ROW | {"parents": [1]}]}],
        )),
    ]  # fmt: skip
    hashes = {instructions(**change).hash for change in changes}
    assert len(hashes | {instructions().hash}) == len(changes) + 1
    same = {"name": "m", "version": 2, "source": "t", "steps": dict(reversed(STEP_TEXTS.items()))}
    assert instructions(**same).hash == instructions().hash

"""The places of an item's pictures in a user's turn."""

from typing import Any

import pytest

from actors.rubrics import pieces
from actors.rubrics.instructions import Instruction
from actors.rubrics.instructions import identity as instruction_identity
from actors.rubrics.prompts import PromptBuilder
from actors.rubrics.rubric import Rubric, identity
from tests.actors.vlm.helpers import COMPARISON
from tests.cases import check_cases


def test_how_many_pictures_an_order_shows() -> None:
    cases = [
        (["text"], 0),
        (["picture", "text"], 1),
        (["text", "pictures"], None),
        (["picture2", "text", "picture1"], 2),
        (["picture1"], 1),
    ]

    def check(order: list[str], count: int | None) -> None:
        pieces.check_order(["text"], order, where="here")
        assert pieces.picture_count(order) == count

    check_cases(check, cases)


def test_orders_that_do_not_say_where_the_pictures_are() -> None:
    cases = [
        (["picture", "pictures"], ["text"], "picture, pictures"),
        (["picture", "picture1"], ["text"], "picture, picture1"),
        (["picture1", "picture3"], ["text"], "picture1, picture3"),
        (["picture2"], ["text"], "picture2"),
        (["picture1", "picture1"], ["text"], "duplicate entry 'picture1'"),
        (["picture0"], ["text"], "unknown part 'picture0'"),
        (["text"], ["text", "picture7"], "a part is named 'picture7'"),
    ]

    def check(order: list[str], parts: list[str], word: str) -> None:
        with pytest.raises(ValueError, match=word):
            pieces.check_order(parts, order, where="here")

    check_cases(check, cases)


def test_pictures_are_shown_in_the_order_of_their_places() -> None:
    assert pieces.in_order(["a", 2, "b", 1], ["P", "Q"]) == ["Q", "P"]
    assert pieces.in_order(["a", None], ["P", "Q"]) == ["P", "Q"]
    assert pieces.content(["a", 2, "b", 1, "", "c", "d"], ["P", "Q"]) == [
        {"type": "text", "text": "a"},
        {"type": "image", "image": "Q"},
        {"type": "text", "text": "b"},
        {"type": "image", "image": "P"},
        {"type": "text", "text": "cd"},
    ]
    assert pieces.content([], []) == [{"type": "text", "text": ""}]


def test_a_rubric_with_two_pictures_and_a_systems_turn() -> None:
    rubric = Rubric.from_dict(COMPARISON)
    (asked,) = PromptBuilder(rubric).prompts({"prompt": "a sunset", "scenario": " the sea "})
    assert asked.prompt.messages(["P", "Q"]) == [
        {"role": "system", "content": "You compare pictures of the sea."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "The text: a sunset\n\nPicture A:\n\n"},
                {"type": "image", "image": "P"},
                {"type": "text", "text": "Picture B:\n\n"},
                {"type": "image", "image": "Q"},
                {"type": "text", "text": "Which picture fits the text better?\nA = A\nB = B"},
            ],
        },
    ]
    assert rubric.picture_count("paper") == 2
    (turned,) = PromptBuilder(rubric, layout="fast").prompts({"prompt": "a sunset"})
    assert turned.prompt.pictures(("P", "Q")) == ["Q", "P"]
    assert turned.prompt.system == "You compare pictures."
    (text,) = turned.prompt.messages(None)[1:]  # of a model that sees none
    assert [entry["type"] for entry in text["content"]] == ["text"]


def test_invalid_rubrics() -> None:
    cases = [
        ({"system": "{{ target }}"}, "system: unknown word 'target'"),
        ({"system": "{{ x"}, "system: not a valid template"),
        ({"system": True}, "boolean"),
        ({"layouts": {"paper": ["picture1", "text", "question", "picture2"]}}, "before what differs"),
        ({"layouts": {"paper": ["text", "question"]}}, "at least one"),
    ]

    def check(change: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Rubric.from_dict(COMPARISON | change)

    check_cases(check, cases)


def test_questions_are_words_of_the_systems_turn_if_there_is_only_one() -> None:
    asked = COMPARISON | {"system": "{{ question }}"}
    (prompt,) = PromptBuilder(Rubric.from_dict(asked)).prompts({})
    assert prompt.prompt.system == "Which picture fits the text better?"
    second = COMPARISON["questions"][0] | {"name": "worse"}
    with pytest.raises(ValueError, match="system: unknown word 'question'"):
        Rubric.from_dict(asked | {"questions": [*COMPARISON["questions"], second]})


def test_an_instruction_with_two_pictures_and_a_systems_turn() -> None:
    data = {
        "name": "difference",
        "version": 1,
        "source": "made for a test",
        "context": {"fields": ["scenario"]},
        "system": "You know {{ scenario }}.",
        "parts": {"first": "One:", "second": "Two:", "question": "What differs?"},
        "order": ["first", "picture1", "second", "picture2", "question"],
    }
    instruction = Instruction.from_dict(data)
    assert instruction.render({}) == ["One:", 1, "Two:", 2, "What differs?"]
    assert instruction.render_system({"scenario": "weddings"}) == "You know weddings."
    assert instruction.picture_count == 2
    assert Instruction.from_dict(data | {"order": ["pictures", "question"]}).picture_count is None
    with pytest.raises(ValueError, match="part 'system'"):
        Instruction.from_dict(data | {"system": "{{ other }}"})
    assert instruction_identity(instruction) != instruction_identity(Instruction.from_dict(data | {"system": "x"}))


def test_identities_do_not_change_between_versions() -> None:
    """Runs that were begun by an earlier version are continued."""
    rubric = Rubric.from_dict({"name": "r", "questions": [{"name": "q", "text": "?", "answers": ["a", "ü"]}]})
    assert identity(rubric) == "78479f4624290221aa0f954028f8a2fc"
    data = {"name": "i", "version": 1, "source": "s", "parts": {"a": "Wörter"}, "order": ["a"]}
    assert instruction_identity(Instruction.from_dict(data)) == "26d994ac91228db431662da854630150"


def test_the_systems_turn_and_the_places_are_in_the_identity() -> None:
    first = identity(Rubric.from_dict(COMPARISON))
    layouts = COMPARISON["layouts"] | {"paper": ["text", "first", "picture2", "second", "picture1", "question"]}
    for change in ({"system": "You compare."}, {"layouts": layouts}):
        assert identity(Rubric.from_dict(COMPARISON | change)) != first

"""Files of prompts for marking: what is refused, and how the pieces of a turn are joined."""

import copy
from typing import Any

import pytest

from actors.marking.span_prompts import ClosedAnswer, MarkingStep, SpanPrompts
from tests.cases import check_cases

ANSWERS: list[dict[str, Any]] = [{"code": "A", "label": "wrong", "marks": True}, {"code": "B", "label": "right"}]
WRITTEN = {"order": ["picture", "question"], "parts": {"question": "{{ correct }}?"}}
SCORED = {"order": ["picture", "question"], "parts": {"question": "{{ claim }}? {{ options }}"}, "answers": ANSWERS}
CUT = {"order": ["question"], "parts": {"question": "Cut: {{ text }}"}}
CATEGORY = {name: SCORED[name] for name in ("order", "parts")}
CLAIMS: dict[str, Any] = {
    "cut": CUT, "cut_again": CUT, "mistakes": SCORED, "omissions": SCORED, "category": CATEGORY
}  # fmt: skip
DIRECT = dict.fromkeys(("mistakes", "omissions", "mistakes_again", "omissions_again"), WRITTEN)


def prompts(**changes: Any) -> SpanPrompts:
    data = {"name": "n", "version": 1, "source": "s", "direct": DIRECT, "claims": CLAIMS}
    return SpanPrompts.from_dict(copy.deepcopy(data | changes))


def with_step(method: str, name: str, **changes: Any) -> dict[str, Any]:
    steps: dict[str, Any] = {"direct": DIRECT, "claims": CLAIMS}[method]
    return {method: {**steps, name: steps[name] | changes}}


def test_files_that_are_refused() -> None:
    def without(name: str) -> dict[str, Any]:
        return {"claims": {key: step for key, step in CLAIMS.items() if key != name}}

    def asking(text: str, *, method: str = "claims", step: str = "mistakes") -> dict[str, Any]:
        return with_step(method, step, parts={"question": text})

    def answered(*answers: Any) -> dict[str, Any]:
        return with_step("claims", "omissions", answers=list(answers))

    one, other = ANSWERS
    step = "claims, mistakes"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"name": " "}, ", name: ' ' must be a text"),
        ({"system": True}, ", system: True is a boolean"),
        ({"parts": "x"}, ", parts: 'x' must be a mapping"),
        *((without(name), f", claims: missing key '{name}'") for name in CLAIMS),
        ({"claims": CLAIMS | {"more": CUT}}, ", claims: unknown key 'more'"),
        (with_step("claims", "cut", answers=ANSWERS), ", claims, cut: unknown key 'answers'"),
        (with_step("claims", "category", answers=ANSWERS), ", claims, category: unknown key 'answers'"),
        (with_step("direct", "mistakes", answers=ANSWERS), ", direct, mistakes: unknown key 'answers'"),
        ({"claims": CLAIMS | {"mistakes": CATEGORY}}, f", {step}: missing key 'answers'"),
        (with_step("claims", "mistakes", order=[]), f", {step}, order: must end with a part, not with nothing"),
        (with_step("claims", "mistakes", order=["question", "picture"]), f", {step}, order: must end .* with picture"),
        (with_step("claims", "mistakes", order=["picture", "more"]), f", {step}, order: .*'more'"),
        (asking("{{ z }} {{ w }} {{ y }} {{ x }} {{ v }}"), f", {step}, part 'question': .*unknown word 'v'; .*marked"),
        (asking("{{ text }}"), f", {step}, part 'question': .*unknown word 'text'"),
        (asking("{{ claim }}", step="cut"), ", claims, cut, part 'question': .*unknown word 'claim'"),
        (asking("{{ options }}", step="cut"), ", claims, cut, part 'question': .*unknown word 'options'"),
        (asking("{{ mistakes }}", method="direct"), ", direct, mistakes, part 'question': .*unknown word 'mistakes'"),
        (asking("{{ claim"), f", {step}, part 'question': not a valid template"),
        (asking("{{ ''.__class__ }}"), f", {step}, part 'question': not a valid template"),
        (answered(one, other, "C"), ", claims, omissions, answers, entry 3: 'C' must be a mapping"),
        (answered(one, {"code": "B"}), ", claims, omissions, answers, entry 2: missing key 'label'"),
        (answered(one | {"marks": 1}, other), ", claims, omissions, answers, entry 1, marks: 1 must be true"),
        (answered(one | {"code": ""}, other), ", claims, omissions, answers, entry 1, code: '' must be"),
        (answered(one, other | {"label": True}), ", claims, omissions, answers, entry 2, label: True is a boolean"),
        (answered(one, other | {"code": "A"}), ", claims, omissions, answers: duplicate code 'A'"),
        (answered(one), ", claims, omissions, answers: at least one answer"),
        (answered(other), ", claims, omissions, answers: at least one answer"),
    ]

    def check(changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=f"^span_prompts( 'n'| ' ')?{message}"):
            prompts(**changes)

    check_cases(check, cases)
    assert list(prompts().steps) == ["direct", "claims"]
    del (file := {"name": "n", "version": 1, "source": "s", "direct": DIRECT, "claims": CLAIMS})["claims"]
    with pytest.raises(ValueError, match="method=claims: span_prompts 'n' has no steps of it; it has direct"):
        SpanPrompts.from_dict(file).of_method("claims")
    with pytest.raises(ValueError, match="method=both: must be one of direct, claims"):
        prompts().of_method("both")


def test_words_that_each_step_has() -> None:
    texts = ("correct", "generated", "labels")
    words = {
        "cut": ("text",),
        "cut_again": ("text", "faults"),
        "mistakes": (*texts, "claim", "marked", "options"),
        "omissions": (*texts, "mistakes", "claim", "marked", "options"),
        "category": (*texts, "claim", "marked", "options"),
    }
    of_direct = {
        "mistakes": texts,
        "omissions": (*texts, "mistakes"),
        "mistakes_again": (*texts, "faults"),
        "omissions_again": (*texts, "mistakes", "faults"),
    }
    for method, steps in (("claims", words), ("direct", of_direct)):
        for step, names in steps.items():
            question = " ".join(f"{{{{ {name} }}}}" for name in names)
            changed = prompts(**with_step(method, step, parts={"question": question})).of_method(method)[step]
            assert changed.parts["question"] == question


def test_a_part_of_a_step_replaces_the_shared_one() -> None:
    shared = {"parts": {"question": "Shared {{ correct }}?", "rules": "Rules."}, "system": " Be brief. "}
    first = prompts(**shared | with_step("direct", "omissions", order=["rules", "picture", "question"]))
    step = first.of_method("direct")["omissions"]
    assert step.turn({"correct": "A dog"}) == ["Rules.", None, "A dog?"]
    assert step.system == "Be brief."
    assert {one.system for steps in first.steps.values() for one in steps.values()} == {"Be brief."}
    changed = prompts(**shared | with_step("direct", "omissions", order=["question"], parts={}))
    assert changed.of_method("direct")["omissions"].turn({"correct": "A dog"}) == ["Shared A dog?"]
    assert first.identity("direct") != changed.identity("direct")
    assert first.identity("claims") == changed.identity("claims") != prompts().identity("claims")


def test_pieces_of_a_turn_and_of_a_prompt() -> None:
    answers = (ClosedAnswer("A", "wrong", marks=True), ClosedAnswer("B", "right"))
    parts = {"one": " First. ", "two": "{{ a }}", "three": "Third {{ options }}"}
    step = MarkingStep("mistakes", ("one", "two", "picture", "one", "three"), parts, system="S", answers=answers)
    assert step.turn({"a": "Second."}) == ["First.\n\nSecond.", None, "First.\n\nThird A = wrong\nB = right"]
    assert step.turn({"a": ""})[0] == "First."
    prompt = step.prompt({"a": "Second."})
    assert prompt.shared == ("First.\n\n", "Second.\n\n", None, "First.\n\n")
    assert (prompt.suffix, prompt.system) == ("Third A = wrong\nB = right", "S")
    assert step.shows_picture
    assert not MarkingStep("cut", ("one",), parts).shows_picture

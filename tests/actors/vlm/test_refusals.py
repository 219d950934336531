"""Kinds of refusals in several languages, and texts that only look like one."""

from typing import Any

import pytest

from actors.vlm.refusals import Refusal, RefusalRules
from jobs.generate import GenerateConfig
from jobs.runtime.configuration import config
from tests.actors.vlm.refusal_sentences import SENTENCES
from tests.cases import check_cases


@pytest.fixture(scope="module")
def rules() -> RefusalRules:
    composed = config.load("generate", GenerateConfig, ["input=x", "out=y", "model=local-tiny"])
    assert sorted(composed.refusals) == sorted("en es fr de pt it ru ar hi zh ja ko".split())
    return RefusalRules(composed.refusals)


def kind(rules: RefusalRules, text: str) -> str | None:
    matches = rules.find(text)
    return matches.kind if matches else None


HISTORY = (
    "The photograph shows a crowd in the main square in 1989, with banners and flags. The gathering was called by "
    "students and trade unions and was one of the largest of that year. It is remembered for the speeches given from "
    "the balcony of the town hall, which led to talks between the government and the opposition within a week."
)


@pytest.mark.parametrize("language", SENTENCES)
def test_kinds_of_sentences(rules: RefusalRules, language: str) -> None:
    misses = []
    for expected, texts in SENTENCES[language].items():
        for text in texts:
            refusal = rules.find(text)
            is_right = kind(rules, text) == expected
            if refusal and expected != "drop_event":
                is_right = is_right and refusal.answered == (expected == "hedge")
            if not is_right:
                misses.append((expected, refusal, text))
    assert not misses


def test_a_refusal_with_a_suggestion_has_no_answer(rules: RefusalRules) -> None:
    refused = "I cannot describe this image. I would suggest using a different image instead."
    assert rules.find(refused) == Refusal("drop_event", answered=False)
    described = HISTORY + " I would suggest using a different image for your project."
    assert rules.find(described) == Refusal("drop_event", answered=True)


def test_a_moral_after_a_refusal_does_not_count_as_an_answer(rules: RefusalRules) -> None:
    text = "I cannot provide a description of this image. However, the victims of violence deserve our respect."
    assert kind(rules, text) == "full"


def test_a_late_inability_does_not_count_as_a_refusal(rules: RefusalRules) -> None:
    assert kind(rules, HISTORY + " " + HISTORY + " I cannot identify the people in this photo.") is None


def test_a_filter_blocks_whatever_the_text_says(rules: RefusalRules) -> None:
    assert rules.find(HISTORY, finish_reason="filter") == Refusal("blocked", answered=False)
    assert rules.find(None, finish_reason="filter") == Refusal("blocked", answered=False)


def test_wrong_rules_are_refused() -> None:
    cases = [
        ({}, "at least one language"),
        ({"en": []}, "language 'en'"),
        ({"en": {"refusal": ["("]}}, "not a valid regular expression"),
        ({"en": {"refuse": ["x"]}}, "unknown key 'refuse'"),
        ({"en": {"offer": ["x"]}}, "missing key 'refusal'"),
        ({"en": {"refusal": "x"}}, "must be a list"),
        ({"en": {"refusal": ["x", ""]}}, "must be a list"),
        *(
            ({"en": {"refusal": ["x"], "answer_chars": chars}}, "answer_chars")
            for chars in ({"turned": 0}, {"plain": 0}, {"plain": 1.5}, {"turned": 9, "plain": 9, "more": 9})
        ),
    ]

    def check(data: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            RefusalRules(data)

    check_cases(check, cases)


def test_a_long_text_takes_no_time(rules: RefusalRules) -> None:
    assert kind(rules, "I cannot " * 20_000) is None


DROPS = "I would suggest to leave this event out of the study."


def test_a_hedge_that_suggests_to_drop_the_event_has_answered(rules: RefusalRules) -> None:
    hedge = f"I cannot describe this image. However, here is what is known: {HISTORY}"
    assert rules.find(hedge) == Refusal("hedge", answered=True)
    assert rules.find(f"{hedge} {DROPS}") == Refusal("drop_event", answered=True)
    assert rules.find(f"I cannot describe this image. {DROPS}") == Refusal("drop_event", answered=False)


def test_only_what_comes_after_the_refusal_turns_it(rules: RefusalRules) -> None:
    rest = HISTORY[HISTORY.index("It is remembered") :]  # with a turn an answer, without one not
    assert kind(rules, f"I cannot describe this image. Here is what I think. {rest}") == "hedge"
    assert kind(rules, f"Here is what I think. I cannot describe this image. {rest}") == "full"


SMALL: dict[str, Any] = {
    "refusal": ["^I can't"], "but": [", but "], "turn": ["^However"], "offer": ["^I can help"],
    "blocked": ["^Filtered"], "drop_event": ["Drop it"], "answer_chars": {"turned": 10, "plain": 20},
}  # fmt: skip
QUOTATIONS = [("“", "”"), ('"', '"'), ("«", "»"), ("「", "」"), ("『", "』"), ("„", "“")]


def test_borders_of_the_rules() -> None:
    by_default = {key: value for key, value in SMALL.items() if key != "answer_chars"}
    cases: list[tuple[dict[str, Any], str, str | None]] = [
        *((SMALL, f"I can't. {'x' * count}.", kind) for count, kind in ((18, "full"), (19, "hedge"))),
        *((SMALL, f"I can't. However {'x' * count}", kind) for count, kind in ((1, "full"), (2, "hedge"))),
        *((SMALL, f"I can't, but {'x' * count}", kind) for count, kind in ((9, "full"), (10, "hedge"))),
        *((by_default, f"I can't. {'x' * count}.", kind) for count, kind in ((398, "full"), (399, "hedge"))),
        *((by_default, f"I can't. However {'x' * count}", kind) for count, kind in ((111, "full"), (112, "hedge"))),
        (SMALL, f"I can't. I can help you with many other things. {'x' * 18}.", "full"),
        *((SMALL, f"{'x' * count}. I can't.", kind) for count, kind in ((499, "hedge"), (500, None))),
        (SMALL, f"{'x' * 249}. {'x' * 250}. I can't.", None),
        *((SMALL, f"Filtered{'x' * count}", kind) for count, kind in ((392, "blocked"), (393, None))),
        *((SMALL, f"{'x' * count}\nDrop it", kind) for count, kind in ((19_992, "drop_event"), (19_993, None))),
        *((SMALL, f"Yes{mark} I can't.", "full") for mark in ".!?؟।…:"),
        *((SMALL, f"Yes{mark}I can't.", "full") for mark in "。！？\n"),
        *((SMALL, f"Yes{mark}I can't.", None) for mark in ".,"),
        *((SMALL, text, "full") for text in ("**I can’t**", "# I can‘t", "i CAN'T", "Ｉ can't", "`_I can't`")),
        *((SMALL, f"It says {first}Drop it{last} there", None) for first, last in QUOTATIONS),
        *((SMALL, f"{first}Drop it{last}", "drop_event") for first, last in QUOTATIONS),
        *((SMALL, f"It says {first}Drop it{'x' * count}{last} there", kind)
          for first, last in QUOTATIONS for count, kind in ((593, None), (594, "drop_event"))),
    ]  # fmt: skip

    def check(data: dict[str, Any], text: str, expected: str | None) -> None:
        assert kind(RefusalRules({"en": data}), text) == expected

    check_cases(check, cases)

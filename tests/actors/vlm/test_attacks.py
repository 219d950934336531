"""Unusual requests get the same answers as whole forward passes, in each family."""

from typing import Any

import jinja2
import pytest

from actors.rubrics.prompts import Prompt
from actors.vlm.chat import Chat
from actors.vlm.chat_format import bound_templates
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.scoring_requests import Scores, ScoringRequest
from tests.actors.vlm.helpers import ARTICLE, DIGITS, LABELS, MODELS, TOLERANCE, Load, distance, logprobs, picture
from tests.cases import check_cases

WIDE, HIGH, SMALL = (
    picture(1, width=180, height=90),
    picture(2, width=90, height=200),
    picture(3, width=64, height=64),
)
SUFFIXES = ("Melanesia?", "Northern Africa, is it so?")


def asked(
    *suffixes: str, about: Any = WIDE, codes: tuple[str, ...] = DIGITS, after: str = ARTICLE, start: str = ""
) -> list[ScoringRequest]:
    return [ScoringRequest(Prompt((None, after), suffix, start), about, codes) for suffix in suffixes]


ATTACKS = {
    "several pictures, in either order, and one": [
        *asked(*SUFFIXES, about=(WIDE, HIGH, SMALL)),
        *asked(SUFFIXES[0], about=(SMALL, HIGH, WIDE)),
        *asked(SUFFIXES[0], about=(HIGH,)),
    ],
    "pictures of unlike sizes": [*asked(*SUFFIXES), *asked(*SUFFIXES, about=HIGH), *asked(*SUFFIXES, about=SMALL)],
    "no picture, after one": [
        *asked(*SUFFIXES),
        *asked(*SUFFIXES, about=None),
        *asked(*SUFFIXES, about=None, after=""),
    ],
    "an empty suffix": asked("", "Is it?"),
    "an empty suffix alone": asked(""),
    "white space around suffixes": asked("Is it? \n", " Was it?", "\nWill it be?\n\n"),
    "suffixes of one word and of many": asked("a", "word and " * 60 + "b?", "Is it so?"),
    "answers that begin others": asked(*SUFFIXES, codes=("1", "10", "agree", "agree strongly")),
    "one allowed answer": asked(*SUFFIXES, codes=("agree strongly",)),
    "a turn begun with a trailing space": asked(*SUFFIXES, start="Final score: "),
    "a turn begun with a line": asked(*SUFFIXES, start="Let me think.\n\n"),
    "nothing but a suffix": asked(*SUFFIXES, after=""),
    "a single label": asked(SUFFIXES[0]),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS.values())
def test_the_answers_of_a_whole_pass(load: Load, name: str) -> None:
    model, processor = load(name)
    for attack, requests in ATTACKS.items():
        naive = logprobs(ClosedSetScorer(model, processor, engine="naive").score(requests))
        for engine in ("cascade", "batched"):
            likelihoods = logprobs(ClosedSetScorer(model, processor, engine=engine).score(requests))
            assert distance(likelihoods, naive) < TOLERANCE, (attack, engine)


def test_several_pictures_are_all_seen(load: Load) -> None:
    """Their order matters, too."""
    for name in set(MODELS.values()) - {"llama-tiny"}:
        both, turned, one = (
            logprobs(ClosedSetScorer(*load(name)).score(asked(SUFFIXES[0], about=about)))
            for about in ((WIDE, SMALL), (SMALL, WIDE), WIDE)
        )
        assert distance(both, turned) > 1e-3, name
        assert distance(both, one) > 1e-3, name


@pytest.mark.parametrize("name", ["qwen2.5-vl-tiny", "gemma3-tiny"])
def test_two_hundred_labels_in_any_order(load: Load, name: str) -> None:
    """The answer for a label does not depend on the other labels and their order."""
    scorer = ClosedSetScorer(*load(name), engine="cascade")
    requests = asked(*(f"{LABELS[i % 4]}, number {i}?" for i in range(200)))
    whole = scorer.score(requests)
    assert all(isinstance(score, Scores) for score in whole)
    assert distance(logprobs(scorer.score(requests[::-1])[::-1]), logprobs(whole)) < TOLERANCE
    naive = ClosedSetScorer(*load(name), engine="naive").score(requests[::67])
    assert distance(logprobs(whole[::67]), logprobs(naive)) < TOLERANCE


def test_a_window_shorter_than_the_prefix(load: Load) -> None:
    """Assumed by the other tests of Gemma: its windowed layers do not see the beginning of these prompts."""
    model, processor = load("gemma3-tiny")
    group = ClosedSetScorer(model, processor).prepare(asked(*SUFFIXES))
    assert model.config.get_text_config().sliding_window < group.shared / 2


def test_a_space_before_an_answer_is_written_once(load: Load) -> None:
    """ "Final score: " and "Final score:" are the same beginning, not one with two spaces."""
    chat = Chat(load("qwen2.5-vl-tiny")[1], name="tiny")
    assert chat.answers(DIGITS, start="Final score: ") == chat.answers(DIGITS, start="Final score:")
    one, other = (asked(SUFFIXES[0], start=start)[0].prompt for start in ("Final score: ", "Final score:"))
    assert chat.rendered(one, WIDE) == chat.rendered(other, WIDE)


def test_a_template_that_knows_no_system_role(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = load("qwen2.5-vl-tiny")
    refuses = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    monkeypatch.setattr(processor, "chat_template", refuses + processor.chat_template)
    naive, cascade = (
        logprobs(ClosedSetScorer(model, processor, engine=engine).score(asked(*SUFFIXES)))
        for engine in ("naive", "cascade")
    )
    assert distance(cascade, naive) < TOLERANCE


def test_chat_templates_have_the_limits_of_rubrics() -> None:
    """They are programs of strangers, which would otherwise run for hours or fill the memory."""
    from transformers.utils.chat_template_utils import render_jinja_template

    bound_templates()

    def rendered(template: str, content: str = "x") -> str:
        messages = [[{"role": "user", "content": content}]]
        return str(render_jinja_template(messages, chat_template=template, add_generation_prompt=True)[0][0])

    def check(template: str) -> None:
        with pytest.raises(jinja2.TemplateError):
            rendered(template)

    check_cases(check, [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 8000000000 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
        "{% set x = 'z' * 9999 %}{% for a in range(90000) %}{{ x }}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{{ messages | tojson(indent=999999999) }}",
        "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
        "{% for a in [1] %}" * 30 + "{% endfor %}" * 30,
        "{{ " + "9" * 5000 + " }}",
    ])  # fmt: skip
    long = "long " * 100_000
    split = "{% set text = messages[0].content.split('</think>')[-1] %}{{ text.replace('a', '') | replace('b', '') }}"
    assert rendered("{% macro m(t) %}{{ t | trim }}{% endmacro %}" + split + "{{ m('!') }}", long) == f"{long}!"

"""A system's turn and pictures at several places, in each family's own chat template."""

from typing import Any

import pytest

from actors.rubrics.prompts import Prompt
from actors.vlm.chat import Chat, ChatEncoder
from actors.vlm.model_inputs import extended
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.scoring_requests import ScoringRequest
from actors.vlm.shared_prefix import forget_positions
from tests.actors.vlm.helpers import DIGITS, MODELS, TOLERANCE, Load, distance, logprobs, picture

SYSTEM = "You compare pictures.\nBe brief, say \"one\" or 'two'."
SUFFIXES = ("Which is older?", "Which one is of the sea, and why not the other?")
FIRST, SECOND = picture(1, width=160), picture(2, height=130)
ALL_BUT_TEXT = sorted(set(MODELS.values()) - {"llama-tiny"})
REFUSALS = {
    "always": "{% if messages[0].role == 'system' %}{{ raise_exception('no system turn') }}{% endif %}",
    "next to a picture": "{% if messages[0].role == 'system' and messages[1].content is not string and "
    "messages[1].content | selectattr('type', 'equalto', 'image') | list | length %}"
    "{{ raise_exception('no system turn with images') }}{% endif %}",
}
AS_PRINTED = (
    "{% if messages[0].role == 'system' %}<|im_start|>system\n{{ messages[0].content | trim }}<|im_end|>\n"
    "{% set messages = messages[1:] %}{% endif %}"
)


def requests(*, places: tuple[int, int] = (1, 2), system: str = SYSTEM) -> list[ScoringRequest]:
    shared = ("A:\n\n", places[0], "B:\n\n", places[1], "Both are old.\n\n")
    return [ScoringRequest(Prompt(shared, suffix, system=system), (FIRST, SECOND), DIGITS) for suffix in SUFFIXES]


def plain(model: Any, processor: Any, suffix: str) -> list[float]:
    """Log-probabilities of the digits, by direct calls of transformers with messages written by hand."""
    import torch

    text = "Both are old.\n\n" + suffix
    content: list[dict[str, Any]] = [{"type": "text", "text": "A:\n\n"}, {"type": "image", "image": FIRST}]
    content += [{"type": "text", "text": "B:\n\n"}, {"type": "image", "image": SECOND}, {"type": "text", "text": text}]
    messages = [{"role": "system", "content": [{"type": "text", "text": SYSTEM}]}, {"role": "user", "content": content}]
    inputs = processor.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
    digits = ClosedSetScorer(model, processor).answers(DIGITS)
    forget_positions(model)
    with torch.no_grad():
        logits = model(**extended(inputs, list(digits.bridge))).logits[0, -1].double().log_softmax(-1)
    return logits[[sequence[0] for sequence in digits.sequences]].tolist()


@pytest.mark.parametrize("name", ALL_BUT_TEXT)
def test_equals_one_whole_pass_of_transformers(load: Load, name: str) -> None:
    model, processor = load(name)
    expected = [value for suffix in SUFFIXES for value in plain(model, processor, suffix)]
    for engine in ("naive", "auto"):
        scores = logprobs(ClosedSetScorer(model, processor, engine=engine).score(requests()))
        assert distance(scores, expected) < TOLERANCE
    turned, default = (
        logprobs(ClosedSetScorer(model, processor).score(asked))
        for asked in (requests(places=(2, 1)), requests(system=""))
    )
    assert distance(turned, expected) > 1e-3  # which picture is at which place matters, and so does the system's turn
    assert distance(default, expected) > 1e-3


def test_requests_that_differ_in_the_systems_turn_do_not_share_a_prefix(load: Load) -> None:
    scorer = ClosedSetScorer(*load("qwen2.5-vl-tiny"))
    both = logprobs(scorer.score([*requests(), *requests(system="Other.")]))
    assert (
        distance(both, [*logprobs(scorer.score(requests())), *logprobs(scorer.score(requests(system="Other.")))]) < 1e-5
    )


def test_it_replaces_the_templates_own_text(load: Load) -> None:
    chat = ChatEncoder(load("qwen2.5-vl-tiny")[1])
    assert "You are a helpful assistant." in chat.text([None, "x"], 1)
    written = chat.text([None, "x"], 1, system=SYSTEM)
    assert written.startswith(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n")
    assert "helpful" not in written
    assert not chat.moves_system
    text_model = ChatEncoder(load("llama-tiny")[1])
    assert text_model.text(["x"], 0, system=SYSTEM).count(SYSTEM) == 1
    assert not text_model.moves_system


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_template_that_takes_none_gets_it_in_the_users_turn(
    load: Load, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    model, processor = load("qwen2.5-vl-tiny")
    template = processor.chat_template
    monkeypatch.setattr(processor, "chat_template", REFUSALS[refusal] + template)
    chat = ChatEncoder(processor)
    assert chat.text(["x"], 0) == ChatEncoder(processor).text(["x"], 0)
    assert not chat.moves_system
    assert chat.text([None, "x"], 1, system=SYSTEM) == chat.text([f"{SYSTEM}\n\n", None, "x"], 1)
    assert chat.text(["x", None], 1, system=SYSTEM) == chat.text([f"{SYSTEM}\n\nx", None], 1)
    assert chat.moves_system
    without = ChatEncoder(processor)
    assert f"{SYSTEM}\n\nx" in without.text(["x"], 0, system=SYSTEM) or refusal != "always"
    assert without.moves_system == (refusal == "always")
    cascade, naive = (
        logprobs(ClosedSetScorer(model, processor, engine=engine).score(requests())) for engine in ("cascade", "naive")
    )
    assert distance(cascade, naive) < TOLERANCE


def test_a_template_that_would_print_a_list_gets_a_string(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    processor = load("qwen2.5-vl-tiny")[1]
    monkeypatch.setattr(processor, "chat_template", AS_PRINTED + processor.chat_template)
    chat = Chat(processor, name="tiny")
    written = chat.rendered(requests()[0].prompt, (FIRST, SECOND))
    assert f"<|im_start|>system\n{SYSTEM}<|im_end|>\n" in written
    assert not chat.moves_system

"""Likelihoods of answers from hidden states, in chunks and with capped logits, equal a plain softmax."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from actors.vlm import scoring_requests
from actors.vlm.scoring_requests import AnswerCodes, AnswerNodes, RequestGroup, log_likelihoods
from tests.cases import check_cases

VOCABULARY, WIDTH = 11, 5
MADE = AnswerCodes("sequence", (), ((1, 2, 3), (1, 4), (5,)))


class Model:
    """Only the output layer of a language model."""

    def __init__(self, cap: float | None) -> None:
        import torch

        torch.manual_seed(0)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)
        text = SimpleNamespace(vocab_size=VOCABULARY, final_logit_softcapping=cap)
        self.config = SimpleNamespace(get_text_config=lambda: text)

    def get_output_embeddings(self) -> Any:
        return self.head


def expected(model: Model, hidden: Any, asked: list[AnswerNodes], cap: float | None) -> list[list[float]]:
    logits = model.head(hidden).double()
    if cap is not None:
        logits = cap * (logits / cap).tanh()
    logprobs = logits.log_softmax(-1)
    results = []
    for one in asked:
        node = {(): one.last} | dict(zip(one.answers.inner, one.inner, strict=True))
        results.append([float(sum(logprobs[node[s[:i]], s[i]] for i in range(len(s)))) for s in one.answers.sequences])
    return results


def test_likelihoods_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(nodes_at_once: int, cap: float | None, dtype: str) -> None:
        import torch

        model: Any = Model(cap)
        torch.manual_seed(1)
        hidden = (torch.randn(8, WIDTH) * 3).to(getattr(torch, dtype))
        model.head.to(hidden.dtype)
        # Six nodes are read, two of the eight are not.
        asked = [AnswerNodes(MADE, 6, (0, 3)), AnswerNodes(MADE, 1, (7, 2))]
        monkeypatch.setattr(scoring_requests, "LOGITS_BYTES", 4 * VOCABULARY * nodes_at_once)
        widths = []
        model.head.register_forward_hook(lambda _module, arguments, _made: widths.append(len(arguments[0])))
        likelihoods = log_likelihoods(model, hidden, asked)
        assert max(widths) == min(nodes_at_once, 6)
        assert sum(widths) == 6
        with torch.no_grad():
            for one, other in zip(likelihoods, expected(model, hidden, asked, cap), strict=True):
                assert one == pytest.approx(other, abs=1e-5)

    check_cases(check, itertools.product([1, 2, 3, 4, 100], [None, 0.5], ["float32", "bfloat16"]))


PLAIN = AnswerCodes("code", (), ((1,), (2,)))
BRIDGED = AnswerCodes("code", (8, 9), ((3,), (4,)))


def test_the_bridge_of_the_answers_is_part_of_the_prompt() -> None:
    inputs: Any = {"input_ids": object()}
    group = RequestGroup.of_suffixes(inputs, [[5], [6, 7], []], [PLAIN, BRIDGED, BRIDGED], shared=10)
    assert (group.places, group.shared, group.error) == ([0, 1, 2], 10, None)
    assert group.suffixes == [[5], [6, 7, 8, 9], [8, 9]]
    assert group.answers == [PLAIN, BRIDGED, BRIDGED]
    assert group.inputs == inputs
    assert group.inputs is not inputs  # the caller's may change
    assert [group.length(number) for number in range(3)] == [11, 14, 12]


def test_a_part_of_a_group_keeps_the_places_of_its_requests() -> None:
    inputs: Any = {"input_ids": object()}
    group = RequestGroup([4, 2, 7], inputs, [[1], [2], [3]], 10, [PLAIN, BRIDGED, PLAIN])
    part = group.subset([2, 1])
    assert (part.places, part.suffixes, part.answers) == ([7, 2], [[3], [2]], [PLAIN, BRIDGED])
    assert (part.inputs, part.shared, part.error) == (group.inputs, 10, None)
    assert group.subset([]).places == []
    first, second = RequestGroup([0]), RequestGroup([0])
    assert first.inputs is not second.inputs
    assert first.suffixes is not second.suffixes
    assert first.answers is not second.answers

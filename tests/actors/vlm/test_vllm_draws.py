"""Draws inside vLLM: the tokens of a sample's numbers, one after the other, and rows that have none."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from actors.vlm.decoding import choose
from actors.vlm.settings import Sampling
from tests.actors.vlm import fake_vllm

SEED, STEPS = 5, 3


def test_each_token_is_that_of_the_next_number() -> None:
    with fake_vllm.installed():
        from actors.vlm.vllm_draws import SeededDraws
        from actors.vlm.vllm_engine import DRAWS_KEY

        unused: Any = None
        draws = SeededDraws(unused, unused, False)
        drawn: list[int] = []
        seeded = SimpleNamespace(extra_args={DRAWS_KEY: (SEED, 1.0, 1.0, STEPS)})
        plain = SimpleNamespace(extra_args=None)
        draws.update_state([(0, plain, None, []), (2, seeded, None, drawn)])
        logits = torch.linspace(0, 2, 3 * 50).reshape(3, 50).sin()
        numbers = np.random.Generator(np.random.Philox(SEED)).random(STEPS)
        expected = [int(choose(logits[2:], [number], Sampling(1.0, 1.0, STEPS))[0]) for number in numbers]
        assert len(set(expected)) == STEPS
        for token in [*expected, expected[-1]]:  # a request that has ended may be scheduled once more
            result = draws.apply(logits.clone())
            assert torch.equal(result[:2], logits[:2])
            assert (result[2] == 0).nonzero().flatten().tolist() == [token]
            assert bool(torch.isneginf(result[2]).sum() == 49)
            drawn.append(token)
        assert not draws.is_argmax_invariant()

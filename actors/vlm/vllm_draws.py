"""Token draws inside vLLM from the same numbers as `actors.vlm.generation`, as a logits processor that vLLM imports.

vLLM's own seeded draws are different and depend on its release. With these, samples with the same seed are the same
text under both engines, as far as their likelihoods agree.
"""

from typing import Any, NamedTuple

import numpy as np
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from actors.vlm.decoding import choose
from actors.vlm.settings import Sampling
from actors.vlm.vllm_engine import DRAWS_KEY


class _Row(NamedTuple):
    numbers: np.ndarray[Any, np.dtype[np.float64]]
    sampling: Sampling
    drawn: list[int]  # vLLM's own growing list of the tokens so far


class SeededDraws(LogitsProcessor):  # type: ignore[misc]
    """Logits processor that leaves in each row only the token on which its sample's next number falls.

    Rows of requests without `DRAWS_KEY` are unchanged. The requests must be greedy (temperature 0).
    """

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        self._rows: dict[int, _Row] = {}  # by index in vLLM's batch

    def is_argmax_invariant(self) -> bool:
        """Return False, since this class changes the greedy choice."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Track requests that are added to vLLM's batch, removed or moved."""
        process_dict_updates(self._rows, batch_update, _new_row)

    def apply(self, logits: Any) -> Any:
        """Return `logits` [rows, vocabulary], modified in place."""
        by_sampling: dict[Sampling, list[int]] = {}
        for index, row in self._rows.items():
            by_sampling.setdefault(row.sampling, []).append(index)
        for sampling, indices in by_sampling.items():
            rows = [self._rows[index] for index in indices]
            # A request that has just ended may be scheduled once more; its token is discarded.
            numbers = [float(row.numbers[min(len(row.drawn), len(row.numbers) - 1)]) for row in rows]
            chosen = choose(logits[indices], numbers, sampling)
            logits[indices] = float("-inf")
            logits[indices, chosen] = 0.0
        return logits


def _new_row(params: Any, prompt: list[int] | None, drawn: list[int]) -> _Row | None:
    if not params.extra_args or DRAWS_KEY not in params.extra_args:
        return None
    seed, temperature, top_p, max_tokens = params.extra_args[DRAWS_KEY]
    numbers = np.random.Generator(np.random.Philox(seed)).random(max_tokens)
    return _Row(numbers, Sampling(temperature, top_p, max_tokens), drawn)

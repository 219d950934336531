"""Log-likelihoods of completions of a model's turn (CAIRE, appendix B.1).

The model's turn begins with a fixed phrase ("What is described here matters most to"); a completion's score is the sum
of the log-likelihoods of its tokens after this phrase. The prompt is encoded once for all completions.

Debiasing subtracts the labels' base rates:

    score = log P(label | context) - lambda x max(log P(label | no context), T); higher is more relevant.

The paper writes the formula for L = -log P (equations 1 to 3), which would make the least likely label the most
relevant, and says that T caps the contribution of completions with low likelihood. That holds for log P only: there the
maximum bounds the correction of an unlikely label, which -log P would leave unbounded. So all values here are log P.
Lambda and T are not published.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from actors.errors import SettingError
from actors.vlm import errors, families, memory, model_inputs, shared_prefix
from actors.vlm.decoding import advance, encode_once, repeated, run_custom
from actors.vlm.engines import NaiveEngine, disagreement
from actors.vlm.errors import ScoringError
from actors.vlm.generation import LOGIT_BYTES
from actors.vlm.memory import BudgetedScorer
from actors.vlm.scoring_requests import AnswerCodes, RequestGroup

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import GenerationConfig

    from actors.vlm.model_types import DecodingState, Inputs, Tensors, Vlm

Way = Literal["cascade", "rows", "steps", "whole"]
# Ways in which labels may pass, in the order in which they are tried, and their words in warnings.
WAYS: dict[Way, str] = {
    "cascade": "one sequence after the prompt (engine cascade)",
    "rows": "rows after the prompt's cache",
    "steps": "rows after the prompt's cache, token by token",
    "whole": "whole prompts",
}
LABELS_AT_ONCE = 32  # largest number of rows per repeated cache; more are not faster
log = logging.getLogger(__name__)
NO_THRESHOLD = float("-inf")


class CompletionScorer(BudgetedScorer):
    """Scorer that computes log-likelihoods of completions of a model's turn.

    All completions pass as one tree (engine `cascade`), provided that this gives the same log-likelihoods as whole
    passes for the first prompt. Otherwise they pass as rows, each with a copy of the prompt's cache: their tokens
    together or, for models that then forget the prompt (Jamba), one after another. Models without a cache that can be
    repeated need a whole pass for each completion.

    Args:
        model: a model loaded by transformers, in evaluation mode.
        pad_id: any token id, for padding.

    Attributes:
        ways: the ways in which completions may pass (`WAYS`); the first is in use.
    """

    def __init__(self, model: Vlm, *, pad_id: int) -> None:
        self.model = model
        self.pad_id = pad_id
        text = model.config.get_text_config()
        self.ways = [way for way in WAYS if way != "cascade" or families.layout(text) is not None]
        self._settled: set[tuple[bool, bool]] = set()
        self.max_positions: int | None = getattr(text, "max_position_embeddings", None)
        self.label = f"model {model.config.model_type!r}"
        self._set_budget()
        self._token_bytes = memory.key_bytes(text, model.dtype.itemsize)
        self._logit_bytes = int(text.vocab_size) * LOGIT_BYTES

    def score(self, inputs: Inputs, completions: Sequence[Sequence[int]]) -> list[float] | ScoringError:
        """Return the natural logarithm of each completion's probability after one prompt, over the full vocabulary.

        Args:
            inputs: one prompt from `ChatEncoder.encode`.
            completions: token ids of each completion; at least one token each.

        Raises:
            EngineError: the device failed.
        """
        needed = int(inputs["input_ids"].shape[1]) + max(map(len, completions))
        if self.max_positions is not None and needed > self.max_positions:
            return ScoringError("prompt_too_long", f"{needed} tokens; the model takes {self.max_positions}")
        try:
            logprobs = self._in_budget(lambda: self._log_likelihoods(dict(inputs), completions))
        except Exception as error:
            self._raise_if_fatal(error)
            return errors.reason(error)
        if not np.isfinite(logprobs).all():
            return ScoringError("not_finite", "the model's likelihoods are not finite")
        return logprobs

    def _log_likelihoods(self, inputs: Tensors, completions: Sequence[Sequence[int]]) -> list[float]:
        # One token after another is the same as all at once for completions of two, the second of which is not passed.
        traits = (not set(model_inputs.PER_TOKEN).issuperset(inputs), max(map(len, completions)) > 2)
        if traits not in self._settled and self._settle(inputs, completions):
            self._settled.add(traits)
        return self._pass(self.ways[0], inputs, completions)

    def _pass(self, way: Way, inputs: Tensors, completions: Sequence[Sequence[int]]) -> list[float]:
        if way == "cascade":
            return self._packed(inputs, completions)
        if way == "whole":
            return self._whole(inputs, completions)
        return self._repeated(inputs, completions, is_stepwise=way == "steps")

    def _settle(self, inputs: Tensors, completions: Sequence[Sequence[int]]) -> bool:
        """Give up ways that differ from whole passes; return False if the prompt cannot show it."""
        by_length = sorted(completions, key=len)
        compared = [by_length[0], by_length[-1]]  # so that there is padding
        expected = self._whole(inputs, compared)
        if not np.isfinite(expected).all():
            return False
        while (way := self.ways[0]) != "whole":
            reason = disagreement(
                functools.partial(self._pass, way, inputs, compared),
                expected,
                tolerance=shared_prefix.tolerance(self.model),
            )
            if not reason:
                break
            log.warning("%s: labels do not pass as %s (%s); this is slower", self.label, WAYS[way], reason)
            self.ways.remove(way)
        return True

    def _whole(self, inputs: Tensors, completions: Sequence[Sequence[int]]) -> list[float]:
        """Pass the whole prompt with each completion."""
        prompt, naive = model_inputs.on_device(self.model, inputs), NaiveEngine(self.model)
        logprobs = []
        for tokens in completions:
            values = naive.log_probabilities(model_inputs.extended(prompt, list(tokens[:-1])), last=len(tokens))
            logprobs.append(float(values[range(len(tokens)), list(tokens)].sum()))
        return logprobs

    def _packed(self, inputs: Tensors, completions: Sequence[Sequence[int]]) -> list[float]:
        """Pass all completions as one tree: the suffix is the prompt's last token, the completions are its answers."""
        prompt = model_inputs.on_device(self.model, inputs)
        answers = [AnswerCodes("sequence", (), (tuple(tokens),)) for tokens in completions]
        *_, last = ids = prompt["input_ids"][0].tolist()
        group = RequestGroup.of_suffixes(prompt, [[last]] * len(answers), answers, shared=len(ids) - 1)
        likelihoods = shared_prefix.suffix_likelihoods(self.model, group, prompt, kind="cascade", budget=self.budget)
        return [logprob for (logprob,) in likelihoods.logprobs]

    def _repeated(
        self, inputs: Tensors, completions: Sequence[Sequence[int]], *, is_stepwise: bool = False
    ) -> list[float]:
        """Pass completions as rows, each with a copy of the prompt's cache."""
        logprobs: list[float] = []

        def measure(model: Vlm, input_ids: Tensor, generation_config: GenerationConfig, **state: Any) -> Tensor:
            logits, state = encode_once(model, input_ids, state)
            rows = self._rows(int(input_ids.shape[1]), max(map(len, completions)))
            for first in range(0, len(completions), rows):
                group = completions[first : first + rows]
                copy = repeated(state, len(group), rows=1, copied=True)
                logprobs.extend(self._group(input_ids, logits, copy, group, is_stepwise=is_stepwise))
            return input_ids

        run_custom(self.model, inputs, measure, pad_id=self.pad_id, steps=max(map(len, completions)))
        return logprobs

    def _rows(self, prefix: int, longest: int) -> int:
        """Return how many completions of up to `longest` tokens fit after `prefix` tokens, each with its own cache."""
        row_bytes = (prefix + longest) * self._token_bytes + longest * self._logit_bytes
        return max(1, min(LABELS_AT_ONCE, self.budget // row_bytes))

    def _group(
        self,
        input_ids: Tensor,
        logits: Tensor,
        state: DecodingState,
        completions: Sequence[Sequence[int]],
        *,
        is_stepwise: bool,
    ) -> list[float]:
        """Return the log-likelihoods of completions after a state that was repeated for them."""
        import torch

        longest = max(map(len, completions))
        parts = [logits.repeat_interleave(len(completions), dim=0)]
        if longest > 1:  # a completion's last token is not an input; padding follows, which no token sees
            rows = [[*tokens[:-1], *[self.pad_id] * (longest - len(tokens))] for tokens in completions]
            suffixes = torch.tensor(rows, device=input_ids.device)
            whole = torch.cat([input_ids.repeat_interleave(len(completions), dim=0), suffixes], dim=1)
            size = 1 if is_stepwise else longest - 1
            for first in range(0, longest - 1, size):
                if "logits_to_keep" in state:
                    state["logits_to_keep"] = size
                later, state = advance(self.model, whole[:, : input_ids.shape[1] + first + size], state, tokens=size)
                parts.append(later[:, -size:].to(parts[0].device))
        logits = torch.cat(parts, dim=1)
        logprobs = []
        for row, tokens in zip(logits, completions, strict=True):
            chosen = torch.tensor(list(tokens), device=row.device)[:, None]
            logprobs.append(float(row[: len(tokens)].float().log_softmax(-1).double().gather(-1, chosen).sum()))
        return logprobs


class DebiasSetting(NamedTuple):
    """One pair of lambda and T.

    Attributes:
        weight: lambda of the paper, the share of the base rate that is subtracted; 0 leaves the likelihood unchanged.
        threshold: T of the paper, a natural logarithm; -inf sets no cap.
    """

    weight: float
    threshold: float = NO_THRESHOLD

    @property
    def name(self) -> str:
        """The condition under which ratings are stored, such as `lambda=0.5,T=-12`."""
        return f"lambda={self.weight:g},T={self.threshold:g}"


def check_settings(settings: Sequence[DebiasSetting]) -> None:
    """Check the values of lambda and T.

    Raises:
        ValueError: no setting, a duplicate, a lambda that is negative or not finite, or a T that is above 0 or NaN.
    """
    if not settings:
        raise ValueError("lambdas and thresholds: at least one of each is required")
    for setting in settings:
        if not 0 <= setting.weight < float("inf"):
            raise SettingError("must be a finite number of at least 0", "lambda", setting.weight)
        if not setting.threshold <= 0:  # also refuses NaN
            raise SettingError("a log-likelihood is at most 0; use -inf for no cap", "threshold", setting.threshold)
    if len({setting.name for setting in settings}) < len(settings):
        raise ValueError("lambdas or thresholds contain a duplicate")


def debias(with_context: np.ndarray, without_context: np.ndarray, setting: DebiasSetting) -> np.ndarray:
    """Return scores from log-likelihoods, float64; shapes broadcast."""
    # lambda 0 times a base rate of -inf would be NaN
    if setting.weight == 0:
        return np.broadcast_arrays(with_context, without_context)[0].astype(np.float64)
    scores: np.ndarray = with_context - setting.weight * np.maximum(without_context, setting.threshold)
    return scores

"""How likely a model is to name a label: log-likelihoods of completions, debiased (CAIRE, appendix B.1).

The model's own turn begins with a fixed phrase ("What is described here matters most to"); what is scored is the sum
of the log-likelihoods of the label's tokens behind it. The prompt is encoded once and all labels pass behind it
together, each one branch of a tree (`actors.vlm.shared_prefix`).

**The sign.** The paper defines L as minus log P (its equation 1), takes L itself for the relevance (2), so that the
least likely label would be the most relevant, and debiases by L - lambda x max(L without context, T) (3), where T is
to cap what low-likelihood completions contribute. That description fits log P and not its negative: an unlikely label
has a log P far below zero, and the maximum with T keeps the correction from growing with it; with minus log P the
maximum would raise the likely labels' corrections and leave the unlikely ones' unbounded. So everything here is log P,

    score = log P(label | context) - lambda x max(log P(label | no context), T),

and a higher score is more relevant. Lambda and T are not published: `Moments` tells, of each pair that is tried, how
well its scores agree with a reference.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from actors.vlm import errors, families, memory, shared_prefix
from actors.vlm.answers import AnswerCodes
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.generation import LOGIT_BYTES, encode_once, go_on, repeated, run_custom

NO_THRESHOLD = float("-inf")
LABELS_AT_ONCE = 32  # rows behind one repeated cache at the most; more are no faster
TRIED = 2  # labels by which the two ways are compared
log = logging.getLogger(__name__)


class Setting(NamedTuple):
    """One way to debias: the share of the base rate that is taken off, and the log-likelihood below which it stops."""

    weight: float  # lambda of the paper; 0 leaves the likelihood as it is
    threshold: float = NO_THRESHOLD  # T of the paper, natural logarithm; -inf caps nothing

    @property
    def name(self) -> str:
        """`lambda=0.5,T=-12`, the condition under which ratings are stored."""
        return f"lambda={self.weight:g},T={self.threshold:g}"


def check_settings(settings: Sequence[Setting]) -> None:
    """Refuse settings that mean nothing.

    Raises:
        ValueError: none at all, one twice, a weight that is no number or below 0, a threshold above 0 or no number.
    """
    if not settings:
        raise ValueError("no lambda or no threshold; give at least one of each")
    for each in settings:
        if not 0 <= each.weight < float("inf"):
            raise ValueError(f"lambda is {each.weight}; it must be a number of 0 or more")
        if not each.threshold <= 0:  # also refuses nan
            raise ValueError(f"threshold is {each.threshold}; a log-likelihood is at most 0 (-inf caps nothing)")
    if len({each.name for each in settings}) < len(settings):
        raise ValueError("two of the lambdas, or of the thresholds, are the same number")


def debias(with_context: np.ndarray, without_context: np.ndarray, setting: Setting) -> np.ndarray:
    """Scores from log-likelihoods, higher is more relevant; shapes broadcast, float64."""
    # lambda 0 times a base rate of -inf would not be a number
    if setting.weight == 0:
        return np.broadcast_arrays(with_context, without_context)[0].astype(np.float64)
    return with_context - setting.weight * np.maximum(without_context, setting.threshold)


@dataclass
class Moments:
    """Running sums of pairs (score, reference), for Pearson's correlation; `+=` a chunk at a time."""

    n: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    yy: float = 0.0
    xy: float = 0.0

    def add(self, x: np.ndarray, y: np.ndarray) -> None:
        """Add pairs of finite numbers, 1-D float64 of one length."""
        self.n += len(x)
        self.x, self.y = self.x + float(x.sum()), self.y + float(y.sum())
        self.xx, self.yy = self.xx + float((x * x).sum()), self.yy + float((y * y).sum())
        self.xy += float((x * y).sum())

    @property
    def pearson(self) -> float | None:
        """Pearson's r; None with fewer than three pairs or where one side never varies."""
        if self.n < 3:
            return None
        spread = [self.n * square - total**2 for square, total in ((self.xx, self.x), (self.yy, self.y))]
        if min(spread) <= 1e-12 * self.n * max(self.xx, self.yy, 1e-300):
            return None
        return float(np.clip((self.n * self.xy - self.x * self.y) / (spread[0] * spread[1]) ** 0.5, -1, 1))


class CompletionScorer:
    """Log-likelihoods of completions of a model's turn.

    A model of a known family passes them as `cascade` (`actors.vlm.forward`), once that has given what the portable way
    gives for the first prompt: a cache that is repeated for each completion.

    Args:
        model: as transformers loads it, in evaluation mode.
        pad_id: any token, for what is masked.
    """

    def __init__(self, model: Any, *, pad_id: int) -> None:
        self.model = model
        self.pad_id = pad_id
        self.family = families.family_of(model)
        self._is_packed, self._is_proven = self.family is not None, self.family is None
        text = model.config.get_text_config()
        self.max_positions: int | None = getattr(text, "max_position_embeddings", None)
        self.budget = int(memory.SHARE * memory.free_bytes(model.device))
        self._halved = False
        self._token_bytes = memory.key_bytes(text, model.dtype.itemsize)
        self._logit_bytes = int(text.vocab_size) * LOGIT_BYTES

    def score(self, inputs: Mapping[str, Any], completions: Sequence[Sequence[int]]) -> list[float] | ScoringError:
        """Natural logarithm of each completion's likelihood behind one prompt, over the full vocabulary.

        Args:
            inputs: one prompt as `ChatEncoder.encode` makes it.
            completions: tokens of each, at least one.

        Raises:
            EngineError: the device failed.
        """

        needed = int(inputs["input_ids"].shape[1]) + max(map(len, completions))
        if self.max_positions is not None and needed > self.max_positions:
            return ScoringError("prompt_too_long", f"{needed} tokens, the model takes {self.max_positions}")
        while True:
            try:
                made = self._measured(dict(inputs), completions)
                break
            except Exception as error:
                if errors.is_fatal(error):
                    raise EngineError(f"model {self.model.config.model_type!r}: {error}") from error
                if self._halved or not errors.is_out_of_memory(error):
                    return errors.reason(error)
            # outside of the clause, whose traceback would keep the failed pass's memory
            self._halved, self.budget = True, self.budget // 2
            log.warning("out of memory on %s: groups of labels halved", self.model.device)
            if self.model.device.type == "cuda":
                import torch

                torch.cuda.empty_cache()
        if not np.isfinite(made).all():
            return ScoringError("not_finite", "the model's likelihoods are not finite numbers")
        return made

    def _measured(self, inputs: dict[str, Any], completions: Sequence[Sequence[int]]) -> list[float]:
        if not self._is_proven:
            self._prove(inputs, completions[:TRIED])
        return (self._packed if self._is_packed else self._repeated)(inputs, completions)

    def _prove(self, inputs: dict[str, Any], completions: Sequence[Sequence[int]]) -> None:
        """Give the packed way up where it does not give what the portable one gives: a release of transformers or
        torch that it was not tried with, a device whose kernels differ."""
        expected = np.array(self._repeated(inputs, completions))
        if not np.isfinite(expected).all():
            return
        try:
            far = float(np.abs(np.array(self._packed(inputs, completions)) - expected).max())
        except Exception as error:
            if errors.is_fatal(error) or errors.is_out_of_memory(error):
                raise
            reason = f"{type(error).__name__}: {error}"
        else:
            reason = "" if far <= shared_prefix.tolerance(self.model) else f"its log-likelihoods are {far:.2g} apart"
        if reason:
            kind = self.model.config.model_type
            log.warning("model %r: labels pass with a cache each, which is slower (%s)", kind, reason)
        self._is_packed, self._is_proven = not reason, True

    def _packed(self, inputs: dict[str, Any], completions: Sequence[Sequence[int]]) -> list[float]:
        """Each completion behind the prompt's last token, which is what packed passes begin with."""
        assert self.family is not None
        moved = families.on_device(self.model, inputs)
        found = shared_prefix.log_likelihoods(
            self.model,
            self.family,
            moved,
            [moved["input_ids"][0, -1:].tolist()] * len(completions),
            [AnswerCodes("sequence", (), (tuple(tokens),)) for tokens in completions],
            shared=int(moved["input_ids"].shape[1]) - 1,
            engine="cascade",
            budget=self.budget,
        )
        return [logprob for (logprob,) in found.logprobs]

    def _repeated(self, inputs: dict[str, Any], completions: Sequence[Sequence[int]]) -> list[float]:
        found: list[float] = []

        def measure(model: Any, input_ids: Any, generation_config: Any, **state: Any) -> Any:
            logits, state = encode_once(model, input_ids, state)
            rows = self._rows(int(input_ids.shape[1]), max(map(len, completions)))
            for first in range(0, len(completions), rows):
                some = completions[first : first + rows]
                found.extend(self._some(input_ids, logits, repeated(state, len(some), copied=True), some))
            return input_ids

        run_custom(self.model, inputs, measure, pad_id=self.pad_id, steps=max(map(len, completions)))
        return found

    def _rows(self, prefix: int, longest: int) -> int:
        """Completions, `longest` tokens at the most, that fit behind `prefix` tokens at a time, each with a cache."""
        each = (prefix + longest) * self._token_bytes + longest * self._logit_bytes
        return max(1, min(LABELS_AT_ONCE, self.budget // each))

    def _some(
        self, input_ids: Any, logits: Any, state: dict[str, Any], completions: Sequence[Sequence[int]]
    ) -> list[float]:
        """Log-likelihoods of completions behind a state that was repeated for them."""
        import torch

        longest = max(map(len, completions))
        logits = logits.repeat_interleave(len(completions), dim=0)
        if longest > 1:  # of each completion all but the last token is read; padding follows, which nothing sees
            rows = [[*tokens[:-1], *[self.pad_id] * (longest - len(tokens))] for tokens in completions]
            suffixes = torch.tensor(rows, device=input_ids.device)
            if "logits_to_keep" in state:
                state["logits_to_keep"] = longest - 1
            whole = torch.cat([input_ids.repeat_interleave(len(completions), dim=0), suffixes], dim=1)
            behind, _ = go_on(self.model, whole, state, tokens=longest - 1)
            logits = torch.cat([logits, behind[:, -(longest - 1) :].to(logits.device)], dim=1)
        found = []
        for row, tokens in zip(logits, completions, strict=True):
            chosen = torch.tensor(list(tokens), device=row.device)[:, None]
            found.append(float(row[: len(tokens)].float().log_softmax(-1).double().gather(-1, chosen).sum()))
        return found

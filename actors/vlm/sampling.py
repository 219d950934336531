"""Sampling of generated texts: the settings, and the draw of a token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAX_TOKENS = 1024


@dataclass(frozen=True)
class Sampling:
    """Sampling settings.

    Attributes:
        temperature: 0 always takes the most likely token.
        top_p: probability of the nucleus that tokens are drawn from (Holtzman et al. 2020, arXiv:1904.09751).
        max_tokens: largest number of tokens of a text.

    Raises:
        ValueError: a value outside its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = MAX_TOKENS

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature={self.temperature}: must be a finite number of at least 0")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p}: must be more than 0 and at most 1")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens={self.max_tokens}: must be at least 1")


def draw(logits: Any, numbers: Sequence[float], sampling: Sampling) -> Any:
    """Draw one token per row: the most likely one, or the one where a number falls on the cumulative distribution.

    The distribution covers the nucleus, the smallest set of most likely tokens with a probability of at least `top_p`.

    Args:
        logits: [rows, vocabulary].
        numbers: one per row, in [0, 1).

    Returns:
        token ids [rows], int64.

    Raises:
        ValueError: the logits are not finite.
    """
    import torch

    logits = logits.float()
    if not bool(torch.isfinite(logits.max(dim=-1).values).all()):
        raise ValueError("the model's likelihoods are not finite")
    return choose(logits, numbers, sampling)


def choose(logits: Any, numbers: Sequence[float], sampling: Sampling) -> Any:
    """Return what `draw` returns for float32 logits; arbitrary tokens where they are not finite."""
    import torch

    if sampling.temperature == 0:
        return logits.argmax(dim=-1)
    shares = (logits / sampling.temperature).softmax(dim=-1, dtype=torch.float64)
    order = None
    if sampling.top_p < 1:
        shares, order = shares.sort(dim=-1, descending=True, stable=True)
        outside = shares.cumsum(dim=-1) - shares >= sampling.top_p  # the tokens before it have enough probability
        shares = shares.masked_fill(outside, 0.0)
    sums = shares.cumsum(dim=-1)
    targets = torch.tensor(numbers, dtype=torch.float64, device=logits.device)[:, None] * sums[:, -1:]
    # A number on a boundary belongs to the next token, so that a token without probability is never drawn.
    places = torch.searchsorted(sums, targets, right=True)
    last = torch.arange(shares.shape[-1], device=shares.device).where(shares > 0, 0).amax(dim=-1, keepdim=True)
    places = torch.minimum(places, last)
    return (places if order is None else order.gather(-1, places))[:, 0]

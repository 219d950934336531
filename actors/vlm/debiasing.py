"""Debiasing of label likelihoods by the labels' base rates (CAIRE, appendix B.1).

    score = log P(label | context) - lambda x max(log P(label | no context), T); higher is more relevant.

The paper writes the formula for L = -log P (equations 1 to 3), which would make the least likely label the most
relevant, and says that T caps the contribution of completions with low likelihood. That holds for log P only: there the
maximum bounds the correction of an unlikely label, which -log P would leave unbounded. So all values here are log P.
Lambda and T are not published.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

NO_THRESHOLD = float("-inf")


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
            raise ValueError(f"lambda={setting.weight}: must be a finite number of at least 0")
        if not setting.threshold <= 0:  # also refuses NaN
            raise ValueError(f"threshold={setting.threshold}: a log-likelihood is at most 0; use -inf for no cap")
    if len({setting.name for setting in settings}) < len(settings):
        raise ValueError("lambdas or thresholds contain a duplicate")


def debias(with_context: np.ndarray, without_context: np.ndarray, setting: DebiasSetting) -> np.ndarray:
    """Return scores from log-likelihoods, float64; shapes broadcast."""
    # lambda 0 times a base rate of -inf would be NaN
    if setting.weight == 0:
        return np.broadcast_arrays(with_context, without_context)[0].astype(np.float64)
    scores: np.ndarray = with_context - setting.weight * np.maximum(without_context, setting.threshold)
    return scores


@dataclass
class Moments:
    """Running sums of pairs (x, y) for Pearson's correlation."""

    n: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    yy: float = 0.0
    xy: float = 0.0

    def add(self, x: np.ndarray, y: np.ndarray) -> None:
        """Add pairs of finite numbers, 1-D float64 of equal length."""
        self.n += len(x)
        self.x, self.y = self.x + float(x.sum()), self.y + float(y.sum())
        self.xx, self.yy = self.xx + float((x * x).sum()), self.yy + float((y * y).sum())
        self.xy += float((x * y).sum())

    @property
    def pearson(self) -> float | None:
        """Pearson's r; None with fewer than three pairs or if one variable is constant."""
        if self.n < 3:
            return None
        spread = [self.n * square - total**2 for square, total in ((self.xx, self.x), (self.yy, self.y))]
        if min(spread) <= 1e-12 * self.n * max(self.xx, self.yy, 1e-300):
            return None
        return float(np.clip((self.n * self.xy - self.x * self.y) / (spread[0] * spread[1]) ** 0.5, -1, 1))

"""The threshold above which scores predict that a label holds, chosen for the best F1."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Threshold(NamedTuple):
    """A threshold and the F1 that it gives.

    Attributes:
        value: a label is predicted where its score is at least this.
        f1: of the scores that it was chosen on, all pairs of item and label pooled.
    """

    value: float
    f1: float


def best_threshold(scores: ArrayLike, right: ArrayLike) -> Threshold | None:
    """Return the threshold with the highest F1 (micro average); None if no label is right.

    Use it for scores without a natural threshold, such as log-likelihoods (CAIRE, appendix B.1, which does not explain
    its choice). Choose the threshold on different items than F1 is reported for.

    Args:
        scores: float64[n], finite.
        right: bool[n], whether the label holds.

    The threshold is midway between two neighbouring scores, or the lowest score. If several thresholds have the same
    F1, the highest is returned.
    """
    values, holds = np.asarray(scores, np.float64), np.asarray(right, bool)
    if not holds.any():
        return None
    order = np.argsort(-values, kind="stable")
    values, true = values[order], np.cumsum(holds[order])
    f1 = 2 * true / (np.arange(1, len(values) + 1) + true[-1])
    ends = np.append(values[:-1] > values[1:], True)  # a threshold cannot divide equal scores
    best = int(np.flatnonzero(ends)[np.argmax(f1[ends])])
    below = values[best + 1] if best + 1 < len(values) else values[best]
    return Threshold(_between(values[best], below), float(f1[best]))


def f1_at(scores: ArrayLike, right: ArrayLike, threshold: float) -> float | None:
    """Return F1 (micro average) where a label is predicted if its score is at least `threshold`; None for 0 / 0.

    Args:
        scores: float64[n].
        right: bool[n], whether the label holds.
    """
    predicted, holds = np.asarray(scores, np.float64) >= threshold, np.asarray(right, bool)
    denominator = int(predicted.sum() + holds.sum())
    return 2 * int((predicted & holds).sum()) / denominator if denominator else None


def _between(above: NDArray[np.float64] | float, below: NDArray[np.float64] | float) -> float:
    middle = (float(above) + float(below)) / 2
    return middle if middle > below else float(above)  # neighbouring floats have no number between them

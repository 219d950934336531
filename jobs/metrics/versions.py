"""One rater asked the same questions in several ways: layouts of a prompt, or scored answers and JSON.

A version is a method and an order of the prompt. The versions of a rater are compared as several raters would be.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from jobs.metrics import agreement, model_scores, reliability
from jobs.metrics.answers import RatingTable
from jobs.metrics.metric import Metric, undefined
from jobs.metrics.model_scores import RaterGroup

MOST = 6  # versions of one rater
_COMPARED = "Agreement of the versions in which one rater was asked."


def version_metrics(
    answers: RatingTable, *, tolerance: float = 1, thresholds: Sequence[float] = ()
) -> Iterator[Metric]:
    """Yield agreement, correlations and ICC of one rater's versions, and each version's mean and shares.

    Use them to see how much the way of asking changes the answers: whether ratings parsed from one JSON answer
    (Century, appendices I and S) can replace scored ones, and whether the order of the prompt matters.

    Args:
        answers: the ratings of one rater; `answers.raters` are its versions.
        tolerance: in points of the scale, for `percent_agreement_within`.
        thresholds: of `share_at_least`.

    Undefined: only one version has answers, or no item has answers in two; more than 6 versions.
    """
    answered = [answers.raters[code] for code in np.unique(answers.rater)]
    if len(answered) < 2:
        reason = f"only the version {answered[0]!r} has answers" if answered else "no version has answers"
        yield undefined("percent_agreement", _COMPARED, reason, coverage=answers.coverage)
        return
    if len(answers.raters) > MOST:
        yield undefined("percent_agreement", _COMPARED, f"{len(answers.raters)} versions: more than {MOST}")
        return
    yield from agreement.agreement(answers, tolerance=tolerance, weights={}, pairs=True)
    if not answers.scored:
        return
    yield from reliability.icc(answers)
    yield from reliability.pairwise_correlations(answers)
    for version in answers.raters:
        group = RaterGroup(version, (version,))
        yield model_scores.mean_score(answers, group)
        for threshold in thresholds:
            yield model_scores.share_at_least(answers, group, threshold)

"""The distribution of answers in subgroups of items: by the model that wrote a response (Century, figure 11)."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import share
from jobs.metrics.metric import Metric, estimated, undefined

_SHARE = (
    "Ratings with this answer / the rater's or group's ok ratings of the items of the subgroup (Century, figure 11); "
    "n counts ratings."
)


def answer_shares(
    answers: RatingTable, raters: tuple[str, ...], parts: Mapping[str, NDArray[np.bool_]], *, group: str, attribute: str
) -> Iterator[Metric]:
    """Yield the share of each answer in each subgroup of items.

    Use it to see whether raters treat the subgroups differently, such as the responses of two models.

    Args:
        raters: counted together as `group`.
        parts: value of `attribute` -> bool[items].

    Undefined: none of them rated an item of the subgroup.
    """
    chosen = answers.of_raters(raters)
    for part, members in parts.items():
        inside = members[chosen.item] & (chosen.value >= 0)
        counts = np.bincount(chosen.value[inside], minlength=len(chosen.values))
        n, asked = int(counts.sum()), int(members.sum()) * len(chosen.raters)
        coverage = n / asked if asked else None
        dims = {"group": group, "attribute": attribute, "part": part}
        units = chosen.units.of(chosen.item[inside])
        for code, (value, count) in enumerate(zip(chosen.values, counts.tolist(), strict=True)):
            of_answer = {**dims, "answer": value}
            if n:
                interval = share(chosen.value[inside] == code, units)
                yield estimated(
                    "answer_share", _SHARE, count / n, n, coverage=coverage, interval=interval, dims=of_answer
                )
            else:
                reason = f"no ok rating of {group} in this subgroup"
                yield undefined(
                    "answer_share", _SHARE, reason, coverage=coverage, status="missing_input", dims=of_answer
                )

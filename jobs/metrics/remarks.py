"""The share of items that people wrote about in free-text fields."""

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.intervals import Units, share
from jobs.metrics.metric import Metric, estimated, undefined

_SHARE = (
    "Items about which a person wrote in the field / items that a person rated with the rubric (Century, appendix U: "
    "factual errors); n counts items."
)


def remark_share(written: NDArray[np.bool_], rated: NDArray[np.bool_], units: Units | None = None) -> Metric:
    """Return the share of rated items about which at least one person wrote something.

    Use it where noticing is voluntary, such as factual errors: the share is a lower bound.

    Args:
        written: bool[items], whether a person wrote in the field; items that nobody rated are ignored.
        rated: bool[items], whether a person rated the item.
        units: of the items; None: each item is one.

    Undefined: no item is rated.
    """
    n = int(rated.sum())
    if not n:
        return undefined("remark_share", _SHARE, "no item has a rating of a person", status="missing_input")
    interval = share(written[rated], units and units.of(rated))
    return estimated("remark_share", _SHARE, written[rated].mean(), n, coverage=n / len(rated), interval=interval)

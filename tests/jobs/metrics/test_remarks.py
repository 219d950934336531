"""The share of rated items about which people wrote."""

import numpy as np
import pytest

from jobs.metrics.intervals import proportion
from jobs.metrics.remarks import remark_share


def test_items_that_nobody_rated_do_not_count() -> None:
    written = np.array([True, True, False, False, True])
    rated = np.array([True, False, True, True, True])
    metric = remark_share(written, rated)
    assert (metric.value, metric.n, metric.coverage) == (0.5, 4, 0.8)
    interval = proportion(2, 4)
    assert interval is not None
    assert (metric.low, metric.high) == pytest.approx((interval.low, interval.high))


def test_without_rated_items_there_is_no_share() -> None:
    metric = remark_share(np.array([True]), np.array([False]))
    assert (metric.value, metric.status) == (None, "missing_input")
    assert remark_share(np.array([False]), np.array([True])).value == 0

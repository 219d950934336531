"""Intervals of pictures with three responses that are alike contain the true value in 95 % of draws."""

import pytest

from tests.interval_coverage import coverage, true_values

DRAWS = 200


@pytest.mark.long
@pytest.mark.parametrize(("rho", "pictures"), [(0.6, 60), (0.0, 20)])
def test_intervals_hold_what_they_promise(rho: float, pictures: int) -> None:
    """Of 200 draws, 95 % have a standard error of 1.5 %. Wilson's interval of as many responses would contain a share
    of 0.4 in 83 % at a correlation of 0.6, and Newcombe's interval of a difference in more than 99 %."""
    truth = true_values(rho)
    contained = coverage(DRAWS, pictures, rho, truth)
    assert {name: round(share, 3) for name, share in contained.items() if not share >= 0.895} == {}
    too_wide = {name: share for name, share in contained.items() if name.startswith("difference") and share > 0.99}
    assert too_wide == {}

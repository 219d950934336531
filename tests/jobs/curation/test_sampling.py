"""Draws within groups."""

import numpy as np

from jobs.curation.sampling import smallest_by_group
from jobs.runtime.selection.draws import draw_keys


def test_each_group_has_its_own_draw() -> None:
    keys = draw_keys([f"{n:032x}" for n in range(200)], purpose="starter", seed=0)
    group = np.array([n % 3 if n < 150 else 3 + n % 40 for n in range(200)])
    chosen = smallest_by_group(keys, group, 6)
    for number in np.unique(group):
        members = group == number
        assert chosen[members].sum() == min(6, members.sum())
        assert set(keys[chosen & members]) == set(np.sort(keys[members])[:6])
    assert smallest_by_group(keys[:0], group[:0], 6).tolist() == []

"""Lots depend on the id, the purpose and the seed, and on nothing else."""

import random

import numpy as np

from jobs.curation.sampling import drawn, drawn_by_group, lots

IDS = [f"{n:032x}" for n in range(200)]


def test_a_lot_is_the_ids_own() -> None:
    lot = dict(zip(IDS, lots(IDS, purpose="size", seed=1).tolist(), strict=True))
    shuffled = random.Random(0).sample(IDS, 50)
    assert lots(shuffled, purpose="size", seed=1).tolist() == [lot[i] for i in shuffled]
    assert lots([], purpose="size", seed=1).tolist() == []


def test_lots_stay_what_they_are_from_version_to_version() -> None:
    """Frozen: another value here is another set for everyone who names a seed."""
    assert lots(["0" * 32], purpose="size", seed=0).tolist() == [13289000014189159232]


def test_seeds_and_purposes_draw_apart() -> None:
    sets = [
        frozenset(np.flatnonzero(drawn(lots(IDS, purpose=purpose, seed=seed), 50)))
        for purpose in ("size", "starter")
        for seed in (0, 1)
    ]
    assert len(set(sets)) == 4
    assert all(len(s) == 50 for s in sets)
    overlap = len(sets[0] & sets[2])
    assert overlap < 30, "12.5 are expected of two independent draws of 50 of 200"


def test_a_smaller_draw_is_part_of_a_larger_one() -> None:
    lot = lots(IDS, purpose="size", seed=7)
    assert not (drawn(lot, 10) & ~drawn(lot, 60)).any()
    assert drawn(lot, 0).sum() == 0
    assert drawn(lot, 500).all()


def test_each_group_has_its_own_draw() -> None:
    lot = lots(IDS, purpose="starter", seed=0)
    group = np.array([n % 3 if n < 150 else 3 + n % 40 for n in range(200)])
    chosen = drawn_by_group(lot, group, 6)
    for number in np.unique(group):
        mine = group == number
        assert chosen[mine].sum() == min(6, mine.sum())
        assert chosen[mine].tolist() == drawn(lot[mine], 6).tolist()
    assert drawn_by_group(lot[:0], group[:0], 6).tolist() == []

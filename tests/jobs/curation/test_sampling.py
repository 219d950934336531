"""Lots depend on the id, the purpose and the seed, and on nothing else."""

import random

import numpy as np

from jobs.curation.sampling import sampling_keys, smallest, smallest_by_group

IDS = [f"{n:032x}" for n in range(200)]


def test_a_lot_is_the_ids_own() -> None:
    lot = dict(zip(IDS, sampling_keys(IDS, purpose="size", seed=1).tolist(), strict=True))
    shuffled = random.Random(0).sample(IDS, 50)
    assert sampling_keys(shuffled, purpose="size", seed=1).tolist() == [lot[i] for i in shuffled]
    assert sampling_keys([], purpose="size", seed=1).tolist() == []


def test_draws_do_not_change_between_versions() -> None:
    """Frozen: another value here is another set for everyone who names a seed."""
    assert sampling_keys(["0" * 32], purpose="size", seed=0).tolist() == [13289000014189159232]


def test_seeds_and_purposes_draw_apart() -> None:
    sets = [
        frozenset(np.flatnonzero(smallest(sampling_keys(IDS, purpose=purpose, seed=seed), 50)))
        for purpose in ("size", "starter")
        for seed in (0, 1)
    ]
    assert len(set(sets)) == 4
    assert all(len(s) == 50 for s in sets)
    overlap = len(sets[0] & sets[2])
    assert overlap < 30, "12.5 are expected of two independent draws of 50 of 200"


def test_a_smaller_draw_is_part_of_a_larger_one() -> None:
    lot = sampling_keys(IDS, purpose="size", seed=7)
    assert not (smallest(lot, 10) & ~smallest(lot, 60)).any()
    assert smallest(lot, 0).sum() == 0
    assert smallest(lot, 500).all()


def test_each_group_has_its_own_draw() -> None:
    lot = sampling_keys(IDS, purpose="starter", seed=0)
    group = np.array([n % 3 if n < 150 else 3 + n % 40 for n in range(200)])
    chosen = smallest_by_group(lot, group, 6)
    for number in np.unique(group):
        mine = group == number
        assert chosen[mine].sum() == min(6, mine.sum())
        assert chosen[mine].tolist() == smallest(lot[mine], 6).tolist()
    assert smallest_by_group(lot[:0], group[:0], 6).tolist() == []

"""Draws within groups, for the starter set: few pictures of each sub-region."""

import numpy as np


def smallest_by_group(keys: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
    """Return bool [keys]: whether each key is among the `size` smallest of its group."""
    order = np.lexsort((keys, group))
    grouped = group[order]
    start = np.ones(len(order), bool)
    start[1:] = grouped[1:] != grouped[:-1]
    begins = np.maximum.accumulate(np.where(start, np.arange(len(order)), 0))
    is_drawn = np.zeros(len(keys), bool)
    is_drawn[order] = np.arange(len(order)) - begins < size
    return is_drawn

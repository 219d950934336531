"""Random draws by a keyed hash of each id, so that neither the order of the ids nor other ids change a draw."""

import hashlib
from collections.abc import Iterable

import numpy as np


def sampling_keys(ids: Iterable[str], *, purpose: str, seed: int) -> np.ndarray:
    """Return uint64 [ids]: the first 64 bits of BLAKE2b over purpose, seed and id; the smallest keys are drawn.

    Two draws of one run have different `purpose`s, which makes them independent.
    """
    salt = f"{purpose}\0{seed}\0".encode()
    digests = b"".join(hashlib.blake2b(salt + i.encode("utf-8", "surrogatepass"), digest_size=8).digest() for i in ids)
    return np.frombuffer(digests, ">u8").astype(np.uint64)


def smallest(keys: np.ndarray, size: int) -> np.ndarray:
    """Return bool [keys]: the `size` smallest; of equal keys (a chance of 2**-64 per pair) the first."""
    is_drawn = np.zeros(len(keys), bool)
    is_drawn[np.argsort(keys, kind="stable")[:size]] = True
    return is_drawn


def smallest_by_group(keys: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
    """Return bool [keys]: the `size` smallest of each group."""
    order = np.lexsort((keys, group))
    grouped = group[order]
    start = np.ones(len(order), bool)
    start[1:] = grouped[1:] != grouped[:-1]
    begins = np.maximum.accumulate(np.where(start, np.arange(len(order)), 0))
    is_drawn = np.zeros(len(keys), bool)
    is_drawn[order] = np.arange(len(order)) - begins < size
    return is_drawn

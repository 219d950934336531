"""Drawing by lot: a keyed hash of each id, so that neither order nor company of the ids changes a draw."""

import hashlib
from collections.abc import Iterable

import numpy as np


def lots(ids: Iterable[str], *, purpose: str, seed: int) -> np.ndarray:
    """uint64 [ids]: each id's lot, the first 64 bits of BLAKE2b over purpose, seed and id; the smallest are drawn.

    `purpose` keeps two draws of one run apart: a picture that one of them favours is any picture to the other.
    """
    salt = f"{purpose}\0{seed}\0".encode()
    digests = b"".join(hashlib.blake2b(salt + i.encode("utf-8", "surrogatepass"), digest_size=8).digest() for i in ids)
    return np.frombuffer(digests, ">u8").astype(np.uint64)


def drawn(lot: np.ndarray, size: int) -> np.ndarray:
    """bool [lots]: the `size` smallest. Equal lots (one chance in 2**64 a pair) go by place."""
    chosen = np.zeros(len(lot), bool)
    chosen[np.argsort(lot, kind="stable")[:size]] = True
    return chosen


def drawn_by_group(lot: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
    """bool [lots]: the `size` smallest of each group."""
    order = np.lexsort((lot, group))
    grouped = group[order]
    start = np.ones(len(order), bool)
    start[1:] = grouped[1:] != grouped[:-1]
    begins = np.maximum.accumulate(np.where(start, np.arange(len(order)), 0))
    chosen = np.zeros(len(lot), bool)
    chosen[order] = np.arange(len(order)) - begins < size
    return chosen

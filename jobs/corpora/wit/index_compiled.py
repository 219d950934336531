"""The index of a buffer of WIT by the extension module `_remine_byte_index`, if the installation could build it.

It finds in one pass what takes `index_numpy` several. The module's name is outside `jobs` because a job submitted with
`--working-dir` imports `jobs` from the uploaded folder, but the module from the workers' environment.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from jobs.corpora.wit.index_numpy import Bytes, Index

INTERFACE = 1  # interface version of byte_index.c; an installed module with another version is not used
Scan = Callable[[Any, int, int, int, int, bytes | None, Any, Any], tuple[int, int, int, int, int] | int]


def installed_scan() -> Scan | None:
    """Return `scan` of the extension module; None if it is not installed or has another interface."""
    try:
        import _remine_byte_index
    except ImportError:
        return None
    return _remine_byte_index.scan if _remine_byte_index.INTERFACE == INTERFACE else None


SCAN = installed_scan()


class CompiledIndex:
    """Does the same as `index_numpy.NumpyIndex` in compiled code: same buffer, same results.

    Args:
        scan: function of the extension module.
        around: uint8, the buffer with a line feed before it and one spare byte after it.
    """

    def __init__(self, scan: Scan, around: Bytes) -> None:
        self._scan, self._around = scan, around
        self._titles = np.empty(len(around) + 1, np.uint8)  # a title and its NUL take no more than its row
        self._view = self._titles.data
        self._picks = np.empty((0, 4), np.int64)

    def __call__(self, have: int, width: int, at_language: int, at_title: int, wanted: bytes | None) -> Index | int:
        """Return the index of the first `have` bytes, which begin with a row, or the fault in them."""
        if not len(self._picks):
            # a row has at least one byte per column; pages that are never written to are never allocated
            self._picks = np.empty((len(self._around) // width + 1, 4), np.int64)
        result = self._scan(self._around, have, width, at_language, at_title, wanted, self._picks, self._titles)
        if isinstance(result, int):
            return result
        rows, picked, end, copied, quoted = result
        return Index(rows, end, self._picks[:picked], None if quoted else self._view[:copied])

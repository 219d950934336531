"""Repetition of reads that a store refused for a moment or answered with other bytes, which pyarrow does not repeat.

The AWS SDK writes an answer into a buffer of the size of the range that pyarrow requests. If the text of an error
(SlowDown, InternalError, ExpiredToken) is longer than the range, it does not fit, and the SDK reports a failure of the
buffer, which it does not repeat. Small files, footers and column chunks are shorter than such a text.

Bytes may also be lost or changed on the way. What a read finds damaged is therefore read again before it counts as
damaged; a damaged object on S3 costs `ATTEMPTS` reads.
"""

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from jobs.store.files import faults, s3

ATTEMPTS = 6
_HIDDEN = "Failed to flush response stream"
Result = TypeVar("Result")


def repeated(uri: str, read: Callable[[], Result], *, also_damage: bool = False) -> Result:
    """Return the result of `read`, which reads `uri` and may be called several times.

    Args:
        also_damage: whether `read` checks what it reads, so that it is repeated on S3 if that is damaged.

    Raises:
        OSError: the store's answer.
        pa.ArrowException, UnicodeDecodeError, OSError: the object is damaged.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return read()
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            is_hidden = _HIDDEN in str(error)
            may_pass = is_hidden or (also_damage and uri.startswith("s3://") and faults.is_damage(error))
            if not may_pass or attempt == ATTEMPTS:
                raise
        if is_hidden:
            s3.wait_for(uri)
    raise AssertionError("unreachable")

"""Repetition of reads that a store refused for a moment and that pyarrow did not repeat.

The AWS SDK writes an answer into a buffer of the size of the range that pyarrow requests. If the text of an error
(SlowDown, InternalError, ExpiredToken) is longer than the range, it does not fit, and the SDK reports a failure of the
buffer, which it does not repeat. Small files, footers and column chunks are shorter than such a text.
"""

import io
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from jobs.store.files import s3

ATTEMPTS = 6
_HIDDEN = "Failed to flush response stream"
Result = TypeVar("Result")


def repeated(uri: str, read: Callable[[], Result]) -> Result:
    """Return the result of `read`, which reads `uri` and may be called several times.

    Raises:
        OSError: the store's answer.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return read()
        except OSError as error:
            if _HIDDEN not in str(error) or attempt == ATTEMPTS:
                raise
        s3.wait_for(uri)
    raise AssertionError("unreachable")


class RepeatedReads(io.RawIOBase):
    """The bytes of pyarrow's `stream` of `uri`, for Python's readers."""

    def __init__(self, uri: str, stream: Any) -> None:
        self._uri, self._stream = uri, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data: bytes = repeated(self._uri, partial(self._stream.read, len(buffer)))  # a failed read does not advance
        buffer[: len(data)] = data
        return len(data)

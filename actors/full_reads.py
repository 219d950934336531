"""Reads of files through pyarrow that notice an answer of a store which is shorter than what was requested.

pyarrow hands the memory for an answer to the AWS SDK and does not count what the SDK wrote there: after half a body,
the rest of the memory is what it was before. Its last byte shows whether it was filled: a read that leaves it as it was
is repeated with another value there.
"""

from typing import Any

ATTEMPTS = 6
_SIGNS = (0xA5, 0x5A)  # the last byte before a read, which one of two reads must change


class ShortReadError(OSError):
    """A file or object has fewer bytes than requested, or the store sent fewer."""


def read_full(file: Any, size: int, first: int = 0) -> bytes:
    """Return `size` bytes of pyarrow's `file` from byte `first`, read again if the store sends fewer.

    Raises:
        ShortReadError: there are fewer bytes, or the store sent fewer in each of `ATTEMPTS` answers.
    """
    buffer = bytearray(size)
    for attempt in range(ATTEMPTS if size else 0):
        sign = buffer[-1] = _SIGNS[attempt % len(_SIGNS)]
        file.seek(first)
        count = file.readinto(buffer)
        if count < size:
            raise ShortReadError(f"changed while it was read: {count:,} of {size:,} bytes from byte {first:,}")
        if buffer[-1] != sign:
            return bytes(buffer)
    if not size:
        return b""
    raise ShortReadError(f"the store sent fewer than the {size:,} bytes from byte {first:,} that were requested")

"""Reads of files through pyarrow that notice an answer of a store which is shorter than what was requested.

pyarrow hands the memory for an answer to the AWS SDK and does not count what the SDK wrote there: after half a body,
the rest of the memory is what it was before. Its last byte shows whether it was filled: a read that leaves it as it was
is repeated with another value there.
"""

import hashlib
import re
from typing import Any

ATTEMPTS = 6
_SIGNS = (0xA5, 0x5A)  # the last byte before a read, which one of two reads must change
_MD5 = re.compile(r"[0-9a-f]{32}")


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


def read_whole(file: Any) -> bytes:
    """Return the content of pyarrow's `file`, which is that of its ETag, if it has one that is an MD5 sum.

    Raises:
        ShortReadError: as `read_full`, or each read returned other bytes.
    """
    etag, data = etag_in(file), read_full(file, file.size())
    for _ in range(ATTEMPTS if is_md5(etag) else 0):
        if hashlib.md5(data, usedforsecurity=False).hexdigest() == etag:
            return data
        before, data = data, read_full(file, file.size())
        if data == before:  # an ETag that only looks like an MD5 sum
            return data
    if is_md5(etag):
        raise ShortReadError("each read returned other bytes")
    return data


def etag_in(file: Any) -> str:
    """Return the ETag of pyarrow's open `file`; empty for a local one."""
    return str((file.metadata() or {}).get("ETag", b"").decode().strip('"'))


def is_md5(etag: str) -> bool:
    """Return whether an ETag has the form of an MD5 sum."""
    return _MD5.fullmatch(etag) is not None

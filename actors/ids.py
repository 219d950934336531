"""Ids made from content, never from positions: the first 128 bits of its SHA-256, in hexadecimal."""

import hashlib
import re

ID = re.compile(r"[0-9a-f]{32}")  # the form of `content_id`


def content_id(*parts: str) -> str:
    """Return the id of a sequence of strings; parts are length-prefixed, so ("a", "bc") and ("ab", "c") differ."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:32]

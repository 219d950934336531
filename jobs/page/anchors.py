"""Ids of places on the page, derived only from what they point to."""

import hashlib
import re


def anchor(*parts: str) -> str:
    """Return an id for a place: readable words of the last part, and a hash of all parts."""
    words = re.sub(r"[^a-z0-9]+", "-", parts[-1].lower())[:40].strip("-")
    digest = hashlib.sha256("\x1f".join(parts).encode(errors="replace")).hexdigest()[:8]
    return "-".join(filter(None, (words, digest))) if words[:1].isalpha() else f"at-{digest}"

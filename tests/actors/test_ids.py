"""Ids are hashes of lengths and texts, which no version may change: tables of earlier runs have them."""

import hashlib

from actors.ids import ID, content_id


def test_ids_are_hashes_of_lengths_and_bytes() -> None:
    parts = {("a", "bc"): b"\1a" + bytes(7) + b"\2bc", ("é" * 128,): None, ("",): b"\0", ("\udcff",): b"\3\xed\xb3\xbf"}
    long = bytes(6) + b"\1\0" + "é".encode() * 128  # 256 bytes
    expected = {part: long if raw is None else bytes(7) + raw for part, raw in parts.items()}
    assert {part: content_id(*part) for part in parts} == {
        part: hashlib.sha256(raw).hexdigest()[:32] for part, raw in expected.items()
    }
    assert len({content_id(*part) for part in (("a", "bc"), ("ab", "c"), ("abc",), ("abc", ""), ())}) == 5
    assert ID.fullmatch(content_id("a"))
    assert not ID.fullmatch(content_id("a")[:31])

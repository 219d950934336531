"""Ids of places on the page."""

from hashlib import sha256

from jobs.page.anchors import anchor


def test_an_anchor_has_the_words_of_the_last_part_and_a_hash_of_all() -> None:
    digest = sha256(b"figure\x1fCr\xc3\xa8me  Br\xc3\xbbl\xc3\xa9e, 2nd!").hexdigest()[:8]
    assert anchor("figure", "Crème  Brûlée, 2nd!") == f"cr-me-br-l-e-2nd-{digest}"
    long = anchor("x" * 39 + " yz").rpartition("-")
    assert (long[0], len(long[2])) == ("x" * 39, 8)
    assert anchor("x" * 45).rpartition("-")[0] == "x" * 40
    assert anchor("A 1").startswith("a-1-")
    assert anchor("a", "b") != anchor("b") != anchor("ab")
    for without in ("2nd", "?!", "", "Ω"):  # an id begins with a letter
        assert anchor(without) == f"at-{sha256(without.encode()).hexdigest()[:8]}"
    assert anchor("a\ud800").startswith("a-")

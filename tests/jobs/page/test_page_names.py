"""Names of raters and answers that fit the axes of plots."""

from hashlib import sha256

from jobs.page.page_names import LONGEST, anchor, rater_hues, rater_letters, short_names, shortened, unique


def test_a_name_is_cut_unless_two_would_be_the_same() -> None:
    long = "org/" + "m" * LONGEST
    names = ["org/a@1", "b", "c/", "@2", f"{long}x@1", f"{long}y@1", "lab/" + "n" * (LONGEST + 1)]
    assert short_names([*names, "b"]) == {
        "org/a@1": "a", "b": "b", "c/": "c/", "@2": "@2", f"{long}x@1": f"{long}x@1", f"{long}y@1": f"{long}y@1",
        names[-1]: "n" * (LONGEST - 1) + "…",
    }  # fmt: skip
    assert [short_names([name]) for name in ("c/", "@2")] == [{"c/": "c/"}, {"@2": "@2"}]
    assert short_names(["lab/a@1", "org/a@1", "org/b"]) == {"lab/a@1": "lab/a@1", "org/a@1": "org/a@1", "org/b": "b"}


def test_letters_are_those_of_names_then_of_further_ones() -> None:
    assert list(rater_letters("ba", "dcab").items()) == [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")]
    letters = list(rater_letters(f"{number:04}" for number in range(26 * 27 + 1)).values())
    assert (letters[25:27], letters[51:53], letters[-2:]) == (["Z", "AA"], ["AZ", "BA"], ["ZZ", "AAA"])


def test_hues_are_far_apart() -> None:
    assert rater_hues("abcd") == {"a": "0", "b": "138", "c": "275", "d": "52"}


def test_texts_are_cut_to_their_length() -> None:
    assert [shortened("x" * n) for n in (LONGEST, LONGEST + 1)] == ["x" * LONGEST, "x" * (LONGEST - 1) + "…"]
    assert (shortened("a$b"), shortened("abc", 2), shortened("ab", 2)) == ("a$b", "a…", "ab")


def test_the_second_of_two_equal_labels_is_numbered() -> None:
    texts = ["x" * 30, "y", "x" * 31]
    assert list(unique(texts).values()) == ["x" * 27 + "…", "y", "x" * 23 + "… 3"]


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

"""Hashes of texts are the same for each form of the texts, and in every run."""

import numpy as np
import pyarrow as pa

from jobs.store.hashing import hash_texts, hash_texts_128, joined_columns

TEXTS = ["a", "b", "", "é/戦争"]


def test_each_form_of_the_texts_has_the_same_hashes() -> None:
    expected = hash_texts(TEXTS)
    array = pa.array(TEXTS)
    for texts in (array, pa.chunked_array([array]), array.dictionary_encode(), pa.array(["a", "b", None, "é/戦争"])):
        assert hash_texts(texts).tolist() == expected.tolist()
    assert expected[0] == 13950350942979735504  # SipHash under the key of `WORD_KEYS`: the same in each run
    assert len(set(expected.tolist())) == len(TEXTS)


def test_128_bits_are_two_independent_words() -> None:
    both = hash_texts_128(TEXTS)
    assert both.shape == (4, 2)
    assert both[:, 0].tolist() == hash_texts(TEXTS).tolist()
    assert not np.intersect1d(both[:, 0], both[:, 1]).size


def test_columns_are_joined_so_that_no_two_rows_look_alike() -> None:
    rows = pa.table({"a": ["x", "xy", None], "b": ["yz", "z", "xyz"]})
    assert joined_columns(rows, ["a", "b"]).to_pylist() == ["x\x1fyz", "xy\x1fz", "\x1fxyz"]
    assert joined_columns(rows, ["b", "a"]).to_pylist()[2] == "xyz\x1f"
    assert joined_columns(pa.table({"n": [1, None]}), ["n"]).to_pylist() == ["1", ""]

"""BLEU, ROUGE-L and CIDEr of pairs whose values follow by hand."""

import math

import numpy as np
import pytest

from jobs.metrics.text_overlap import MEASURES, bleu, cider, rouge_l

for package in ("sacrebleu", "rouge_score", "pycocoevalcap"):
    pytest.importorskip(package, reason="needs the extra overlap")


def test_equal_texts_have_the_highest_value_and_others_the_lowest() -> None:
    texts = ["a brown dog on a beach", "four women in a garden"]
    assert bleu(texts, texts) == pytest.approx([1, 1])
    assert rouge_l(texts, texts) == pytest.approx([1, 1])
    assert cider(texts, texts) == pytest.approx([10, 10])
    for name, measure in MEASURES.items():
        assert measure(["x y z"] * 2, texts) == pytest.approx([0, 0], abs=1e-9), name


def test_by_hand() -> None:
    # 5 of 6 words, 3 of 5 bigrams (an otter is replaced), 2 of 4 trigrams, 1 of 3 quadrigrams
    generated, correct = ["a brown otter on a beach"], ["a brown dog on a beach"]
    assert bleu(generated, correct) == pytest.approx([(5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** (1 / 4)], abs=0.01)
    assert bleu(["A Brown DOG on a beach"], correct) == pytest.approx([1])
    assert bleu(["a brown"], ["a brown"]) == pytest.approx([1])  # without longer n-grams
    assert cider(["A Dog!", "cat"], ["a dog", "cat"])[0] == cider(["a dog", "cat"], ["a dog", "cat"])[0]
    # longest common subsequence: 5 of 6 words on both sides
    assert rouge_l(generated, correct) == pytest.approx([5 / 6])
    assert rouge_l(["painted horses"], ["painting a horse"]) == pytest.approx([4 / 5])  # words are stemmed


def test_cider_needs_two_references() -> None:
    assert np.isnan(cider(["a dog"], ["a dog"])).all()
    # Unigrams only: idf of dog and cat is log 2; the cosine of dog with dog is 1, of the other n-grams 0.
    assert cider(["dog", "cow"], ["dog", "cat"]) == pytest.approx([10 / 4, 0])
    assert math.isfinite(cider(["a", "b"], ["a", "b"]).sum())

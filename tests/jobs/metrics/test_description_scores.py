"""Scores of descriptions, by hand."""

import math

import numpy as np
import pytest

from jobs.metrics.description_scores import (
    OVERLAPS,
    Descriptions,
    bleu,
    category_counts,
    cider,
    correlations_with_people,
    description_scores,
    rouge_l,
    token_share,
    with_derived,
)

NAN = float("nan")
# Three pictures with two descriptions each, by the models a and b.
DESCRIBED = Descriptions(np.array([0, 0, 1, 1, 2, 2]), ["a", "b"] * 3)
VALUES = with_derived({
    "mistakes": np.array([1, 0, 2, 0, NAN, 1.0]),
    "mistake_share": np.array([0.2, 0, 0.4, 0, NAN, 0.3]),
    "omissions": np.array([0, 1, 0, 2, 1, 1.0]),
    "omission_share": np.array([0, 0.1, 0, 0.5, 0.1, 0.2]),
})  # fmt: skip


def test_share_of_tokens() -> None:
    assert token_share([(2, 7)], "A black dog.") == 1 / 4  # A black dog .
    assert token_share([(2, 7), (4, 9)], "A black dog.") == 2 / 4
    assert token_share([], "A black dog.") == 0
    assert np.isnan(token_share([], " "))


def test_precision_coverage_and_quality_follow_from_the_shares() -> None:
    shares = {"mistake_share": np.array([0.25, NAN]), "omission_share": np.array([0.5, 0.5])}
    derived = with_derived(shares)
    assert {name: values[0] for name, values in derived.items()} == {
        "mistake_share": 0.25, "omission_share": 0.5, "precision": 0.75, "coverage": 0.5, "quality": 0.625
    }  # fmt: skip
    assert np.isnan(derived["quality"][1])


def test_means_of_all_and_of_each_writer() -> None:
    metrics = {(m.name, m.dims.get("model", "")): m for m in description_scores(VALUES, DESCRIBED)}
    assert metrics["description_mistakes", ""].value == pytest.approx(4 / 5)
    assert (metrics["description_mistakes", ""].n, metrics["description_mistakes", ""].coverage) == (5, 5 / 6)
    assert metrics["description_mistakes", "a"].value == 1.5
    assert metrics["description_precision", "b"].value == pytest.approx(1 - 0.1)
    assert metrics["description_coverage", "b"].value == pytest.approx(1 - 0.8 / 3)
    assert metrics["description_mistakes", ""].reason == "no interval: fewer than 5 pictures (3)"


def test_writers_are_in_alphabetical_order_and_those_without_a_name_count_in_all() -> None:
    writers = ["", *(f"w{number}" for number in range(9, 0, -1))]
    described = Descriptions(np.arange(10), writers)
    values = with_derived({name: np.ones(10) for name in ("mistakes", "mistake_share", "omissions", "omission_share")})
    metrics = [metric for metric in description_scores(values, described) if metric.name == "description_mistakes"]
    assert [metric.dims.get("model", "") for metric in metrics] == sorted(writers)
    assert [metric.n for metric in metrics] == [10, *[1] * 9]
    kinds = list(category_counts({"b": np.ones(10), "a": np.ones(10)}, described))
    assert [metric.dims.get("model", "") for metric in kinds] == sorted(writers) * 2


def test_an_interval_draws_pictures_not_descriptions() -> None:
    # Four equal descriptions of each of 8 pictures: as many as 8 values, not 32.
    counts = np.array([0, 1, 0, 3, 2, 1, 0, 1.0])
    shares = counts / 10
    values = {"mistakes": counts, "mistake_share": shares, "omissions": counts, "omission_share": shares}
    one, four = (
        next(
            iter(
                description_scores(
                    with_derived({name: np.repeat(v, k) for name, v in values.items()}),
                    Descriptions(np.repeat(np.arange(8), k), [""] * 8 * k),
                )
            )
        )
        for k in (1, 4)
    )
    assert one.value == four.value == 1
    assert (one.low, one.high) == (four.low, four.high)
    assert one.low is not None


def test_without_texts_shares_are_undefined() -> None:
    unknown = np.full(6, NAN)
    values = with_derived({**VALUES, "mistake_share": unknown, "omission_share": unknown})
    metrics = {m.name: m for m in description_scores(values, DESCRIBED, has_texts=False) if not m.dims}
    assert metrics["description_precision"].value is None
    assert "texts=" in str(metrics["description_precision"].reason)
    assert metrics["description_mistakes"].value == pytest.approx(4 / 5)
    with_texts = {m.name: m for m in description_scores(values, DESCRIBED) if not m.dims}
    assert with_texts["description_precision"].reason == "no description has the score"
    assert with_texts["description_precision"].coverage == 0
    by_writer = [m.dims for m in description_scores(values, DESCRIBED) if m.name == "description_precision"]
    assert by_writer == [{}, {"model": "a"}, {"model": "b"}]


def test_kinds_of_mistakes() -> None:
    counts = {"noun": np.array([1, 0, 1, 0, NAN, 0.0]), "descriptor": np.array([0, 0, 1, 0, NAN, 1.0])}
    metrics = {(m.dims["category"], m.dims.get("model", "")): m.value for m in category_counts(counts, DESCRIBED)}
    assert metrics["noun", ""] == pytest.approx(2 / 5)
    assert list(metrics) == [(kind, writer) for kind in ("descriptor", "noun") for writer in ("", "a", "b")]
    assert metrics["noun", "a"] == 1
    assert metrics["descriptor", "b"] == pytest.approx(1 / 3)


def test_correlations_with_people() -> None:
    x = np.array([1, 2, 3, 5, 4, NAN])
    people = {"precision": np.array([2, 4, 6, 80, 8, 1.0])}
    metrics = {m.name: m for m in correlations_with_people({"precision": x}, people, DESCRIBED.pictures, scorer="bleu")}
    assert metrics["description_pearson"].value == pytest.approx(np.corrcoef(x[:5], people["precision"][:5])[0, 1])
    assert metrics["description_spearman"].value == pytest.approx(1)
    assert (metrics["description_pearson"].n, metrics["description_pearson"].coverage) == (5, 5 / 6)
    assert "with people's mean precision; n counts" in metrics["description_pearson"].definition
    (quality, _) = correlations_with_people({"quality": x}, {"quality": x}, DESCRIBED.pictures, scorer="bleu")
    assert "mean quality (quality: the mean of precision and coverage); n" in quality.definition
    assert quality.definition.startswith("Pearson correlation over descriptions of bleu")
    assert quality.dims == {"score": "quality"}
    assert metrics["description_pearson"].reason == "no interval: fewer than 5 pictures (3)"
    equal = {"precision": np.ones(6)}
    for metric in correlations_with_people({"precision": x}, equal, DESCRIBED.pictures, scorer="bleu"):
        assert metric.reason == "no variance of one score"
        assert (metric.n, metric.coverage, metric.dims) == (5, 5 / 6, {"score": "precision"})
    three = {"precision": np.array([1, 2, 3, NAN, NAN, NAN])}
    for metric in correlations_with_people(three, people, DESCRIBED.pictures, scorer="bleu"):
        assert (metric.value, metric.n, metric.coverage) == (pytest.approx(1), 3, 3 / 6)
    few = {"precision": np.array([1, 2, NAN, NAN, NAN, NAN])}
    for metric in correlations_with_people(few, people, DESCRIBED.pictures, scorer="bleu"):
        assert str(metric.reason).startswith("fewer than 3 descriptions")
        assert (metric.n, metric.coverage, metric.dims) == (2, 2 / 6, {"score": "precision"})


for package in ("sacrebleu", "rouge_score", "pycocoevalcap"):
    pytest.importorskip(package, reason="needs the extra overlap")


def test_equal_texts_have_the_highest_value_and_others_the_lowest() -> None:
    texts = ["a brown dog on a beach", "four women in a garden"]
    assert bleu(texts, texts) == pytest.approx([1, 1])
    assert rouge_l(texts, texts) == pytest.approx([1, 1])
    assert cider(texts, texts) == pytest.approx([10, 10])
    for name, measure in OVERLAPS.items():
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

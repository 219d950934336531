"""The starter set's arithmetic: whose scores, whose labels, and what is counted rather than guessed."""

import random
import re
from typing import Any

import numpy as np
import pytest

from jobs.curation.record_arrays import HashIndex, unique_codes
from jobs.curation.starter import (
    MAX_LABELS,
    PictureRatings,
    StarterConfig,
    majority_label,
    question_counts,
    rated_above,
    read_ratings,
    region_labels,
)
from jobs.errors import InputError
from jobs.store.hashing import hash_texts_128
from tests.cases import check_cases
from tests.factories import TableInMemory, century_rating

ITEMS = ["a", "b", "c", "d", "e"]


def read(rows: list[dict[str, Any]], **keys: Any) -> tuple[PictureRatings, StarterConfig]:
    """Return the ratings of the pictures a to e, by place of ITEMS."""
    config = StarterConfig(**keys)
    config.check()
    import pyarrow as pa

    hashes, place = unique_codes(hash_texts_128(pa.chunked_array([ITEMS])))
    sources: Any = [TableInMemory("ratings", rows[::2]), TableInMemory("ratings", rows[1::2])]
    actual = read_ratings(sources, HashIndex(hashes), config)
    votes = tuple(v[place] for v in actual.votes)
    return PictureRatings(actual.total[place], actual.count[place], actual.labels, votes, actual.tally), config


def above(rows: list[dict[str, Any]], **keys: Any) -> tuple[list[str], list[str]]:
    """Return the pictures with a mean, and those whose mean is above the threshold."""
    ratings, config = read([*rows, century_rating("a", "sub_region", "Caribbean")], **keys)
    rated, high = rated_above(ratings, config)
    return [i for i, r in zip(ITEMS, rated, strict=True) if r], [
        i for i, h in zip(ITEMS, rated & high, strict=True) if h
    ]


def person(item: str, answer: object, rater: str = "p1") -> dict[str, Any]:
    return century_rating(item, "sensitive", answer, rater=rater, method="human")


def model(item: str, answer: object, rater: str = "m1") -> dict[str, Any]:
    return century_rating(item, "sensitive", answer, rater=rater)


SCORES = [
    *(person("a", 2, f"p{n}") for n in range(3)),  # people 2, model 5: pooled 11/4 = 2.75, mean of means 3.5
    model("a", 5),
    person("b", 3),
    model("b", 3),  # 3.0 exactly, which is not above 3.0
    person("c", 5),  # people only: no mean of means
    model("d", 4),
    model("d", None, "m2"),  # refused: counted, and the mean is 4, not less
    model("e", None),
]


def test_pooled_and_mean_of_means() -> None:
    assert above(SCORES) == (["a", "b", "c", "d"], ["c", "d"])
    assert above(SCORES, mean="of_means") == (["a", "b"], ["a"])
    models_only = [row for row in SCORES if row["method"] != "human"]
    assert above(models_only, mean="of_means") == (["a", "b", "d"], ["a", "d"])
    assert above(SCORES, above=2.75) == (["a", "b", "c", "d"], ["b", "c", "d"])
    assert above(SCORES, above=2.7)[1] == ["a", "b", "c", "d"]


def test_pictures_whose_raters_all_refused_have_no_mean() -> None:
    assert above([model("a", None), person("b", None)]) == ([], [])


def test_no_pictures_have_no_ratings() -> None:
    sources: Any = [TableInMemory("ratings", [model("a", 5), century_rating("a", "sub_region", "Caribbean")])]
    ratings = read_ratings(sources, HashIndex(np.empty((0, 2), np.uint64)), StarterConfig())
    assert question_counts(ratings.tally, "sensitive") == [("of other pictures", 1)]


def test_the_mean_of_means_weighs_each_kind_by_its_own_number_of_ratings() -> None:
    rows = [person("a", 2), *(model("a", score, f"m{n}") for n, score in enumerate((3, 3.5, 4)))]
    assert above(rows, mean="of_means") == (["a"], [])  # (2 + 3.5) / 2 = 2.75
    assert above(rows, mean="of_means", above=2.7) == (["a"], ["a"])
    assert above(rows, mean="of_means", above=2.75) == (["a"], [])


def test_means_do_not_depend_on_the_order_of_the_ratings() -> None:
    rng = random.Random(0)
    rows = [model(rng.choice(ITEMS), rng.choice([2.9, 3.0, 3.1, 3.3, 2.7]), f"m{n}") for n in range(400)]
    first, _ = read([*rows, century_rating("a", "sub_region", "x")])
    second, _ = read(rng.sample([*rows, century_rating("a", "sub_region", "x")], 401))
    assert np.array_equal(first.total, second.total)


def test_ratings_that_are_not_ok_or_of_other_pictures_are_counted() -> None:
    rows = [
        *SCORES,
        model("stranger", 5),
        century_rating("a", "sub_region", None),
        century_rating("a", "sub_region", "Caribbean"),
    ]
    ratings, _ = read(rows)
    assert question_counts(ratings.tally, "sensitive") == [("ok", 8), ("refused", 2), ("of other pictures", 1)]
    assert question_counts(ratings.tally, "sub_region") == [("ok", 1), ("refused", 1)]
    tally = {"q/refused": 1, "q/error": 1, "q/ok": 1, "q/of other pictures": 2, "q/blocked": 0, "qq/error": 9}
    assert question_counts(tally, "q") == [("ok", 1), ("of other pictures", 2), ("error", 1), ("refused", 1)]


def labels(rows: list[dict[str, Any]], **keys: Any) -> dict[str, str | int]:
    ratings, config = read([*rows, model("a", 3)], **keys)
    label, names = region_labels(ratings, config)
    assert names == (*sorted(names[:-1]), "no label")
    return {item: names[n] if n >= 0 else int(n) for item, n in zip(ITEMS, label, strict=True)}


def says(item: str, word: str | None, rater: str, *, human: bool = False) -> dict[str, Any]:
    return century_rating(item, "sub_region", word, rater=rater, method="human" if human else "closed")


VOTES = [
    says("a", "Polynesia", "m1"),
    says("a", "Polynesia", "m2"),
    says("a", "Caribbean", "p1", human=True),
    says("b", "Polynesia", "m1"),
    says("b", "Caribbean", "p1", human=True),
    says("b", "unsure", "p2", human=True),
    says("b", "Caribbean", "p3", human=True),
    says("c", "unsure", "p1", human=True),
    says("c", "Melanesia", "m1"),
    says("d", None, "m1"),
    says("e", "unsure", "m1"),
]


def test_whose_label_counts() -> None:
    cases = [
        ({}, {"a": "Polynesia", "b": "Caribbean", "c": "Melanesia", "d": -1, "e": -1}),
        ({"unsure": "region"}, {"a": "Polynesia", "b": -1, "c": -1, "d": -1, "e": "unsure"}),
        ({"unsure": "drop"}, {"a": "Polynesia", "b": -1, "c": -1, "d": -1, "e": -2}),
        (
            {"unsure": "region", "region_majority": "most"},
            {"a": "Polynesia", "b": "Caribbean", "c": -1, "d": -1, "e": "unsure"},
        ),
        (
            {"unlabelled": "region"},
            {"a": "Polynesia", "b": "Caribbean", "c": "Melanesia", "d": "no label", "e": "no label"},
        ),
        (
            {"unsure": "drop", "unlabelled": "region"},
            {"a": "Polynesia", "b": "no label", "c": "no label", "d": "no label", "e": -2},
        ),
        ({"region_by": ["people"]}, {"a": "Caribbean", "b": "Caribbean", "c": -1, "d": -1, "e": -1}),
        ({"region_by": ["models"]}, {"a": "Polynesia", "b": "Polynesia", "c": "Melanesia", "d": -1, "e": -1}),
        ({"region_by": ["people", "models"]}, {"a": "Caribbean", "b": "Caribbean", "c": "Melanesia", "d": -1, "e": -1}),
        ({"region_by": ["m2", "p3", "m1"]}, {"a": "Polynesia", "b": "Caribbean", "c": "Melanesia", "d": -1, "e": -1}),
    ]  # fmt: skip

    def check(keys: dict[str, Any], expected: dict[str, Any]) -> None:
        assert labels(VOTES, **keys) == expected
        assert labels(VOTES[::-1], **keys) == expected

    check_cases(check, cases)


def test_ratings_that_cannot_serve_are_refused_in_a_sentence() -> None:
    good = [model("a", 3), century_rating("a", "sub_region", "Caribbean")]
    with pytest.raises(
        InputError,
        match=r"starter\.question=shocking: no such question in these ratings; there are sensitive, sub_region$",
    ):
        read([*good, {**model("a", 3), "rubric": "mine", "question": "other"}], question="shocking")
    with pytest.raises(
        InputError, match=re.escape("starter.region_question=where: no such question in these ratings; there are")
    ):
        read(good, region_question="where")
    with pytest.raises(
        InputError, match=re.escape("starter.rubric=mine: no ratings by this rubric; there are century_labels")
    ):
        read(good, rubric="mine")
    with pytest.raises(
        InputError, match=re.escape("starter.rubric=century_labels: no ratings by this rubric; there are none")
    ):
        read([])
    with pytest.raises(
        InputError, match=re.escape("ratings: none of the 1 ratings of sensitive is about these pictures")
    ):
        read([model("x", 3), century_rating("x", "sub_region", "Caribbean")])
    with pytest.raises(InputError, match=re.escape("starter.question=sub_region: its answers have no score")):
        read(good, question="sub_region")
    with pytest.raises(InputError, match=r"starter\.region_by=gpt: .*sub_region .* there are m,"):
        read(good, region_by=["gpt"])
    regions = [century_rating("a", "sub_region", "Caribbean", rater=rater) for rater in "gbfdace"]
    with pytest.raises(InputError, match=r"there are a, b, c, d, e, f, g, and the groups people, models and everyone$"):
        read([model("a", 3), *regions], region_by=["gpt"])
    rubrics = [{**good[0], "rubric": name} for name in "gbfdace"]
    with pytest.raises(InputError, match=r"no ratings by this rubric; there are a, b, c, d, e, f, g$"):
        read(rubrics)
    questions = [{**good[0], "question": name} for name in "gbfdace"]
    with pytest.raises(InputError, match=r"no such question in these ratings; there are a, b, c, d, e, f, g$"):
        read(questions)
    with pytest.raises(InputError, match=r"starter\.region_by=people: .*sub_region"):
        read(good, region_by=["models", "people"])
    with pytest.raises(InputError, match=r"starter\.region_question=sub_region: more than 255"):
        read([model("a", 3), *(century_rating("a", "sub_region", f"r{n}", sample=n) for n in range(256))])


def test_as_many_labels_as_a_byte_distinguishes_are_read() -> None:
    rows = [century_rating("a", "sub_region", f"r{n}", sample=n) for n in range(MAX_LABELS)]
    again = [row | {"rater": "m2"} for row in rows]
    assert len(read([model("a", 3), *rows, *again])[0].labels) == MAX_LABELS


def test_another_rubrics_ratings_do_not_count_unless_asked_for() -> None:
    rows = [model("a", 5), {**model("b", 5), "rubric": "other"}, {**model("a", 1, "m9"), "rubric": "other"}]
    assert above(rows) == (["a"], ["a"])
    assert above(rows, rubric=None) == (["a", "b"], ["b"])


def test_values_that_are_not_allowed() -> None:
    cases = [
        ("mean", "median"),
        ("region_majority", "all"),
        ("unsure", "guess"),
        ("unlabelled", "keep"),
        ("per_region", 0),
        ("above", float("nan")),
    ]

    def check(key: str, value: Any) -> None:
        with pytest.raises(InputError, match=f"starter.{key}={value}: "):
            StarterConfig(**{key: value}).check()

    check_cases(check, cases)
    with pytest.raises(InputError, match=r"starter\.region_by=\[\]"):
        StarterConfig(region_by=[]).check()


def test_a_label_without_votes_has_no_majority() -> None:
    for majority in ("half", "most"):
        assert majority_label(np.array([[0], [2]]), majority).tolist() == [-1, 0]
        assert majority_label(np.array([[0, 0], [2, 1], [1, 1]]), majority).tolist() == [-1, 0, -1]
        assert majority_label(np.zeros((2, 0), np.int64), majority).tolist() == [-1, -1]
    assert [majority_label(np.array([[2, 1, 1]]), majority).tolist() for majority in ("half", "most")] == [[-1], [0]]

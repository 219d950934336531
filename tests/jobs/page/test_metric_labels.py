"""Labels of metrics: phrases of a metric's name and what it depends on."""

from jobs.metrics.kinds import kind_of
from jobs.metrics.metric import Metric
from jobs.page.metric_labels import label, rater_words
from jobs.page.model import letters_of
from jobs.page.short_names import rater_hues, rater_letters
from tests.cases import check_cases

EVERYTHING = (
    "metric", "rater", "rater_a", "rater_b", "group", "attribute", "part", "first", "second", "threshold", "rule",
    "raters", "tolerance", "level", "weights", "k", "columns", "of", "answer",
)  # fmt: skip


def test_a_label_is_a_phrase() -> None:
    cases = [
        ("share_at_least", {"threshold": "4", "rule": "mean", "group": "people"}, "share with mean of people ≥ 4"),
        ("share_at_least", {"threshold": "4", "rule": "mean", "group": "m"}, "share with mean ≥ 4, m"),
        ("share_at_least", {"threshold": "4", "rule": "any"}, "share with any rating ≥ 4"),
        ("average_of_shares", {"threshold": "4", "raters": "3", "attribute": "region", "part": "Africa"},
         "share ≥ 4, average over 3 raters, region: Africa"),
        ("share_difference", {"threshold": "4"}, "share difference, ≥ 4"),
        ("percent_agreement_within", {"tolerance": "1", "group": "models"}, "answers within 1, models"),
        ("alpha", {"level": "ordinal", "group": "people"}, "Krippendorff’s α (ordinal), people"),
        ("icc2k", {"k": "3", "columns": "raters"}, "ICC(2,k), k = 3"),
        ("kappa", {"rater_a": "anna", "rater_b": "m@1", "group": "people and models"}, "Cohen’s κ, anna and m@1"),
        ("pearson_with_people", {"rater": "m@1", "group": "people"}, "Pearson with people’s mean, m@1"),
        ("pearson_with_people", {"rater": "m@1", "group": "Kenya"}, "Pearson with people’s mean, m@1, Kenya"),
        ("score_change", {"first": "", "second": "article"}, "score change, no condition → article"),
        ("kappa", {"weights": "quadratic"}, "Cohen’s κ, quadratic weights"),
        ("reported_share", {"of": "people", "group": "people"}, "share of people who reported"),
        ("majority_share", {"answer": "(no majority)"}, "share, no majority"),
    ]  # fmt: skip

    def check(name: str, dims: dict[str, str], phrase: str) -> None:
        metric = Metric(name=name, definition="d", value=0.5, n=9, reason="r", dims=dims)
        assert label(metric, EVERYTHING) == phrase

    check_cases(check, cases)


def test_only_the_dims_asked_for_are_named() -> None:
    metric = Metric(name="alpha", definition="d", value=0.5, n=9, reason="r", dims={"level": "ordinal", "group": "g"})
    assert (label(metric, ["group"]), label(metric, ["metric", "first"])) == ("g", "Krippendorff’s α (ordinal)")


def test_a_detail_of_the_name_is_named_alone_without_it() -> None:
    cases = [
        ("alpha", {"level": "ordinal"}, "ordinal"),
        ("share_at_least", {"threshold": "4", "rule": "any"}, "≥ 4, any rating"),
        ("share_difference", {"threshold": "4"}, "≥ 4"),
        ("kappa", {"inverted": "yes", "bins": "3"}, "scale inverted, bins = 3"),
        ("kappa", {"part": "Africa", "first": "a"}, "Africa, a"),
        ("kappa", {"threshold": "", "k": ""}, ""),
    ]

    def check(name: str, dims: dict[str, str], phrase: str) -> None:
        metric = Metric(name=name, definition="d", value=0.5, n=9, reason="r", dims=dims)
        names = ["level", "threshold", "rule", "inverted", "bins", "k", "part", "attribute", "first", "second"]
        assert label(metric, names) == phrase

    check_cases(check, cases)


def test_words_for_raters() -> None:
    cases = [
        ("kappa", {"rater_a": "anna", "rater_b": "bo", "group": "people"}, "anna and bo"),
        ("kappa", {"rater_a": "anna", "group": "Kenya"}, "Kenya, anna"),
        ("accuracy", {"rater": "m", "group": "models"}, "m"),
        ("accuracy", {"group": "people"}, "people"),
        ("people_total", {"group": "people"}, ""),
        ("people_total", {"group": "Kenya"}, "Kenya"),
    ]

    def check(name: str, dims: dict[str, str], phrase: str) -> None:
        metric = Metric(name=name, definition="d", value=0.5, n=9, reason="r", dims=dims)
        assert rater_words(metric, ("rater", "rater_a", "rater_b", "group")) == phrase
        assert rater_words(metric, ()) == ""

    check_cases(check, cases)
    other = Metric(name="rater_correlation_mean", definition="d", value=0.5, n=9, reason="r")
    assert kind_of(other).label == "mean"


def test_letters_and_colours_of_raters_follow_their_names() -> None:
    letters = rater_letters(["b", "a"], ["0", "b"])
    assert letters == {"a": "A", "b": "B", "0": "C"}
    assert list(rater_letters(map(str, range(1000, 1028))).values())[-2:] == ["AA", "AB"]
    assert len(set(rater_hues(map(str, range(20))).values())) == 20
    assert letters_of([], []) == {}

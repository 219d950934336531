"""Scores of descriptions from the spans that raters marked in them: mistakes (precision) and omissions (coverage).

A description is scored by one rater, or by the mean of several. Its scores are the number of mistakes, the number of
omissions, the share of the generated text's tokens that a mistake touches, and the share of the correct text's tokens
that an omission touches. Precision and coverage are one minus these shares (DOCENT guidelines: wrong statements lower
precision, omissions lower coverage).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.correlation import MIN_PAIRS, pearson_of_sums, products
from jobs.metrics.intervals import Units, bootstrap, ratio
from jobs.metrics.metric import Metric, estimated, undefined
from jobs.metrics.spans import TEXTLESS, TOKEN, Span, touched_tokens

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MEANS = {  # score -> what its mean over descriptions is
    "mistakes": "number of spans marked as mistakes in a generated description",
    "mistake_share": "share of the tokens of a generated description that a mistake touches",
    "omissions": "number of spans of the correct description marked as missing from a generated one",
    "omission_share": "share of the tokens of the correct description that an omission touches",
    "precision": "share of the tokens of a generated description that no mistake touches",
    "coverage": "share of the tokens of the correct description that no omission touches",
}
COMPARED = ("mistakes", "omissions", "precision", "coverage", "quality")  # scores that are correlated with people's
_MEAN = (
    "Mean over descriptions of the {what}; several raters of a description are averaged first; n counts descriptions."
)
_CORRELATION = (
    "{kind} correlation over descriptions of {scorer} with people's mean {score}{note}; n counts descriptions that "
    "both scored."
)
_QUALITY = " (quality: the mean of precision and coverage)"


@dataclass(frozen=True)
class Descriptions:
    """The descriptions that are scored.

    Attributes:
        pictures: int64[n], the picture of each description; intervals are over pictures.
        writers: the model that wrote each description, empty if unknown.
    """

    pictures: Ints
    writers: Sequence[str]


def token_share(spans: Sequence[Span], text: str) -> float:
    """Return the share of the tokens of `text` that a span touches; NaN for a text without tokens."""
    tokens = sum(1 for _ in TOKEN.finditer(text))
    return len(touched_tokens(spans, text)) / tokens if tokens else float("nan")


def with_derived(values: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return scores with precision, coverage and quality, which follow from the shares."""
    precision, coverage = 1 - values["mistake_share"], 1 - values["omission_share"]
    return {**values, "precision": precision, "coverage": coverage, "quality": (precision + coverage) / 2}


def description_scores(
    values: Mapping[str, Floats], descriptions: Descriptions, *, has_texts: bool = True
) -> Iterator[Metric]:
    """Yield the mean of each score over all descriptions, and over those of each writer, with intervals over pictures.

    Use it to compare models that describe pictures. Shares give a long wrong phrase more weight than a wrong word;
    counts grow with the length of a description.

    Args:
        values: score -> float64[n], NaN where it is unknown.
        has_texts: whether the texts are known, which shares need.

    Undefined: no description has the score.
    """
    writers = sorted(set(descriptions.writers) - {""})
    for score, noun in MEANS.items():
        definition = _MEAN.format(what=noun)
        for writer in ["", *writers]:
            chosen = np.array([not writer or name == writer for name in descriptions.writers], bool)
            dims = {"model": writer} if writer else {}
            has_value = chosen & ~np.isnan(values[score])
            yield _mean(f"description_{score}", definition, values[score], has_value, descriptions.pictures,
                        asked=int(chosen.sum()), has_texts=has_texts, dims=dims)  # fmt: skip


def category_counts(
    counts: Mapping[str, Floats], descriptions: Descriptions, *, score: str = "mistakes"
) -> Iterator[Metric]:
    """Yield the mean number of spans of each category per description, over all and for each writer.

    Args:
        counts: category -> float64[n], NaN where it is unknown.
    """
    writers = sorted(set(descriptions.writers) - {""})
    definition = _MEAN.format(what=f"{MEANS[score]}, of one kind")
    for category, values in sorted(counts.items()):
        for writer in ["", *writers]:
            chosen = np.array([not writer or name == writer for name in descriptions.writers], bool)
            dims = {"category": category} | ({"model": writer} if writer else {})
            has_value = chosen & ~np.isnan(values)
            yield _mean(f"description_{score}", definition, values, has_value, descriptions.pictures,
                        asked=int(chosen.sum()), has_texts=True, dims=dims)  # fmt: skip


def _mean(
    name: str,
    definition: str,
    values: Floats,
    has_value: NDArray[np.bool_],
    pictures: Ints,
    *,
    asked: int,
    has_texts: bool,
    dims: Mapping[str, str],
) -> Metric:
    n, coverage = int(has_value.sum()), int(has_value.sum()) / asked if asked else None
    if not n:
        reason = "no description has the score" if has_texts else TEXTLESS
        return undefined(name, definition, reason, coverage=coverage, dims=dims)
    rows = np.stack([values[has_value], np.ones(n)], axis=1)
    interval = bootstrap(rows, ratio, Units(pictures[has_value], "pictures"))
    return estimated(
        name, definition, float(values[has_value].mean()), n, coverage=coverage, interval=interval, dims=dims
    )


def correlations_with_people(
    values: Mapping[str, Floats], people: Mapping[str, Floats], pictures: Ints, *, scorer: str
) -> Iterator[Metric]:
    """Yield Pearson's and Spearman's correlation of a scorer with people's scores of descriptions.

    Use it to compare ways to score descriptions: models that mark spans, and measures of the overlap of two texts.
    Intervals are bootstrapped over pictures, because descriptions of one picture are alike.

    Args:
        values: people's score to compare with -> float64[n] of the scorer, NaN where it is unknown.
        people: score -> float64[n] of people, NaN where it is unknown.
        scorer: what the scorer is, for the definition.

    Undefined: fewer than three descriptions that both scored, or no variance of one score.
    """
    from scipy.stats import rankdata

    for score, x in values.items():
        y = people[score]
        both = ~np.isnan(x) & ~np.isnan(y)
        asked = int((~np.isnan(y)).sum())
        for kind, transform in (("pearson", np.asarray), ("spearman", rankdata)):
            note = _QUALITY if score == "quality" else ""
            definition = _CORRELATION.format(kind=kind.capitalize(), scorer=scorer, score=score, note=note)
            yield _correlation(
                f"description_{kind}",
                definition,
                np.asarray(transform(x[both]), np.float64),
                np.asarray(transform(y[both]), np.float64),
                pictures[both],
                coverage=int(both.sum()) / asked if asked else None,
                dims={"score": score},
            )


def _correlation(
    name: str, definition: str, x: Floats, y: Floats, pictures: Ints, *, coverage: float | None, dims: dict[str, str]
) -> Metric:
    n = len(x)
    if n < MIN_PAIRS:
        reason = f"fewer than {MIN_PAIRS} descriptions with both scores"
        return undefined(name, definition, reason, n=n, coverage=coverage, dims=dims)
    if not np.ptp(x) or not np.ptp(y):
        return undefined(name, definition, "no variance of one score", n=n, coverage=coverage, dims=dims)
    rows = products(x, y)
    value = float(pearson_of_sums(rows.sum(0)))
    interval = bootstrap(rows, pearson_of_sums, Units(pictures, "pictures"))
    return estimated(name, definition, value, n, coverage=coverage, interval=interval, dims=dims)

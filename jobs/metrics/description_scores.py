"""Scores of descriptions from the spans that raters marked in them: mistakes (precision) and omissions (coverage).

A description is scored by one rater, or by the mean of several. Its scores are the number of mistakes, the number of
omissions, the share of the generated text's tokens that a mistake touches, and the share of the correct text's tokens
that an omission touches. Precision and coverage are one minus these shares (DOCENT guidelines: wrong statements lower
precision, omissions lower coverage).

They are compared with the overlap of the generated with the correct description, by packages (extra `overlap`):

| measure | package | settings |
|---|---|---|
| bleu | sacrebleu | of one sentence, effective order, smoothing exp, tokenizer 13a, lower case; 0 to 1 |
| rouge_l | rouge-score | F measure, with the Porter stemmer; 0 to 1 |
| cider | pycocoevalcap | as in the COCO caption evaluation, document frequencies over the correct texts; 0 to 10 |

The COCO evaluation tokenises with the Stanford tokenizer, which needs Java. Here a token for CIDEr is a run of letters
and digits in lower case, so that its values differ slightly from that evaluation's.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.correlation import MIN_PAIRS, pearson_of_sums, products
from jobs.metrics.intervals import Units, bootstrap
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, mean_of, undefined
from jobs.metrics.prediction_powered import RandomPart, combined, estimate_mean
from jobs.metrics.rating_plans import BOTH, PEOPLE_ALONE
from jobs.metrics.spans import TEXTLESS, TOKEN, Span, touched_tokens

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MEANS = {  # score -> what its mean over descriptions is
    "mistakes": "number of spans marked as mistakes in a generated description",
    "mistake_share": "share of the tokens of a generated description that a mistake touches",
    "precision": "share of the tokens of a generated description that no mistake touches",
    "omissions": "number of spans of the correct description marked as missing from a generated one",
    "omission_share": "share of the tokens of the correct description that an omission touches",
    "coverage": "share of the tokens of the correct description that no omission touches",
}
COMPARED = ("mistakes", "omissions", "precision", "coverage", "quality")  # scores that are correlated with people's
_MEAN = {
    score: MetricKind(
        f"description_{score}",
        Quantity.NUMBER if score in ("mistakes", "omissions") else Quantity.SHARE,
        (Topic.DESCRIPTIONS, Topic.MISTAKES) if score == "mistakes" else (Topic.DESCRIPTIONS,),
        label=score.replace("_share", "s, share of tokens"),
    ).defined_as(
        f"Mean over descriptions of the {noun}{{more}}; several raters of a description are averaged first; n counts "
        "descriptions."
    )
    for score, noun in MEANS.items()
}
_CORRELATION = {
    kind: MetricKind(
        f"description_{kind}", Quantity.COEFFICIENT, (Topic.DESCRIPTION_SCORES,), label=kind.capitalize()
    ).defined_as(
        f"{kind.capitalize()} correlation over descriptions of {{scorer}} with people's mean {{score}}{{note}}; n "
        "counts descriptions that both scored."
    )
    for kind in ("pearson", "spearman")
}
ESTIMATED = MetricKind("estimated_description_score", place="in the table docent_estimates").defined_as(
    "Mean of a score over all descriptions, as by people (dim `score`: as the metric description_SCORE), from their "
    "spans in a random part of the descriptions and models' spans in all, by prediction-powered inference "
    "(Angelopoulos, Duchi and Zrnic, PPI++, 2023); n counts descriptions that people read."
)
_QUALITY = " (quality: the mean of precision and coverage)"
_WORD = re.compile(r"\w+")
_PACKAGES = {"bleu": "sacrebleu", "rouge_l": "rouge_score", "cider": "pycocoevalcap"}


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
    for score in ("mistakes", "mistake_share", "omissions", "omission_share", "precision", "coverage"):
        reason = "no description has the score" if has_texts else TEXTLESS
        yield from _means(_MEAN[score].worded(more=""), values[score], descriptions, reason=reason)


def estimated_scores(
    people: Mapping[str, Floats], models: Sequence[Mapping[str, Floats]], descriptions: Descriptions, part: RandomPart
) -> Iterator[Metric]:
    """Yield what the mean scores would be if people had marked all descriptions, of all and of each writer.

    Use it where people marked a random part of the descriptions and models all.

    Args:
        people: score -> float64[n], NaN where people did not read the description; models: the same of each.
        part: how people's descriptions were drawn.
    """
    for score in MEANS:
        truth, most = people[score], np.inf if score in ("mistakes", "omissions") else 1.0
        if np.isnan(truth).all():
            continue
        predicted = combined(truth, np.stack([values[score] for values in models], axis=1), part)
        for writer in ["", *sorted(set(descriptions.writers) - {""})]:
            chosen = np.array([not writer or name == writer for name in descriptions.writers], bool)
            if np.isnan(truth[chosen]).all():
                continue
            estimate = estimate_mean(truth[chosen], None if predicted is None else predicted[chosen], part.of(chosen),
                                     bounds=(0.0, most))  # fmt: skip
            both = (BOTH, estimate.value, estimate.interval), (PEOPLE_ALONE, estimate.people, estimate.people_interval)
            for source, value, interval in both:
                dims = {"score": score, "source": source, **({"model": writer} if writer else {})}
                yield estimated(ESTIMATED, value, estimate.n, coverage=estimate.n / estimate.items, interval=interval,
                                dims=dims)  # fmt: skip


def category_counts(counts: Mapping[str, Floats], descriptions: Descriptions) -> Iterator[Metric]:
    """Yield the mean number of mistakes of each category per description, over all and for each writer.

    Args:
        counts: category -> float64[n], NaN where it is unknown.
    """
    kind = _MEAN["mistakes"].worded(more=", of one kind")
    for category, values in sorted(counts.items()):
        for metric in _means(kind, values, descriptions, reason="no description has the score"):
            yield metric.at(category=category)


def _means(kind: MetricKind, values: Floats, descriptions: Descriptions, *, reason: str) -> Iterator[Metric]:
    """Yield the mean over all descriptions and over those of each writer; `reason`: why no description has a value."""
    for writer in ["", *sorted(set(descriptions.writers) - {""})]:
        chosen = np.array([not writer or name == writer for name in descriptions.writers], bool)
        dims = {"model": writer} if writer else {}
        has_value = chosen & ~np.isnan(values)
        coverage = float(has_value.sum() / chosen.sum()) if chosen.any() else None
        if has_value.any():
            units = Units(descriptions.pictures[has_value], "pictures")
            yield mean_of(kind, values[has_value], units, coverage=coverage, dims=dims)
        else:
            yield undefined(kind, reason, coverage=coverage, dims=dims)


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
            yield _correlation(
                _CORRELATION[kind].worded(scorer=scorer, score=score, note=note),
                np.asarray(transform(x[both]), np.float64),
                np.asarray(transform(y[both]), np.float64),
                pictures[both],
                coverage=int(both.sum()) / asked if asked else None,
                dims={"score": score},
            )


def _correlation(
    kind: MetricKind, x: Floats, y: Floats, pictures: Ints, *, coverage: float | None, dims: dict[str, str]
) -> Metric:
    n = len(x)
    if n < MIN_PAIRS:
        reason = f"fewer than {MIN_PAIRS} descriptions with both scores"
        return undefined(kind, reason, n=n, coverage=coverage, dims=dims)
    if not np.ptp(x) or not np.ptp(y):
        return undefined(kind, "no variance of one score", n=n, coverage=coverage, dims=dims)
    rows = products(x, y)
    value = float(pearson_of_sums(rows.sum(0)))
    interval = bootstrap(rows, pearson_of_sums, Units(pictures, "pictures"))
    return estimated(kind, value, n, coverage=coverage, interval=interval, dims=dims)


def bleu(generated: Sequence[str], correct: Sequence[str]) -> Floats:
    """Return sentence BLEU of each pair, float64[n] from 0 to 1 (Papineni et al. 2002; Post 2018)."""
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(effective_order=True, lowercase=True)
    return np.array([scorer.sentence_score(g, [c]).score / 100 for g, c in zip(generated, correct, strict=True)])


def rouge_l(generated: Sequence[str], correct: Sequence[str]) -> Floats:
    """Return the F measure of ROUGE-L of each pair, float64[n] from 0 to 1 (Lin 2004)."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    return np.array([scorer.score(c, g)["rougeL"].fmeasure for g, c in zip(generated, correct, strict=True)])


def cider(generated: Sequence[str], correct: Sequence[str]) -> Floats:
    """Return CIDEr of each pair, float64[n] from 0 to 10 (Vedantam et al. 2015).

    NaN with fewer than two different correct descriptions: each n-gram would have an inverse document frequency of 0.
    """
    from pycocoevalcap.cider.cider import Cider

    if len(set(correct)) < 2:
        return np.full(len(generated), np.nan)
    references = {number: [_tokens(text)] for number, text in enumerate(correct)}
    candidates = {number: [_tokens(text)] for number, text in enumerate(generated)}
    _, scores = Cider().compute_score(references, candidates)
    return np.asarray(scores, np.float64)


def _tokens(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))


OVERLAPS: Mapping[str, Callable[[Sequence[str], Sequence[str]], Floats]] = {
    "bleu": bleu,
    "rouge_l": rouge_l,
    "cider": cider,
}


def require_overlap_packages(names: Sequence[str]) -> None:
    """Import the packages of some measures.

    Raises:
        ModuleNotFoundError: a package is not installed.
    """
    for name in names:
        importlib.import_module(_PACKAGES[name])

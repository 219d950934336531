"""Marked spans of text (mistakes, omissions): accuracy against gold, and agreement among raters.

Positions are characters from 0; ends are exclusive. A text without mistakes counts too, but a rater who marked nothing
in it has no rows there: the caller must pass an empty list for each text that a rater saw without marking anything.

Each reading counts as a text: a correct description that is compared with four generated ones is four texts.
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.agreement import krippendorff_alpha
from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import Units, bootstrap
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, exact, share_of, undefined

Floats = NDArray[np.float64]
Span = tuple[int, int]
Spans = Mapping[Hashable, Sequence[Span]]  # text -> spans, empty for a text that was seen without marking anything
TOKEN = re.compile(r"\w+|[^\w\s]")
UNITS = {
    "character": "characters of the texts",
    "token": "tokens (words and punctuation marks) that a span touches",
    "span": "spans, matched one to one where intersection / union is at least {overlap:g}",
}
_DEPENDENT = "no interval: tokens of a text are not independent"
TEXTLESS = "metrics of tokens need the texts; set texts="
_STATUS = MetricKind("span_status_share", Quantity.SHARE, (Topic.SPAN_STATUSES,), label="share").defined_as(
    "Texts with this status / texts that the rater was asked about; interval of Wilson (1927); n counts texts."
)
_PRF = {
    name: MetricKind(f"span_{name}", Quantity.FRACTION, (Topic.SPANS,), label=label).defined_as(
        f"{name} of {{unit}}: {rate}; texts pooled; n counts texts that both the rater and gold saw, once for each "
        "person if several people marked them (spans of mistakes and omissions in descriptions)."
    )
    for name, label, rate in (
        ("precision", "", "marked by both / marked by the rater"),
        ("recall", "", "marked by both / marked in gold"),
        ("f1", "F1", "harmonic mean of precision and recall"),
    )
}
_AUC = MetricKind("span_auc", Quantity.FRACTION, (Topic.SPANS,), label="AUC").defined_as(
    "Area under the ROC curve of the probabilities of tokens against the tokens marked in gold: the probability that a "
    "marked token has a higher one than an unmarked token; n counts texts, once for each person if several people "
    "marked them."
)
_AGREE = MetricKind("span_agreement", Quantity.FRACTION, (Topic.SPANS,)).defined_as(
    "Mean over pairs of raters of the F1 between their spans, {unit}; pairs that share no text or marked nothing in "
    "the shared texts are left out; n counts pairs."
)
_ALPHA = MetricKind("span_alpha", Quantity.COEFFICIENT, (Topic.SPANS,), label="Krippendorff’s α").defined_as(
    "Krippendorff's alpha, nominal, of whether tokens are marked; n counts tokens that two or more raters saw."
)


def merged(spans: Sequence[Span]) -> list[Span]:
    """Return disjoint non-empty spans, ascending, that cover the same characters.

    Raises:
        ValueError: a span ends before it starts, or starts before 0.
    """
    disjoint: list[Span] = []
    for start, end in sorted(spans):
        if end < start or start < 0:
            raise ValueError(f"span from {start} to {end}: must be 0 <= start <= end")
        if disjoint and start <= disjoint[-1][1]:
            disjoint[-1] = (disjoint[-1][0], max(end, disjoint[-1][1]))
        elif end > start:
            disjoint.append((start, end))
    return disjoint


def common_characters(one: Sequence[Span], other: Sequence[Span]) -> int:
    """Return the number of characters that both cover."""
    a, b = merged(one), merged(other)
    total = i = j = 0
    while i < len(a) and j < len(b):
        total += max(0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] <= b[j][1]:
            i += 1
        else:
            j += 1
    return total


def touched_tokens(spans: Sequence[Span], text: str) -> set[int]:
    """Return the positions of the tokens of `text` that a span touches."""
    marked = merged(spans)
    tokens = [match.span() for match in TOKEN.finditer(text)]
    return {
        position
        for position, (start, end) in enumerate(tokens)
        if any(start < stop and begin < end for begin, stop in marked)
    }


def matched(one: Sequence[Span], other: Sequence[Span], *, overlap: float) -> int:
    """Return the number of one-to-one matches with intersection / union of at least `overlap` (0: any overlap above 0).

    It is the size of the largest matching (scipy's assignment), which does not depend on the order of the spans.
    """
    from scipy.optimize import linear_sum_assignment

    if not one or not other:
        return 0
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    both = np.minimum(a[:, None, 1], b[None, :, 1]) - np.maximum(a[:, None, 0], b[None, :, 0])
    both = np.maximum(both, 0)
    union = (a[:, 1] - a[:, 0])[:, None] + (b[:, 1] - b[:, 0])[None, :] - both
    share = np.divide(both, union, out=np.zeros_like(both), where=union > 0)
    fits = (both > 0) & (share >= overlap - 1e-12)
    rows, columns = linear_sum_assignment(fits, maximize=True)
    return int(fits[rows, columns].sum())


def cells(marked: Sequence[Span], gold: Sequence[Span], unit: str, *, text: str | None, overlap: float) -> Floats:
    """Return float64[3] of one text: units that both cover, only the rater, only gold.

    Raises:
        ValueError: `unit` is token and `text` is None.
    """
    if unit == "character":
        both = common_characters(marked, gold)
        a, b = (sum(end - start for start, end in merged(spans)) for spans in (marked, gold))
    elif unit == "token":
        if text is None:
            raise ValueError("unit=token: text= is required")
        one, other = touched_tokens(marked, text), touched_tokens(gold, text)
        both, a, b = len(one & other), len(one), len(other)
    else:
        distinct = [list(dict.fromkeys(span for span in spans if span[1] > span[0])) for spans in (marked, gold)]
        both, a, b = matched(*distinct, overlap=overlap), len(distinct[0]), len(distinct[1])
    return np.array([both, a - both, b - both], np.float64)


def against_gold(
    marked: Spans,
    gold: Spans,
    *,
    texts: Mapping[Hashable, str] | None = None,
    pictures: Mapping[Hashable, str] | None = None,
    overlap: float = 0.5,
) -> Iterator[Metric]:
    """Yield precision, recall and F1 over characters, tokens and spans, with bootstrap intervals over pictures.

    Use it when gold spans exist, or with people's spans in their place. Characters and tokens reward partial overlap;
    spans count only as matches.

    Args:
        texts: text -> its words, for tokens.
        pictures: text -> picture; by default each text has its own picture.
        overlap: least intersection / union of matched spans.

    Undefined: no common text, a denominator of 0, or tokens without texts.
    """
    common = sorted(marked.keys() & gold.keys(), key=str)
    coverage = len(common) / len(gold) if gold else None
    for unit, words in UNITS.items():
        keys = [t for t in common if unit != "token" or (texts and t in texts)]
        rows = np.array(
            [cells(marked[t], gold[t], unit, text=(texts or {}).get(t), overlap=overlap) for t in keys]
        ).reshape(-1, 3)
        of_picture = np.unique([str((pictures or {}).get(t, t)) for t in keys], return_inverse=True)[1]
        dims = {"unit": unit} | ({"overlap": f"{overlap:g}"} if unit == "span" else {})
        for name, of_rate in _PRF.items():
            kind = of_rate.worded(unit=words.format(overlap=overlap))
            if texts is None and unit == "token":
                yield undefined(kind, TEXTLESS, coverage=coverage, dims=dims)
            else:
                yield _rate_metric(kind, name, rows, of_picture, coverage=coverage, dims=dims)


def _rate_metric(
    kind: MetricKind,
    name: str,
    rows: Floats,
    pictures: NDArray[np.int64],
    *,
    coverage: float | None,
    dims: dict[str, str],
) -> Metric:
    def rate(sums: Floats) -> Floats:
        both, only_rater, only_gold = sums[:, 0], sums[:, 1], sums[:, 2]
        denominator = {
            "precision": both + only_rater,
            "recall": both + only_gold,
            "f1": both + (only_rater + only_gold) / 2,
        }[name]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(both / denominator)

    n = len(rows)
    if not n:
        return undefined(kind, "the rater and gold saw no common text", coverage=coverage, dims=dims)
    value = float(rate(rows.sum(0)[None])[0])
    if np.isnan(value):
        return undefined(kind, "nothing is marked: the denominator is 0", n=n, coverage=coverage, dims=dims)
    interval = bootstrap(rows, rate, Units(pictures, "pictures"))
    return estimated(kind, value, n, coverage=coverage, interval=interval, dims=dims)


def span_agreement(
    marks: Mapping[str, Spans], *, texts: Mapping[Hashable, str] | None = None, overlap: float = 0.5
) -> Iterator[Metric]:
    """Yield the agreement of raters on marked spans: mean pairwise F1 over characters, tokens and spans; alpha over
    tokens.

    Use it without gold. Alpha corrects for chance, F1 does not.

    Args:
        marks: rater -> text -> spans.

    Undefined: one rater; no two raters share a text in which either marked something; tokens without texts.
    """
    raters = sorted(marks)
    possible = len(raters) * (len(raters) - 1) // 2
    for unit, words in UNITS.items():
        kind = _AGREE.worded(unit=words.format(overlap=overlap))
        if unit == "token" and texts is None:
            yield undefined(kind, TEXTLESS, dims={"unit": unit})
            continue
        f1_scores = []
        for a, b in combinations(raters, 2):
            read = marks[a].keys() & marks[b].keys()
            common = sorted(read if texts is None else read & texts.keys(), key=str)
            total = sum(
                (cells(marks[a][t], marks[b][t], unit, text=(texts or {}).get(t), overlap=overlap) for t in common),
                start=np.zeros(3),
            )
            if total.any():
                f1_scores.append(2 * total[0] / (2 * total[0] + total[1] + total[2]))
        coverage = len(f1_scores) / possible if possible else None
        if not f1_scores:
            reason = "one rater" if len(raters) < 2 else "no two raters share a text in which either marked something"
            yield undefined(kind, reason, coverage=coverage, dims={"unit": unit})
            continue
        yield exact(
            kind,
            float(np.mean(f1_scores)),
            len(f1_scores),
            coverage=coverage,
            reason="no interval: pairs that share a rater are not independent",
            dims={"unit": unit},
        )
    yield _token_alpha(marks, texts)


def _token_alpha(marks: Mapping[str, Spans], texts: Mapping[Hashable, str] | None) -> Metric:
    dims = {"unit": "token"}
    if texts is None:
        return undefined(_ALPHA, TEXTLESS, dims=dims)
    raters = sorted(marks)
    tables = []
    for text_id in sorted({t for seen in marks.values() for t in seen} & texts.keys(), key=str):
        size = sum(1 for _ in TOKEN.finditer(texts[text_id]))
        table = np.full((size, len(raters)), np.nan)
        for column, rater in enumerate(raters):
            if text_id in marks[rater]:
                table[:, column] = 0
                table[sorted(touched_tokens(marks[rater][text_id], texts[text_id])), column] = 1
        tables.append(table)
    if not tables:
        return undefined(_ALPHA, "the texts of the spans are missing from texts=", dims=dims)
    alpha = krippendorff_alpha(RatingTable.from_matrix(np.concatenate(tables)), "nominal")
    # The bootstrap of alpha draws items, but neighbouring tokens are not independent.
    if alpha.value is None:
        return undefined(_ALPHA, str(alpha.reason), n=alpha.n, coverage=alpha.coverage, dims=dims)
    return exact(_ALPHA, alpha.value, alpha.n, coverage=alpha.coverage, reason=_DEPENDENT, dims=dims)


def ranking_of_tokens(
    probabilities: Mapping[Hashable, Sequence[tuple[int, int, float]]],
    gold: Spans,
    *,
    texts: Mapping[Hashable, str] | None,
) -> Metric:
    """Return the probability that a token marked in gold has a higher probability than one that is not (ROC AUC).

    Use it for raters who give each piece of a text a probability: it depends on no threshold.

    Args:
        probabilities: text -> (start, end, probability) of its pieces. A token gets the highest probability of the
            pieces that touch it, or 0 if none does.

    Undefined: no common text, no texts, or all tokens or none marked in gold.
    """
    if texts is None:
        return undefined(_AUC, TEXTLESS)
    common = sorted(probabilities.keys() & gold.keys() & texts.keys(), key=str)
    coverage = len(common) / len(gold) if gold else None
    scores, labels = [], []
    for text in common:
        tokens = [match.span() for match in TOKEN.finditer(texts[text])]
        marked = touched_tokens(gold[text], texts[text])
        for position, (start, end) in enumerate(tokens):
            scores.append(max((p for a, b, p in probabilities[text] if a < end and start < b), default=0.0))
            labels.append(position in marked)
    is_marked = np.array(labels, bool)
    positive, negative = int(is_marked.sum()), int((~is_marked).sum())
    if not positive or not negative:
        reason = "the rater and gold saw no common text" if not common else "gold marks all tokens, or none"
        return undefined(_AUC, reason, n=len(common), coverage=coverage)
    from scipy.stats import rankdata

    ranks = rankdata(scores)
    value = (ranks[is_marked].sum() - positive * (positive + 1) / 2) / (positive * negative)
    return exact(_AUC, float(value), len(common), coverage=coverage, reason=_DEPENDENT)


def status_shares(statuses: Sequence[str], pictures: Sequence[str]) -> Iterator[Metric]:
    """Yield the share of texts with each status, ok included; the dim `status` names it.

    Use it to see how many texts the other metrics leave out: those whose marks are unknown or incomplete.

    Args:
        statuses: of each text; pictures: the picture of each text.
    """
    if not statuses:
        return
    units = Units(np.unique(pictures, return_inverse=True)[1], "pictures")
    for status in sorted(set(statuses)):
        hit = np.array([of_text == status for of_text in statuses])
        yield share_of(_STATUS, hit, units, coverage=1.0, dims={"status": status})

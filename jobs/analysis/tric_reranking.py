"""Re-ranking of the best captions of TRIC's pictures by a judge's ratings, and comparison of the rankings."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from actors.ids import content_id
from actors.status import Status
from jobs.corpora.tric import ANSWERS, DATES, Split, decade
from jobs.errors import InputError
from jobs.metrics import ranking
from jobs.metrics.metric import Metric
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import TableSource

Ranked = dict[int, list[str]]  # position of a picture in the split -> indices of its captions, best first
RaterCondition = tuple[str, str]  # rater and condition
ENCODER = "encoder"  # name of the ranking before re-ranking
_COLUMNS = ["item_id", "target", "rater", "condition", "expected", "status"]


@dataclass
class Judgement:
    """The ratings by one judge under one condition.

    Attributes:
        scores: picture's item_id -> caption -> expected score.
        asked: picture's item_id -> its captions that the judge was asked about.
    """

    scores: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    asked: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


@dataclass(frozen=True)
class Reranking:
    """The captions in a judge's order.

    Attributes:
        ranked: the ranking, in the form of the encoder's; pictures in `kept` keep the encoder's order.
        kept: pictures with a caption that has no score.
    """

    ranked: Ranked
    kept: frozenset[int]


def best_captions(split: Split, neighbors: TableSource, captions: TableSource) -> Ranked:
    """Return the ranking in table `neighbors` (remine tric_rank) by position in the split.

    Raises:
        InputError: the tables are not of this split, or there is no ranked picture.
    """
    index_of: dict[str, str] = {}
    for batch in captions.batches(["text_id", "source"]):
        index_of |= zip(batch["text_id"].to_pylist(), batch["source"].to_pylist(), strict=True)
    position_of = {content_id(name): position for position, name in enumerate(split.pictures)}
    places: dict[int, dict[int, str]] = defaultdict(dict)
    for batch in neighbors.batches(["query_id", "rank", "item_id"]):
        columns = (batch[name].to_pylist() for name in ("query_id", "rank", "item_id"))
        for query, rank, item in zip(*columns, strict=True):
            if query not in position_of:
                raise InputError(
                    f"{query} is not a picture of this split; run remine tric_rank on it", place=neighbors.uri
                )
            if index_of.get(item) not in split.captions:
                raise InputError(
                    f"{item} is not in {captions.uri}, or not a caption of this split; run "
                    "remine tric_rank with these captions",
                    place=neighbors.uri,
                )
            places[position_of[query]][rank] = index_of[item]
    if not places:
        raise InputError("no ranked picture; run remine tric_rank on this split", place=neighbors.uri)
    return {position: [of_rank[rank] for rank in sorted(of_rank)] for position, of_rank in sorted(places.items())}


def without_excluded(split: Split, ranked: Ranked, exclusion_filter: ExclusionFilter) -> Ranked:
    """Return the ranking without the pictures on the list of exclusions."""
    names = {position: split.pictures[position] for position in ranked}
    return {
        position: indices
        for position, indices in ranked.items()
        if not exclusion_filter.hit(content_id(names[position]), names[position])
    }


def read_judgements(sources: Sequence[TableSource]) -> dict[RaterCondition, Judgement]:
    """Return the ratings by rater and condition, sorted by rater and by how much of the date the condition includes.

    Several samples of a rating are averaged.

    Raises:
        InputError: a table has no expected score.
    """
    judgements: dict[RaterCondition, Judgement] = defaultdict(Judgement)
    samples: dict[tuple[RaterCondition, str, str], list[float]] = defaultdict(list)
    for source in sources:
        for batch in source.batches(_COLUMNS):
            for item, target, rater, condition, expected, status in zip(
                *(batch[name].to_pylist() for name in _COLUMNS), strict=True
            ):
                judge = (rater, condition)
                judgements[judge].asked[item].add(target)
                if status == Status.OK:
                    if expected is None:
                        raise InputError("a rating without expected score; use rubric=caption_match", place=source.uri)
                    samples[judge, item, target].append(expected)
    for (judge, item, target), values in samples.items():
        judgements[judge].scores[item][target] = float(np.mean(values))
    places = {condition: place for place, condition in enumerate(DATES)}
    order = sorted(judgements, key=lambda judge: (judge[0], places.get(judge[1], len(places)), judge[1]))
    return {judge: judgements[judge] for judge in order}


def rerank(split: Split, ranked: Ranked, judgement: Judgement) -> Reranking:
    """Return the captions that the judge was asked about by score, best first, then the others in their earlier order.

    Equal scores keep the order of `ranked`. A picture that has a caption without a score, or was not judged, keeps its
    entire order.
    """
    result, kept = {}, set()
    for position, indices in ranked.items():
        item = content_id(split.pictures[position])
        asked, scores = judgement.asked.get(item, set()), judgement.scores.get(item, {})
        result[position] = indices
        if not asked or asked - scores.keys():
            kept.add(position)
            continue
        judged = [index for index in indices if split.captions[index] in asked]
        others = [index for index in indices if split.captions[index] not in asked]
        result[position] = sorted(judged, key=lambda index: -scores[split.captions[index]]) + others
    return Reranking(result, frozenset(kept))


def reranking_metrics(split: Split, before: Ranked, after: Mapping[RaterCondition, Reranking]) -> Iterator[Metric]:
    """Yield the MRR cut at 100 of the encoder's ranking and of each judge's, by decade, and their paired changes.

    Changes are from the encoder to each judge, and between the conditions of one judge. The coverage of a judge's MRR
    is the share of pictures in the judge's order; the others are included in the encoder's order.

    Args:
        before: the encoder's ranking; pictures without one are not ranked.
        after: rater and condition -> ranking.
    """
    if split.expected is None:
        return
    positions = sorted(before)
    decades = [decade(split.dates[position]) for position in positions]
    asked = len(split.pictures)
    ranks = {judge: ranks_of(split, reranking.ranked, positions) for judge, reranking in after.items()}
    encoder = ranks_of(split, before, positions)
    yield from _by_decade(encoder, decades, asked=asked, dims={"ranking": ENCODER})
    for (rater, condition), judged in ranks.items():
        dims = {"ranking": "judge", "rater": rater, "condition": condition}
        share = (len(positions) - len(after[rater, condition].kept)) / asked
        for metric in _by_decade(judged, decades, asked=asked, dims=dims):
            yield metric if "decade" in metric.dims else replace(metric, coverage=share)
        change = ranking.mrr_change(encoder, judged, cut=ANSWERS, asked=asked)
        yield change.at(rater=rater, first=ENCODER, second=condition)
    for first, second in combinations(ranks, 2):
        if first[0] == second[0]:
            change = ranking.mrr_change(ranks[first], ranks[second], cut=ANSWERS, asked=asked)
            yield change.at(rater=first[0], first=first[1], second=second[1])


def ranks_of(split: Split, ranked: Ranked, positions: Sequence[int]) -> ranking.Ranks:
    """Return int64[pictures], the rank of the right caption of each picture; 0 if it is not in the list."""
    assert split.expected is not None
    right = {position: split.expected[position] for position in positions}
    return np.array([ranked[p].index(right[p]) + 1 if right[p] in ranked[p] else 0 for p in positions], np.int64)


def _by_decade(
    ranks: ranking.Ranks, decades: Sequence[str], *, asked: int, dims: Mapping[str, str]
) -> Iterator[Metric]:
    yield ranking.mrr(ranks, cut=ANSWERS, asked=asked).at(**dims)
    for name, inside in ranking.by_group(ranks, decades).items():
        yield ranking.mrr(inside, cut=ANSWERS).at(decade=name, **dims)

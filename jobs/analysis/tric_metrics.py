"""TRIC: rankings of a split's captions for its pictures, re-rankings by a judge, and statistics of the splits.

Captions are ranked by their vectors; a judge's ratings re-rank the best of them. Statistics are also of unions of
splits (table I, section VI.B, figures 4 to 7).
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from actors.ids import content_id
from actors.status import Status
from jobs.corpora.tric import ANSWERS, DATES, Split, bucket, decade
from jobs.errors import InputError
from jobs.metrics import ranking
from jobs.metrics.descriptive import describe, histogram
from jobs.metrics.metric import Metric, MetricKind, Quantity, exact
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import TableSource

Vectors = NDArray[np.float16]
Wording = tuple[str, str]  # template, and the date as worded in it
Ranked = dict[int, list[str]]  # position of a picture in the split -> indices of its captions, best first
RaterCondition = tuple[str, str]  # rater and condition
ENCODER = "encoder"  # name of the ranking before re-ranking
_COLUMNS = ["item_id", "target", "rater", "condition", "expected", "status"]
_INSTANCES = MetricKind(
    "instances", Quantity.COUNT, definition="Pictures of the split (TRIC, table I); n counts pictures."
)
_SHARE = MetricKind("share", Quantity.SHARE).defined_as(
    "Pictures of the split / pictures of all splits that were read (TRIC, table I); n counts pictures."
)
_EXACT = "no interval: an exact count"


@dataclass(frozen=True)
class WordedCaptions:
    """The captions of a split in one wording, in the order of the file.

    Attributes:
        text_ids: ids in table `texts`; `indices`: the captions' indices in the file.
        vectors: float16[captions, dim], as stored.
    """

    text_ids: list[str]
    indices: list[str]
    vectors: Vectors


@dataclass(frozen=True)
class Ranking:
    """Captions of one picture, best first: positions int64[captions] in `WordedCaptions`, scores float64[captions]."""

    positions: NDArray[np.int64]
    scores: NDArray[np.float64]


Rankings = Mapping[str, Mapping[int, Ranking]]  # template -> position of the picture in the split -> ranking


def rank(query: Vectors, captions: WordedCaptions) -> Ranking:
    """Return all captions ranked by inner product with the picture, highest first; ties keep the order of the file.

    Args:
        query: float16[dim], the picture's vector as stored: of length 1 up to rounding to float16.
        captions: their vectors have the same rounding.

    Products and sums are float64, which is exact here: a product of two float16 numbers is a multiple of 2**-48, and
    a sum of such numbers needs at most 53 bits as long as it is below 32. Scores are therefore equal only if
    they are equal in exact arithmetic, and the order is the same on every machine.
    """
    scores = (captions.vectors.astype(np.float64) * query.astype(np.float64)).sum(axis=1)
    order = np.argsort(-scores, kind="stable")
    return Ranking(order, scores[order])


def rank_all(
    split: Split, vectors: Mapping[str, Vectors], captions: Mapping[Wording, WordedCaptions]
) -> dict[str, dict[int, Ranking]]:
    """Return the ranking of each picture that has a vector, by template and position in the split."""
    templates = dict.fromkeys(template for template, _ in captions)
    return {
        template: {
            position: rank(vectors[content_id(name)], captions[template, bucket(split.dates[position], template)])
            for position, name in enumerate(split.pictures)
            if content_id(name) in vectors
        }
        for template in templates
    }


def ranking_metrics(split: Split, captions: Mapping[Wording, WordedCaptions], rankings: Rankings) -> Iterator[Metric]:
    """Yield the MRR of the random order and, if the answers are public, the MRR by template and decade.

    Several templates also yield the change of the MRR from the first to each other one, paired by picture.
    """
    count = len(split.captions)
    for cut in (None, ANSWERS):
        yield ranking.random_mrr(count, cut=cut)
    if split.expected is None:
        return
    decades = [decade(day) for day in split.dates]
    first: tuple[str, NDArray[np.int64]] | None = None  # the first template and its ranks
    for template, by_picture in rankings.items():
        positions = sorted(by_picture)
        ranks = np.array(
            [
                _rank_of(by_picture[p], captions[template, bucket(split.dates[p], template)], split.expected[p])
                for p in positions
            ],
            np.int64,
        )
        first = first or (template, ranks)
        for cut in (None, ANSWERS):
            yield ranking.mrr(ranks, cut=cut, asked=len(decades)).at(template=template)
            if template != first[0]:
                change = ranking.mrr_change(first[1], ranks, cut=cut, asked=len(decades))
                yield change.at(first=first[0], second=template)
            for name, inside in ranking.by_group(ranks, [decades[p] for p in positions]).items():
                yield ranking.mrr(inside, cut=cut, asked=decades.count(name)).at(template=template, decade=name)


def _rank_of(picture: Ranking, captions: WordedCaptions, index: str) -> int:
    """Return the rank, from 1, of the caption with this index."""
    return 1 + int(np.flatnonzero(picture.positions == captions.indices.index(index))[0])


def read_vectors(source: TableSource, wanted: Collection[str]) -> dict[str, Vectors]:
    """Return the vectors float16[dim] of the wanted rows with status ok, as stored, by item_id."""
    vectors: dict[str, Vectors] = {}
    for batch in source.batches(["item_id", "embedding", "status"]):
        if not batch.num_rows:
            continue
        dim = batch.schema.field("embedding").type.list_size
        values = np.concatenate([chunk.flatten().to_numpy() for chunk in batch["embedding"].chunks])
        row = 0  # index into `values`, which has no rows for null vectors
        for item, status in zip(batch["item_id"].to_pylist(), batch["status"].to_pylist(), strict=True):
            if status == Status.OK:
                if item in wanted:
                    vectors[item] = values[row * dim : (row + 1) * dim].copy()
                row += 1
    return vectors


def read_captions(split: Split, captions: TableSource, vectors: TableSource) -> dict[Wording, WordedCaptions]:
    """Return the captions in each wording.

    Raises:
        InputError: the captions are not those of the split, a wording is missing, or a caption has no vector.
    """
    ids: dict[Wording, dict[str, str]] = defaultdict(dict)
    for batch in captions.batches(["text_id", "revision", "date", "source"]):
        for row in batch.to_pylist():
            ids[row["revision"], row["date"] or ""][row["source"]] = row["text_id"]
    vector_of = read_vectors(vectors, {text for texts in ids.values() for text in texts.values()})
    worded: dict[Wording, WordedCaptions] = {}
    for wording, text_of in ids.items():
        if set(text_of) != set(split.captions):
            raise InputError(
                "not the captions of this split; run remine tric captions on the split", place=captions.uri
            )
        texts = [text_of[index] for index in split.captions]
        if missing := [text for text in texts if text not in vector_of]:
            raise InputError(
                f"{len(missing):,} captions have no vector; run remine embed on {captions.uri}", place=vectors.uri
            )
        worded[wording] = WordedCaptions(texts, list(split.captions), np.stack([vector_of[text] for text in texts]))
    for template in {template for template, _ in worded}:
        for day in split.dates:
            if (template, bucket(day, template)) not in worded:
                raise InputError(
                    f"no captions worded for {bucket(day, template)} ({template}); run "
                    "remine tric captions on the split",
                    place=captions.uri,
                )
    return worded


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
    """Return the ranking in table `neighbors` (remine tric rank) by position in the split.

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
                    f"{query} is not a picture of this split; run remine tric rank on it", place=neighbors.uri
                )
            if index_of.get(item) not in split.captions:
                raise InputError(
                    f"{item} is not in {captions.uri}, or not a caption of this split; run "
                    "remine tric rank with these captions",
                    place=neighbors.uri,
                )
            places[position_of[query]][rank] = index_of[item]
    if not places:
        raise InputError("no ranked picture; run remine tric rank on this split", place=neighbors.uri)
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


def columns(splits: Sequence[Split]) -> dict[str, list[int]]:
    """Return the pooled numbers of several splits: year per picture, words and characters per caption.

    Words are separated by whitespace; a newline counts as one character.
    """
    captions = [text for split in splits for text in split.captions.values()]
    return {
        "year": [day.year for split in splits for day in split.dates],
        "words": [len(text.split()) for text in captions],
        "characters": [len(text) for text in captions],
    }


def statistics(
    splits: Mapping[str, Split], unions: Mapping[str, Sequence[str]], bins: Mapping[str, int]
) -> Iterator[Metric]:
    """Yield the statistics of each split, then of each union; dims `split` and `column`.

    Args:
        splits: name -> split.
        unions: name -> names of splits.
        bins: column -> width of the bins of its histogram.
    """
    total = sum(len(split.pictures) for split in splits.values())
    for name, parts in {**{split: [split] for split in splits}, **unions}.items():
        chosen = [splits[part] for part in parts]
        count = sum(len(split.pictures) for split in chosen)
        for kind, value in ((_INSTANCES, count), (_SHARE, count / total)):
            yield exact(kind, value, count, reason=_EXACT, dims={"split": name})
        for column, numbers in columns(chosen).items():
            for described in (*describe(numbers), *histogram(numbers, bins[column])):
                yield described.at(split=name, column=column)

"""Ranking of a TRIC split's captions for its pictures by their vectors, and evaluation of the rankings."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from actors.ids import content_id
from actors.status import Status
from jobs.corpora.tric import ANSWERS, Split, bucket, decade
from jobs.errors import InputError
from jobs.metrics import ranking
from jobs.metrics.metric import Metric
from jobs.store.reading import TableSource

Vectors = NDArray[np.float16]
Wording = tuple[str, str]  # template, and the date as worded in it
_RANDOM = (
    "Expected MRR of the captions in random order: sum of 1 / rank over the number of captions (TRIC, section VII); "
    "n counts captions."
)


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
        yield Metric(
            name=f"random_mrr@{cut}" if cut else "random_mrr",
            definition=_RANDOM,
            value=ranking.random_mrr(count, cut=cut),
            n=count,
            coverage=1.0,
            reason="no interval: an exact value",
        )
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
                "not the captions of this split; run remine tric_captions on the split", place=captions.uri
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
                    "remine tric_captions on the split",
                    place=captions.uri,
                )
    return worded

"""Entity linking by retrieval: which nodes of a knowledge base a picture shows (CAIRE, sections 3.1, A.3, A.4).

Pure functions of the search results of one picture. Rankings are deterministic: ties are broken by node_id.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from actors.errors import SettingError
from actors.settings import Settings

TEXT_METHODS = ("lemma", "gloss", "article")  # the picture against every text of the knowledge base
VISION_METHODS = ("lemma_vision", "gloss_vision", "frequency_vision")  # the nodes of its nearest pictures
METHODS = (*TEXT_METHODS, *VISION_METHODS)
VECTOR_METHODS = ("lemma_vision", "gloss_vision")  # compare the picture's vector with those of the nodes' texts
LEMMA_AGGREGATIONS = ("max", "mean", "first")  # how the scores of a node's texts become the node's score


@dataclass(kw_only=True)
class LinkSettings(Settings):
    """Settings that determine how nodes are ranked for a picture.

    Raises:
        ValueError: a value that is not allowed; the message begins with KEY=VALUE.
    """

    method: str = "lemma_vision"  # lemma_vision, gloss_vision, frequency_vision, lemma, gloss or article
    k: int = 20  # nodes per picture
    nearest: int = 20  # pictures of the knowledge base that the vision methods use (CAIRE: 20)
    # rarely: score of a node with several lemmas or glosses: max, mean or first (only lemma_vision and gloss_vision)
    lemma_aggregation: str = "max"
    language: str = "en"  # language of the lemma shown for a node whose score is not that of a lemma

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in METHODS:
            raise SettingError(f"must be one of {', '.join(METHODS)}", "method", self.method)
        if self.k < 1:
            raise SettingError("must be at least 1", "k", self.k)
        if self.nearest < 1:
            raise SettingError("must be at least 1", "nearest", self.nearest)
        check_aggregation(self.lemma_aggregation)
        if self.lemma_aggregation != "max" and self.method not in VECTOR_METHODS:
            why = f"only for method={' and '.join(VECTOR_METHODS)}; method={self.method} has max"
            raise SettingError(why, "lemma_aggregation", self.lemma_aggregation)


def check_aggregation(name: str) -> None:
    """Raise ValueError unless `name` is one of LEMMA_AGGREGATIONS."""
    if name not in LEMMA_AGGREGATIONS:
        raise SettingError(f"must be one of {', '.join(LEMMA_AGGREGATIONS)}", "lemma_aggregation", name)


class Link(NamedTuple):
    """A node, its score (higher is nearer) and the text that was scored, if any."""

    node_id: str
    score: float
    text_id: str | None


class LinkedText(NamedTuple):
    """A text among the results of a search, with its node."""

    node_id: str
    text_id: str
    score: float


class NearPicture(NamedTuple):
    """A picture of the knowledge base among the results of a search, with the nodes that have it."""

    nodes: tuple[str, ...]
    score: float


def by_text(hits: Iterable[LinkedText], k: int) -> list[Link]:
    """Return the nodes of the texts, ranked by their best text: methods lemma, gloss and article.

    The result is exact for the whole knowledge base if the hits are its nearest texts and belong to at least k nodes:
    a node that is not among them has no text nearer than the last hit.
    """
    best: dict[str, Link] = {}
    for hit in hits:
        previous = best.get(hit.node_id)
        if previous is None or (-hit.score, hit.text_id) < (-previous.score, previous.text_id or ""):
            best[hit.node_id] = Link(hit.node_id, hit.score, hit.text_id)
    return sorted(best.values(), key=lambda link: (-link.score, link.node_id))[:k]


def candidates(pictures: Iterable[NearPicture]) -> list[str]:
    """Return the distinct nodes of the pictures, sorted by id: the pictures' order no longer counts (A.4)."""
    return sorted({node for picture in pictures for node in picture.nodes})


def by_frequency(pictures: Sequence[NearPicture], k: int) -> list[Link]:
    """Return the nodes ranked by the number of pictures that have them: method frequency_vision.

    The score is that number. Ties are broken by the score of a node's best picture, then by id.
    """
    counts = Counter(node for picture in pictures for node in set(picture.nodes))
    nearest: dict[str, float] = {}
    for picture in pictures:
        for node in picture.nodes:
            nearest[node] = max(picture.score, nearest.get(node, -np.inf))
    order = sorted(counts, key=lambda node: (-counts[node], -nearest[node], node))
    return [Link(node, float(counts[node]), None) for node in order[:k]]


def by_similarity(
    query: np.ndarray, texts: Mapping[str, Sequence[tuple[str, np.ndarray]]], k: int, *, aggregation: str = "max"
) -> list[Link]:
    """Return the candidate nodes ranked by the cosine of their texts with the picture: VECTOR_METHODS.

    Args:
        query: [dim], the picture's L2-normalised vector.
        texts: ids and L2-normalised vectors [dim] of each node's texts, by node, in the knowledge base's order.
        aggregation: score of a node with several texts: their `max`, their `mean`, or the score of the `first`.

    Raises:
        ValueError: `aggregation` is not one of LEMMA_AGGREGATIONS.
    """
    check_aggregation(aggregation)
    links = []
    for node, vectors in texts.items():
        scores = np.stack([vector for _, vector in vectors]).astype(np.float64) @ query.astype(np.float64)
        best = 0 if aggregation == "first" else min(range(len(vectors)), key=lambda i: (-scores[i], vectors[i][0]))
        score = float(scores.mean()) if aggregation == "mean" else float(scores[best])
        links.append(Link(node, score, vectors[best][0]))
    return sorted(links, key=lambda link: (-link.score, link.node_id))[:k]

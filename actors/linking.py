"""Entity linking by retrieval: which nodes of a knowledge base a picture shows (CAIRE, sections 3.1, A.3, A.4).

Pure functions on what a search found for one picture. Every ranking is total: what ties is ordered by node_id.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

TEXT_METHODS = ("lemma", "gloss", "article")  # the picture against every text of the knowledge base
VISION_METHODS = ("lemma_vision", "gloss_vision", "frequency_vision")  # the nodes that its nearest pictures carry
METHODS = (*TEXT_METHODS, *VISION_METHODS)
SEVERAL = ("best", "mean", "first")  # how a node with several texts is scored


class Link(NamedTuple):
    """A node, its score (higher is nearer) and the text that gave it; None where no text did."""

    node_id: str
    score: float
    text_id: str | None


class LinkedText(NamedTuple):
    """A text that a search found, with the node it belongs to."""

    node_id: str
    text_id: str
    score: float


class Seen(NamedTuple):
    """A picture of the knowledge base that a search found, with the nodes that carry it."""

    nodes: tuple[str, ...]
    score: float


def by_text(hits: Iterable[LinkedText], k: int) -> list[Link]:
    """The nodes of the texts found, each by its best text: methods lemma, gloss and article.

    Exact for the whole knowledge base as long as the hits are its nearest texts and belong to k nodes or more:
    a node that is not among them has no text nearer than the last hit.
    """
    best: dict[str, Link] = {}
    for hit in hits:
        known = best.get(hit.node_id)
        if known is None or (-hit.score, hit.text_id) < (-known.score, known.text_id or ""):
            best[hit.node_id] = Link(hit.node_id, hit.score, hit.text_id)
    return sorted(best.values(), key=lambda link: (-link.score, link.node_id))[:k]


def candidates(seen: Iterable[Seen]) -> list[str]:
    """The nodes that the pictures carry, each once, in order of id: how near a picture was no longer counts (A.4)."""
    return sorted({node for picture in seen for node in picture.nodes})


def by_frequency(seen: Sequence[Seen], k: int) -> list[Link]:
    """The nodes by how many of the pictures carry them: method frequency_vision. The score is that number.

    Ties go to the node whose best picture is nearer, then by id.
    """
    counts = Counter(node for picture in seen for node in set(picture.nodes))
    nearest: dict[str, float] = {}
    for picture in seen:
        for node in picture.nodes:
            nearest[node] = max(picture.score, nearest.get(node, -np.inf))
    order = sorted(counts, key=lambda node: (-counts[node], -nearest[node], node))
    return [Link(node, float(counts[node]), None) for node in order[:k]]


def by_similarity(
    query: np.ndarray, texts: Mapping[str, Sequence[tuple[str, np.ndarray]]], k: int, *, several: str = "best"
) -> list[Link]:
    """The candidate nodes by the cosine of their texts with the picture: methods lemma_vision and gloss_vision.

    Args:
        query: [dim], the picture's L2-normalised vector.
        texts: node -> its texts' ids and L2-normalised vectors [dim], in the knowledge base's order.
        several: of a node with several texts: the best one, the mean of all, or the first.

    Raises:
        ValueError: `several` is none of `SEVERAL`.
    """
    if several not in SEVERAL:
        raise ValueError(f"several={several}: one of {', '.join(SEVERAL)}")
    links = []
    for node, of in texts.items():
        scores = np.stack([vector for _, vector in of]).astype(np.float64) @ query.astype(np.float64)
        place = 0 if several == "first" else min(range(len(of)), key=lambda i: (-scores[i], of[i][0]))
        score = float(scores.mean()) if several == "mean" else float(scores[place])
        links.append(Link(node, score, of[place][0]))
    return sorted(links, key=lambda link: (-link.score, link.node_id))[:k]

"""The classes below the concepts and types: all direct and indirect subclasses of their roots.

The edges are held on the driver as two arrays (16 B per edge); Wikidata has about five million.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.terms_from.descriptions import ConceptList, Graph

SUBCLASS, REDIRECT, TITLE = "subclass_of", "redirects_to", "has_title"  # column `relation` of class_edges

Numbers = NDArray[np.int64]


class ClassEdges:
    """The edges in a table `class_edges`, and the entities with a title of one of the concepts."""

    def __init__(self, batches: Iterable[pa.Table]) -> None:
        children, parents = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        self.by_title: dict[str, set[int]] = {}
        for rows in batches:
            is_title = pc.equal(rows["relation"], TITLE)
            titled = rows.filter(is_title)
            for entity, title in zip(_numbers(titled["entity_id"]).tolist(), titled["value"].to_pylist(), strict=True):
                self.by_title.setdefault(title, set()).add(entity)
            edges = rows.filter(pc.invert(is_title))
            children.append(_numbers(edges["entity_id"]))
            parents.append(_numbers(edges["value"]))
        parent = np.concatenate(parents)
        order = np.argsort(parent, kind="stable")
        self._parent, self._child = parent[order], np.concatenate(children)[order]

    def __len__(self) -> int:
        return len(self._parent)

    def below(self, roots: Iterable[int], depth: int | None = None) -> Numbers:
        """Return the roots and all classes below them, ascending; cycles are allowed.

        Args:
            depth: largest number of steps below a root; None: any number.
        """
        reached = np.unique(np.fromiter(roots, np.int64))
        frontier, steps = reached, 0
        while len(frontier) and (depth is None or steps < depth):
            first = np.searchsorted(self._parent, frontier, "left")
            count = np.searchsorted(self._parent, frontier, "right") - first
            at = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
            frontier = np.setdiff1d(self._child[at], reached)
            reached = np.union1d(reached, frontier)
            steps += 1
        return reached


def _numbers(ids: pa.ChunkedArray) -> Numbers:
    numbers: Numbers = pc.utf8_slice_codeunits(ids, 1).cast(pa.int64()).to_numpy()
    return numbers


@dataclass(frozen=True)
class ClassTree:
    """The concepts and the type of each class below a root.

    Attributes:
        number: int64[classes], ascending.
        concepts: bool[concepts] of each class.
        type: index of each class's type; -1 for none.
    """

    number: Numbers
    concepts: NDArray[np.bool_]
    type: NDArray[np.int8]

    @classmethod
    def of(cls, edges: ClassEdges, concepts: ConceptList, graph: Graph, *, depth: int | None) -> "ClassTree":
        """Return the tree below the roots of the concepts (at most `depth` steps) and of the types (any number)."""
        by_concept = [edges.below(roots, depth) for roots in concepts.roots(edges.by_title)]
        by_type = [edges.below(roots) for roots in graph.types.values()]
        number = np.unique(np.concatenate([*by_concept, *by_type]))
        member = np.zeros((len(number), len(by_concept)), bool)
        for index, numbers in enumerate(by_concept):
            member[np.searchsorted(number, numbers), index] = True
        kind = np.full(len(number), -1, np.int8)
        for index, numbers in reversed(list(enumerate(by_type))):
            kind[np.searchsorted(number, numbers)] = index
        return cls(number, member, kind)

    def to_bytes(self) -> bytes:
        """Return the tree as bytes for `from_bytes`."""
        stream = io.BytesIO()
        np.savez_compressed(stream, number=self.number, concepts=self.concepts, type=self.type)
        return stream.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "ClassTree":
        """Return the tree in the bytes of `to_bytes`."""
        with np.load(io.BytesIO(data)) as arrays:
            return cls(arrays["number"], arrays["concepts"], arrays["type"])

    def sizes(self, concepts: ConceptList) -> dict[str, int]:
        """Return the number of classes of each concept."""
        counts = self.concepts.sum(axis=0).tolist()
        return {concept.name: count for concept, count in zip(concepts.concepts, counts, strict=True)}


class ClassLookup:
    """The tree as a dict for one worker; about 100 B per class.

    Args:
        concepts: the concepts' names, in the order of the tree.
    """

    def __init__(self, tree: ClassTree, concepts: Sequence[str]) -> None:
        rows = tree.concepts if len(tree.number) else np.zeros((0, len(concepts)), bool)
        names, inverse = np.unique(rows, axis=0, return_inverse=True)
        groups = [tuple(concepts[index] for index in np.flatnonzero(row).tolist()) for row in names]
        entries = zip(tree.number.tolist(), np.ravel(inverse).tolist(), tree.type.tolist(), strict=True)
        self._of: Mapping[int, tuple[tuple[str, ...], int]] = {
            number: (groups[group], kind) for number, group, kind in entries
        }

    def concepts(self, number: int) -> tuple[str, ...]:
        """Return the concepts of a class; empty if it is below none of them."""
        entry = self._of.get(number)
        return entry[0] if entry else ()

    def type(self, number: int) -> int:
        """Return the index of the type of a class; -1 for none."""
        entry = self._of.get(number)
        return entry[1] if entry else -1

"""Suffixes as trees: what suffixes share beyond the prefix is one branch, and answers of several tokens hang below them.

A row is a tree of tokens in an order in which parents come first. A suffix alone is a chain. Suffixes that share a long
beginning (the label, before several questions) are one row, so that the beginning is computed once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

ROOT = -1  # the prefix's end
# Suffixes that share fewer tokens stay apart: a row of several suffixes attends with a mask instead of in causal order.
SHARED = 8
WIDEST = 512  # tokens of a row that suffixes are added to; attention inside a row grows with its square


@dataclass
class TokenTree:
    """A tree of tokens behind the prefix: token and parent of each node, and its depth (0 follows the prefix)."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, tokens: Sequence[int], *, below: int = ROOT) -> int:
        """Insert a path below a node; what is there already is shared. Returns the path's last node."""
        node = below
        for token in tokens:
            child = self._children.get((node, token))
            if child is None:
                child = len(self.tokens)
                self.tokens.append(token)
                self.parents.append(node)
                self.depths.append(0 if node == ROOT else self.depths[node] + 1)
                self._children[node, token] = child
            node = child
        return node

    @property
    def is_chain(self) -> bool:
        return self.parents == list(range(-1, len(self.parents) - 1))


class SuffixNodes(NamedTuple):
    """Where a request's hidden states are: its row, the suffix's last node, the nodes of its answers' inner tokens."""

    row: int
    last: int
    inner: tuple[int, ...]


def rows_of(
    suffixes: Sequence[list[int]], inner: Sequence[Sequence[tuple[int, ...]]]
) -> tuple[list[TokenTree], list[SuffixNodes]]:
    """Arrange `suffixes` in rows.

    Args:
        suffixes: token ids of each request behind the prefix, at least one.
        inner: for each request the paths, below its suffix, after which a next token is asked for.
    """
    rows: list[TokenTree] = []
    places: dict[int, SuffixNodes] = {}
    before: Sequence[int] = ()
    for number in sorted(range(len(suffixes)), key=lambda i: suffixes[i]):
        suffix = suffixes[number]
        if not rows or common(before, suffix) < min(SHARED, len(suffix)) or len(rows[-1].tokens) >= WIDEST:
            rows.append(TokenTree())
        row = rows[-1]
        last = row.add(suffix)
        places[number] = SuffixNodes(len(rows) - 1, last, tuple(row.add(path, below=last) for path in inner[number]))
        before = suffix
    return rows, [places[number] for number in range(len(suffixes))]


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences share at their beginning."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def shared_length(sequences: Sequence[list[int]]) -> int:
    """Tokens that all `sequences` share, at least one less than the shortest has."""
    # Of sorted sequences the first and the last differ earliest.
    first, last = min(sequences), max(sequences)
    return min(common(first, last), min(map(len, sequences)) - 1)


def groups(rows: Sequence[TokenTree], limit: int) -> Iterator[list[int]]:
    """Numbers of rows that pass together: similar lengths, at most `limit` tokens with padding, at least one row."""
    group: list[int] = []
    for number in sorted(range(len(rows)), key=lambda i: (len(rows[i].tokens), i)):
        if group and (len(group) + 1) * len(rows[number].tokens) > limit:
            yield group
            group = []
        group.append(number)
    if group:
        yield group


class PackedRows(NamedTuple):
    """Rows as tensors; padding is to the right."""

    ids: Any  # [rows, width]
    depths: Any  # [rows, width]
    real: Any  # [rows, width] bool: not padding
    ancestors: Any  # [rows, width, width] bool, what a token sees of its row; None if all rows are chains


def block(rows: Sequence[TokenTree]) -> PackedRows:
    """Lay `rows` side by side. Padding sees itself only, so that it is a number that nobody reads."""
    import torch

    width = max(len(row.tokens) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    depths, real = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    for number, row in enumerate(rows):
        length = len(row.tokens)
        ids[number, :length] = torch.tensor(row.tokens)
        depths[number, :length] = torch.tensor(row.depths)
        real[number, :length] = True
    if all(row.is_chain for row in rows):
        return PackedRows(ids, depths, real, None)
    ancestors = torch.eye(width, dtype=torch.bool).repeat(len(rows), 1, 1)
    for number, row in enumerate(rows):
        for node, parent in enumerate(row.parents):
            if parent != ROOT:
                ancestors[number, node] |= ancestors[number, parent]
    return PackedRows(ids, depths, real, ancestors)

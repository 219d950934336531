"""Suffixes as trees of tokens: what they share beyond the prefix is one branch, with answers below them.

A row is a tree of tokens in which parents precede their children. A single suffix is a chain. Suffixes that share a
long beginning (a label followed by several questions) form one row, so that the beginning is computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

ROOT = -1  # the prefix's end
# Suffixes that share fewer tokens get separate rows, since a row of several suffixes needs an attention mask.
MIN_SHARED = 8
WIDEST = 512  # tokens of a row beyond which no suffix is added; attention within a row is quadratic in its width


@dataclass
class TokenTree:
    """A tree of tokens after the prefix: token and parent of each node, and its depth (0 follows the prefix)."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, tokens: Sequence[int], *, below: int = ROOT) -> int:
        """Insert a path below a node, reusing existing nodes; return the path's last node."""
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
        """Whether each node follows the one before it."""
        return self.parents == list(range(-1, len(self.parents) - 1))


class SuffixNodes(NamedTuple):
    """The nodes of one suffix: its row, its last node, and the nodes of its answers' inner tokens."""

    row: int
    last: int
    inner: tuple[int, ...]


def rows_of(
    suffixes: Sequence[list[int]], inner: Sequence[Sequence[tuple[int, ...]]]
) -> tuple[list[TokenTree], list[SuffixNodes]]:
    """Arrange suffixes in rows.

    Args:
        suffixes: token ids of each suffix, at least one.
        inner: the beginnings of each suffix's answers after which another token follows (`AnswerCodes.inner`).

    Returns:
        (the rows, the nodes of each suffix in the order of `suffixes`).
    """
    rows: list[TokenTree] = []
    nodes: dict[int, SuffixNodes] = {}
    previous: Sequence[int] = ()
    for number in sorted(range(len(suffixes)), key=lambda i: suffixes[i]):
        suffix = suffixes[number]
        if not rows or common(previous, suffix) < min(MIN_SHARED, len(suffix)) or len(rows[-1].tokens) >= WIDEST:
            rows.append(TokenTree())
        row = rows[-1]
        last = row.add(suffix)
        nodes[number] = SuffixNodes(len(rows) - 1, last, tuple(row.add(path, below=last) for path in inner[number]))
        previous = suffix
    return rows, [nodes[number] for number in range(len(suffixes))]


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two sequences share at the beginning."""
    for place, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return place
    return min(len(first), len(second))


def shared_length(sequences: Sequence[list[int]]) -> int:
    """Return how many tokens all `sequences` share at the beginning, leaving each at least one token."""
    # In sorted order, the first and the last sequence differ earliest.
    first, last = min(sequences), max(sequences)
    return min(common(first, last), min(map(len, sequences)) - 1)


def groups(rows: Sequence[TokenTree], limit: int) -> Iterator[list[int]]:
    """Yield indices of rows that pass together: of similar length, at most `limit` tokens with padding, or one row."""
    group: list[int] = []
    for number in sorted(range(len(rows)), key=lambda i: (len(rows[i].tokens), i)):
        if group and (len(group) + 1) * len(rows[number].tokens) > limit:
            yield group
            group = []
        group.append(number)
    if group:
        yield group


class PackedRows(NamedTuple):
    """Rows as tensors, padded on the right.

    Attributes:
        ids: [rows, width] token ids, int64.
        depths: [rows, width] int64; 0 for padding.
        real: [rows, width] bool, False for padding.
        ancestors: [rows, width, width] bool, whether a token sees another of its row; None if all rows are chains.
    """

    ids: Tensor
    depths: Tensor
    real: Tensor
    ancestors: Tensor | None


def block(rows: Sequence[TokenTree]) -> PackedRows:
    """Pack rows into tensors. Padding attends only to itself; its outputs are ignored."""
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

"""Suffixes as rows for models that keep states: each branch of a tree passes after the tokens above it.

Layers with linear attention or a convolution keep no keys of earlier tokens, but a state, from which they continue. So
tokens cannot pass as one sequence in which each sees only its own earlier ones, as in `actors.vlm.attention`: each row
of a pass is one unbranched piece of a suffix and starts from the state after the tokens above it, which is the prefix's
or that of an earlier pass. Attention layers see the prefix, the tokens above, and the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.vlm.token_trees import ROOT, TokenTree

if TYPE_CHECKING:
    from torch import Tensor

    from actors.vlm.model_types import KeysValues

    StatePlace = tuple[int, int]  # a layer, and the number of its state

REPEATED = -1  # the node of a token whose states another piece computes
PADDING_SHARE = 0.2  # largest share of padding in a pass; a piece with branches below it passes without


class Branch(NamedTuple):
    """What a model keeps of the tokens between the prefix and a pass; of the prefix itself, only the states.

    Attributes:
        keys: keys and values [rows, key heads, length, head size] by layer with attention.
        convolutions, recurrent: states [rows, ...]; those after the prefix have one row, with which all begin.
        length: number of tokens between the prefix and the pass.
    """

    keys: dict[int, KeysValues]
    convolutions: dict[StatePlace, Tensor]
    recurrent: dict[StatePlace, Tensor]
    length: int = 0

    @property
    def state_bytes(self) -> int:
        """The bytes of all states."""
        return sum(state.nbytes for states in (self.convolutions, self.recurrent) for state in states.values())

    def rows(self, numbers: Sequence[int]) -> Branch:
        """Return the branch with these rows, which may repeat."""
        import torch

        if not self.length:
            return self
        order = torch.tensor(numbers)

        def chosen(tensor: Tensor) -> Tensor:
            return tensor.index_select(0, order.to(tensor.device))

        return Branch(
            {layer: (chosen(keys), chosen(values)) for layer, (keys, values) in self.keys.items()},
            {place: chosen(state) for place, state in self.convolutions.items()},
            {place: chosen(state) for place, state in self.recurrent.items()},
            self.length,
        )

    def followed_by(self, below: Branch, width: int) -> Branch:
        """Return the branch after a pass of `width` tokens per row, which left `below`."""
        import torch

        keys = below.keys
        if self.length:
            keys = {
                layer: (torch.cat([self.keys[layer][0], later], 2), torch.cat([self.keys[layer][1], values], 2))
                for layer, (later, values) in below.keys.items()
            }
        return Branch(keys, below.convolutions, below.recurrent, self.length + width)


NOTHING = Branch({}, {}, {})


def states_of(layers: Sequence[Any]) -> Branch:
    """Return the states in the layers of a cache, after a prefix of one row."""
    convolutions: dict[StatePlace, Tensor] = {}
    recurrent: dict[StatePlace, Tensor] = {}
    for number, layer in enumerate(layers):
        for states, attribute in ((convolutions, "conv_states"), (recurrent, "recurrent_states")):
            for place, state in (getattr(layer, attribute, None) or {}).items():
                if state is not None:
                    states[number, place] = state
    return Branch({}, convolutions, recurrent)


@dataclass
class SuffixPiece:
    """An unbranched piece of a suffix.

    Attributes:
        row: number of the tree.
        nodes, tokens: its nodes in the tree, and their token ids.
        parent: number of the row, in the pass above, that it continues.
        below: the pieces after its last token.
    """

    row: int
    nodes: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    parent: int = 0
    below: list[SuffixPiece] = field(default_factory=list)


def pieces(trees: Sequence[TokenTree]) -> list[SuffixPiece]:
    """Return the pieces that follow the prefix, with those below them."""
    first: list[SuffixPiece] = []
    for row, tree in enumerate(trees):
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(tree.parents):
            children.setdefault(parent, []).append(node)
        piece_of: dict[int, SuffixPiece] = {}
        for node, parent in enumerate(tree.parents):  # parents precede their children
            if parent != ROOT and len(children[parent]) == 1:
                piece = piece_of[parent]
            else:
                piece = SuffixPiece(row)
                (first if parent == ROOT else piece_of[parent].below).append(piece)
            piece.nodes.append(node)
            piece.tokens.append(tree.tokens[node])
            piece_of[node] = piece
    return _without_steps(first)


def _without_steps(pieces: Sequence[SuffixPiece]) -> list[SuffixPiece]:
    """Return the pieces, where one of a single token with pieces below it passes again with each of them.

    Models compute a pass of a single token by other code, which changes the states in place (Mamba 2, Kimi Linear).
    """
    passing: list[SuffixPiece] = []
    for piece in pieces:
        if len(piece.tokens) > 1 or not piece.below:
            passing.append(piece)
            continue
        for number, below in enumerate(piece.below):
            below.tokens[:0] = piece.tokens
            below.nodes[:0] = piece.nodes if number == 0 else [REPEATED] * len(piece.nodes)
        passing += _without_steps(piece.below)
    for piece in passing:
        piece.below = _without_steps(piece.below)
    return passing


def groups(waiting: Sequence[SuffixPiece]) -> Iterator[list[SuffixPiece]]:
    """Yield the pieces that pass together: with pieces below them, of one length; else, with little padding."""
    group: list[SuffixPiece] = []
    for piece in sorted(waiting, key=lambda piece: (not piece.below, len(piece.tokens))):
        if group:
            shortest, is_same = len(group[0].tokens), len(group[0].tokens) == len(piece.tokens)
            fits = not group[0].below and shortest >= len(piece.tokens) * (1 - PADDING_SHARE)
            if bool(piece.below) != bool(group[0].below) or not (is_same or fits):
                yield group
                group = []
        group.append(piece)
    if group:
        yield group

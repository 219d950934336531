"""Pieces of suffixes cover each token once, and no pass with pieces below it has a single token."""

from actors.vlm.branches import REPEATED, SuffixPiece, pieces
from actors.vlm.token_trees import ROOT, TokenTree


def tree(tokens: list[int], parents: list[int]) -> TokenTree:
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent == ROOT else depths[parent] + 1)
    return TokenTree(tokens=tokens, parents=parents, depths=depths)


def paths(piece: SuffixPiece, above: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    path = (*above, *piece.tokens)
    return [path] if not piece.below else [longer for below in piece.below for longer in paths(below, path)]


def nodes(piece: SuffixPiece) -> list[int]:
    return [node for node in piece.nodes if node != REPEATED] + [node for below in piece.below for node in nodes(below)]


def test_a_piece_of_one_token_passes_again_with_those_below_it() -> None:
    """A token after the prefix, then answers; one of them begins another (5 and 5, 6)."""
    first = pieces([tree([1, 5, 6, 7, 8, 9], [ROOT, 0, 1, 0, 3, 3])])
    assert [piece.tokens for piece in first] == [[1, 5, 6], [1, 7]]
    assert [piece.nodes for piece in first] == [[0, 1, 2], [REPEATED, 3]]
    assert sorted(path for piece in first for path in paths(piece)) == [(1, 5, 6), (1, 7, 8), (1, 7, 9)]
    assert sorted(node for piece in first for node in nodes(piece)) == [0, 1, 2, 3, 4, 5]
    assert [piece.tokens for piece in pieces([tree([1], [ROOT]), tree([1, 2], [ROOT, 0])])] == [[1], [1, 2]]

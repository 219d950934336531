"""Suffixes as trees: each path is complete, shared tokens occur once, groups stay within their limit."""

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.vlm.token_trees import MIN_SHARED, ROOT, WIDEST, TokenTree, block, common, groups, rows_of, shared_length

SUFFIXES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=14), min_size=1, max_size=12)


def path(row: TokenTree, node: int) -> list[int]:
    """Return the tokens from the prefix's end to `node`."""
    tokens: list[int] = []
    while node != ROOT:
        tokens.insert(0, row.tokens[node])
        node = row.parents[node]
    return tokens


@settings(deadline=None, max_examples=150)
@given(suffixes=SUFFIXES, answers=st.lists(st.lists(st.integers(3, 5), min_size=1, max_size=3).map(tuple), max_size=3))
def test_every_suffix_and_answer_is_a_path(suffixes: list[list[int]], answers: list[tuple[int, ...]]) -> None:
    rows, places = rows_of(suffixes, [answers] * len(suffixes))
    for suffix, place in zip(suffixes, places, strict=True):
        row = rows[place.row]
        assert path(row, place.last) == suffix
        assert [path(row, node) for node in place.inner] == [[*suffix, *answer] for answer in answers]
        assert row.depths[place.last] == len(suffix) - 1
    for row in rows:
        assert all(parent < node for node, parent in enumerate(row.parents))
    assert sum(len(row.tokens) for row in rows) <= sum(len(t) + sum(map(len, answers)) for t in suffixes)


def test_long_common_beginnings_are_computed_once() -> None:
    label = list(range(100, 100 + 2 * MIN_SHARED))
    suffixes = [[*label, 1, 2], [7, 8], [*label, 3], [9], [200] * len([*label, 3])]
    rows, places = rows_of(suffixes, [()] * 5)
    # 16 of the label + 2 + 1, and the three others apart
    assert sorted(len(row.tokens) for row in rows) == [1, 2, 2 * MIN_SHARED + 1, 2 * MIN_SHARED + 3]
    assert places[0].row == places[2].row
    assert rows[places[1].row].is_chain
    assert not rows[places[0].row].is_chain


def test_rows_that_are_long_or_share_little_take_no_further_suffix() -> None:
    def rows(*suffixes: list[int]) -> list[int]:
        return [len(row.tokens) for row in rows_of(suffixes, [()] * len(suffixes))[0]]

    shared = list(range(MIN_SHARED))
    assert rows([*shared, 100], [*shared, 101]) == [MIN_SHARED + 2]
    assert rows([*shared[:-1], 100], [*shared[:-1], 101]) == [MIN_SHARED, MIN_SHARED]
    assert rows([1, 2], [1, 2]) == [2]  # the whole of a short one
    assert rows([1, 2], [1, 2, 3]) == [2, 3]
    long = list(range(WIDEST - 1))
    assert rows([*long, 600], [*long, 601]) == [WIDEST, WIDEST]
    assert rows([*long[:-1], 600], [*long[:-1], 601]) == [WIDEST]


def test_groups_of_similar_rows() -> None:
    rows = [TokenTree(tokens=[0] * length) for length in (5, 2, 3, 2, 9)]
    assert list(groups(rows, 6)) == [[1, 3], [2], [0], [4]]
    assert list(groups(rows, 9)) == [[1, 3, 2], [0], [4]]
    assert list(groups(rows, 10)) == [[1, 3, 2], [0], [4]]
    assert list(groups(rows, 20)) == [[1, 3, 2, 0], [4]]


@settings(deadline=None, max_examples=100)
@given(suffixes=SUFFIXES)
def test_shared_length_leaves_each_a_token(suffixes: list[list[int]]) -> None:
    length = shared_length(suffixes)
    assert 0 <= length < min(map(len, suffixes))
    assert all(common(suffixes[0], suffix) >= length for suffix in suffixes)
    at_least = min(*(common(suffixes[0], t) for t in suffixes), min(map(len, suffixes)) - 1)
    assert length == at_least
    assert all(common(first, second) <= min(len(first), len(second)) for first in suffixes for second in suffixes)


@settings(deadline=None, max_examples=100)
@given(lengths=st.lists(st.integers(1, 30), max_size=20), limit=st.integers(1, 60))
def test_groups_hold_every_row_once_within_the_limit(lengths: list[int], limit: int) -> None:
    rows = [TokenTree(tokens=[0] * n) for n in lengths]
    results = list(groups(rows, limit))
    assert sorted(n for group in results for n in group) == list(range(len(rows)))
    for group in results:
        assert len(group) == 1 or len(group) * max(lengths[n] for n in group) <= limit


def test_padding_sees_itself_only() -> None:
    rows = [TokenTree(), TokenTree()]
    rows[0].add([1, 2, 3])
    rows[0].add([1, 4])
    rows[1].add([5])
    token_block = block(rows)
    assert token_block.ids.tolist() == [[1, 2, 3, 4], [5, 0, 0, 0]]
    assert token_block.depths.tolist() == [[0, 1, 2, 1], [0, 0, 0, 0]]
    assert token_block.real.tolist() == [[True] * 4, [True, False, False, False]]
    assert token_block.ancestors is not None
    assert token_block.ancestors[0].long().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 1]]
    assert token_block.ancestors[1].long().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]

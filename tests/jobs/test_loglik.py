"""`loglik`: the labels that it scores."""

from jobs import (
    loglik,
)


def test_the_longest_label_is_counted_in_bytes_with_its_space() -> None:
    assert [loglik._longest(labels) for labels in ([], ["a"], ["Peru", "Türkei"], ["Peru", "Mali"])] == [1, 2, 8, 5]

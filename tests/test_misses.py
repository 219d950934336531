"""The helper that checks many cases in one test names each wrong one and hides none."""

import pytest

from tests.misses import LONGEST_NAME, misses


def check_half(number: int, half: int) -> None:
    assert number / half == 2


def test_every_wrong_case_is_named_with_its_error() -> None:
    wrong = misses(check_half, [(4, 2), (5, 2), (1, 0), (6, 3)])
    assert list(wrong) == ["(5, 2)", "(1, 0)"]
    assert "(5 / 2) == 2" in wrong["(5, 2)"]
    assert wrong["(1, 0)"].startswith("ZeroDivisionError: division by zero (test_misses.py:")
    assert list(misses(check_half, {"right": (4, 2), "wrong": (4, 1)})) == ["'wrong'"]


def test_an_error_that_does_not_come_is_a_miss() -> None:
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    assert list(misses(check, ["x", "7", ""])) == ["'7'"]


def test_equal_and_long_names_hide_no_case() -> None:
    long = "x" * 1000
    wrong = misses(check_half, [(1, 1), (1, 1), (long, 2), (long, 3)])
    assert len(wrong) == 4
    assert max(map(len, wrong)) < LONGEST_NAME + 10


def test_no_cases_and_a_skip_are_no_success() -> None:
    with pytest.raises(AssertionError, match="no cases"):
        misses(check_half, [])
    with pytest.raises(pytest.skip.Exception):
        misses(pytest.skip, ["the reason"])

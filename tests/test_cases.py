"""The helper that checks many cases in one test names each wrong one and hides none."""

import pytest

from tests.cases import LONGEST_NAME, check_cases


def check_half(number: int, half: int) -> None:
    assert number / half == 2


def test_every_wrong_case_is_named_with_its_error() -> None:
    check_cases(check_half, [(4, 2), (6, 3)])
    with pytest.raises(AssertionError, match=r"^2 of 4 cases are wrong\n") as raised:
        check_cases(check_half, [(4, 2), (5, 2), (1, 0), (6, 3)])
    lines = str(raised.value).splitlines()
    assert lines[1].startswith("(5, 2): assert (5 / 2) == 2")
    assert lines[-1].startswith("(1, 0): ZeroDivisionError: division by zero (test_cases.py:")
    with pytest.raises(AssertionError, match=r"^1 of 2 cases are wrong\n'double': "):
        check_cases(check_half, {"half": (4, 2), "double": (4, 8)})


def test_a_case_whose_error_is_not_raised_fails() -> None:
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(AssertionError, match=r"^1 of 3 cases are wrong\n'7': DID NOT RAISE"):
        check_cases(check, ["x", "7", ""])


def test_long_values_are_cut_and_equal_ones_counted() -> None:
    long = "x" * 1000
    with pytest.raises(AssertionError, match=r"^4 of 4 cases") as raised:
        check_cases(check_half, [(1, 1), (1, 1), (long, 2), (long, 3)])
    assert max(map(len, str(raised.value).splitlines())) < LONGEST_NAME + 100


def test_no_cases_and_a_skip_are_no_success() -> None:
    with pytest.raises(AssertionError, match="no cases"):
        check_cases(check_half, [])
    with pytest.raises(pytest.skip.Exception):
        check_cases(pytest.skip, ["the reason"])

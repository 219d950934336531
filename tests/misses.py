"""Cheap cases that one test checks, of which a failure names every wrong one."""

import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

LONGEST_NAME = 200  # characters of a case's values in a message


def misses(check: Callable[..., object], cases: Iterable[Any]) -> dict[str, str]:
    """Call `check` with the values of every case; return case -> error, of the cases that fail.

    A test asserts that the result is `{}`. It is for cases that share nothing and take milliseconds; others are items
    of `pytest.mark.parametrize`.

    Args:
        check: a test with the values of a case as arguments.
        cases: of each case a tuple of arguments, or the only argument; of a mapping, name -> case.
    """
    wrong: dict[str, str] = {}
    number = 0
    for number, case in enumerate(cases, 1):
        values = cases[case] if isinstance(cases, Mapping) else case
        try:
            check(*values) if isinstance(values, tuple) else check(values)
        except (Exception, pytest.fail.Exception) as error:
            name = repr(case)
            name = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
            wrong[name if name not in wrong else f"{name} ({number})"] = text_of(error)
    assert number, "no cases"
    return wrong


def text_of(error: BaseException) -> str:
    """The error in one line, with its place if it is none of a test's own."""
    text = " ".join(str(error).split())
    if isinstance(error, AssertionError | pytest.fail.Exception):
        return text
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {text} ({Path(last.filename).name}:{last.lineno})"

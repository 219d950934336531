"""Cheap cases that one test checks, of which a failure names every wrong one."""

import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

LONGEST_NAME = 200  # characters of a case's values in a message


def check_cases(check: Callable[..., object], cases: Iterable[Any]) -> None:
    """Call `check` with the values of every case.

    It is for cases that share nothing and take milliseconds; others are items of `pytest.mark.parametrize`.

    Args:
        check: a test with the values of a case as arguments.
        cases: of each case a tuple of arguments, or the only argument; of a mapping, name -> case.

    Raises:
        AssertionError: names each case that fails, with its error.
    """
    __tracebackhide__ = True
    named = list(cases.items()) if isinstance(cases, Mapping) else [(case, case) for case in cases]
    assert named, "no cases"
    wrong: list[str] = []
    for case, values in named:
        try:
            check(*values) if isinstance(values, tuple) else check(values)
        except (Exception, pytest.fail.Exception) as error:
            name = repr(case)
            name = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
            wrong.append(f"{name}: {_text(error)}")
    if wrong:
        raise AssertionError(f"{len(wrong)} of {len(named)} cases are wrong\n" + "\n".join(wrong))


def _text(error: BaseException) -> str:
    """Return the error, with its place unless a test defines it."""
    if isinstance(error, AssertionError | pytest.fail.Exception):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"

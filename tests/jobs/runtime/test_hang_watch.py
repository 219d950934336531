"""The time of a piece of work begins anew with each sign of progress, and ends with it."""

import faulthandler
from typing import Any

import pytest

from jobs.runtime.hang_watch import STDERR, HangWatch


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The timers that were set (seconds) and cancelled (None)."""
    timers: list[Any] = []

    def begin(seconds: float, *, exit: bool, file: int) -> None:
        assert (exit, file) == (True, STDERR)
        timers.append(seconds)

    monkeypatch.setattr(faulthandler, "dump_traceback_later", begin)
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: timers.append(None))
    return timers


def test_each_sign_of_progress_starts_the_time_anew(calls: list[Any]) -> None:
    watch = HangWatch(5.0)
    watch.progress()
    assert calls == [], "nothing is watched yet"
    with watch.watching():
        assert calls == [5.0]
        watch.progress()
    assert calls == [5.0, 5.0, None]
    watch.progress()
    assert calls == [5.0, 5.0, None], "nothing is watched any more"


def test_the_watch_ends_with_an_error(calls: list[Any]) -> None:
    watch = HangWatch(5.0)
    with pytest.raises(KeyError), watch.watching():
        raise KeyError
    watch.progress()
    assert calls == [5.0, None]


def test_without_a_limit_nothing_is_watched(calls: list[Any]) -> None:
    watch = HangWatch(None)
    with watch.watching():
        watch.progress()
    assert calls == []

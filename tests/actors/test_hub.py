"""A busy hub is asked again after a pause; what waiting does not help is raised at once."""

from types import SimpleNamespace

import pytest

from actors import hub

READ_TIMEOUT = type("ReadTimeout", (Exception,), {"__module__": "httpx2._exceptions"})  # of the hub's HTTP client


def wrapped(cause: Exception) -> OSError:
    """As transformers raises the hub's errors."""
    error = OSError("We couldn't connect to the hub")
    error.__cause__ = cause
    return error


class AnswerError(OSError):
    """As `huggingface_hub.errors.HfHubHTTPError`."""

    def __init__(self, status: int, **headers: str) -> None:
        self.response = SimpleNamespace(status_code=status, headers=headers)


def load_after(*errors: Exception) -> tuple[str, list[float]]:
    """What is loaded after `errors`, and the pauses between the attempts."""
    left, pauses = list(errors), list[float]()

    def load() -> str:
        if left:
            raise left.pop(0)
        return "loaded"

    return hub.with_retries(load, pause=pauses.append), pauses


def test_a_busy_hub_is_asked_again_after_growing_pauses() -> None:
    errors = [
        wrapped(AnswerError(503)),
        wrapped(READ_TIMEOUT()),
        AnswerError(429, **{"Retry-After": "60"}),
        ConnectionError(),
    ]
    loaded, pauses = load_after(*errors)
    assert loaded == "loaded"
    least = (hub.PAUSES_S[0], hub.PAUSES_S[1], 60.0, hub.PAUSES_S[3])
    assert all(low <= pause <= 1.25 * low for low, pause in zip(least, pauses, strict=True))
    with pytest.raises(ConnectionError):  # the last attempt's error is the run's
        load_after(*[ConnectionError()] * 5)
    _, (pause,) = load_after(AnswerError(429, **{"Retry-After": "86400"}))
    assert pause <= 1.25 * hub.LONGEST_PAUSE_S


def test_other_errors_are_raised_at_once() -> None:
    for error in (
        wrapped(AnswerError(404)),
        AnswerError(403),
        ValueError("no such engine"),
        MemoryError(),
        OSError("disk full"),
    ):
        with pytest.raises(type(error)):
            load_after(error)

"""A busy hub is asked again after a pause; what waiting does not help is raised at once."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest

from actors import hub
from tests.cases import check_cases

READ_TIMEOUT = type("ReadTimeout", (Exception,), {"__module__": "httpx2._exceptions"})  # of the hub's HTTP client


def wrapped(cause: Exception) -> OSError:
    """Return one of the hub's errors in the form in which transformers raises it."""
    error = OSError("We couldn't connect to the hub")
    error.__cause__ = cause
    return error


class AnswerError(OSError):
    """Stand-in for `huggingface_hub.errors.HfHubHTTPError`."""

    def __init__(self, status: int, **headers: str) -> None:
        self.response = SimpleNamespace(status_code=status, headers=headers)


def load_after(*errors: Exception) -> tuple[str, list[float]]:
    """Return what is loaded after `errors`, and the pauses between the attempts."""
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
    least = (5.0, 15.0, 60.0, 120.0)
    assert all(low <= pause <= 1.25 * low for low, pause in zip(least, pauses, strict=True))
    _, pauses = load_after(*[TimeoutError()] * 4)
    assert all(low <= pause <= 1.25 * low for low, pause in zip((5, 15, 45, 120), pauses, strict=True))
    with pytest.raises(ConnectionError):  # the last attempt's error is the run's
        load_after(*[ConnectionError()] * 5)
    _, (pause,) = load_after(AnswerError(429, **{"Retry-After": "86400"}))
    assert 300 <= pause <= 1.25 * 300


def test_pauses_are_up_to_a_quarter_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = {"least": min, "most": max}

    def pauses(bound: str, *errors: Exception) -> list[float]:
        monkeypatch.setattr("random.uniform", lambda *ends: bounds[bound](ends))
        return load_after(*errors)[1]

    assert pauses("least", *[TimeoutError()] * 4) == [5, 15, 45, 120]
    assert pauses("most", *[TimeoutError()] * 4) == [6.25, 18.75, 56.25, 150]
    asked = [AnswerError(503, **{"Retry-After": str(seconds)}) for seconds in (4, 299, 301)]
    assert pauses("least", *asked) == [5, 299, 300]


def test_interruptions_of_every_client_are_waited_for() -> None:
    cases = [
        *((name, "httpx") for name in ("ConnectError", "ReadError", "RemoteProtocolError", "ChunkedEncodingError")),
        *(("ReadTimeout", module) for module in ("httpcore", "requests.exceptions", "urllib3", "huggingface_hub.x")),
    ]

    def check(name: str, module: str) -> None:
        assert load_after(type(name, (Exception,), {"__module__": module})())[0] == "loaded"

    check_cases(check, cases)
    with pytest.raises(Exception, match="HTTPError"):
        load_after(type("InvalidURL", (Exception,), {"__module__": "httpx"})("HTTPError"))


def test_statuses_of_a_busy_hub() -> None:
    def check(status: int) -> None:
        _, (pause,) = load_after(AnswerError(status, **{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}))
        assert hub.PAUSES_S[0] <= pause <= 1.25 * hub.PAUSES_S[0]

    check_cases(check, [408, 429, 500, 502, 503, 504])


@pytest.fixture
def on_hub(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that sets which files are cached and on the hub, and returns a list of those asked for."""

    def setting(*, cached: tuple[str, ...] = (), online: tuple[str, ...] = (), offline: bool = False) -> list[str]:
        asked = []

        def metadata(url: str, *, timeout: float) -> None:
            asked.append(url)
            if url.rpartition("/")[2] not in online:
                raise TimeoutError("slow\nvery")

        monkeypatch.setattr(hub, "_cached", lambda _, name, __: name if name in cached else None)
        monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", metadata)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
        return asked

    return setting


def test_a_model_is_looked_for_in_the_cache_and_on_the_hub(tmp_path: Path, on_hub: Callable[..., list[str]]) -> None:
    files = ("a.json", "b.json")
    asked = on_hub(cached=("b.json",), offline=True)
    hub.check_reachable("org/name", files=files)
    hub.check_reachable(str(tmp_path), files=())
    assert asked == []
    asked = on_hub(online=("b.json",))
    hub.check_reachable("org/name", files=files, revision="v2")
    assert [url.partition("/org/name/resolve/")[2] for url in asked] == ["v2/a.json", "v2/b.json"]
    for options, message in (
        ({}, r"org/name: revision main is not in the cache, and the hub cannot be reached \(TimeoutError: slow\)"),
        ({"offline": True, "online": files}, "HF_HUB_OFFLINE forbids"),
    ):
        on_hub(**options)
        with pytest.raises(ValueError, match=message):
            hub.check_reachable("org/name", files=files)
        with pytest.raises(ValueError, match=message):
            hub.read("org/name", "a.json")


def test_the_reason_of_a_failed_request_is_the_setting_if_it_forbids_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    for offline, reason in (
        (True, "HF_HUB_OFFLINE forbids"),
        (False, "the hub cannot be reached (TimeoutError: slow)"),
    ):
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
        assert hub._reason(TimeoutError("slow")).startswith(reason)


def test_a_cached_file_is_read_without_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text("ä", encoding="utf-8")
    monkeypatch.setattr(hub, "_cached", lambda *_: str(tmp_path / "a.json"))
    assert hub.read("org/name", "a.json") == "ä"


def test_a_file_that_is_not_cached_is_downloaded(
    tmp_path: Path, on_hub: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text("ä", encoding="utf-8")
    downloads: list[tuple[object, ...]] = []

    def download(*place: str, revision: str | None, etag_timeout: float) -> str:
        downloads.append((*place, revision))
        return str(tmp_path / "a.json")

    asked = on_hub(online=("a.json",))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert hub.read("org/name", "a.json", revision="v2") == "ä"
    assert [url.partition("/org/name/resolve/")[2] for url in asked] == ["v2/a.json"]
    assert downloads == [("org/name", "a.json", "v2")]


def answer_of(kind: type[Exception], status: int) -> Exception:
    """Return an error of the hub's client, whose constructor differs between its versions."""
    error = kind.__new__(kind)
    error.response = SimpleNamespace(status_code=status)  # type: ignore[attr-defined]
    return error


def test_why_a_file_is_not_available(on_hub: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, HfHubHTTPError

    cases: list[tuple[Exception, str]] = [
        (answer_of(GatedRepoError, 403), "it is gated"),
        (answer_of(HfHubHTTPError, 401), "does not have it or denies access (HTTP 401)"),
        (ConnectionError("no route\nat all"), "cannot be reached (ConnectionError: no route)"),
    ]
    on_hub()
    for error, reason in cases:

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", fail)
        place = "org/name: revision v2 is not in the cache, and "
        for ask in (
            lambda: hub.read("org/name", "a.json", revision="v2"),
            lambda: hub.check_reachable("org/name", files=("a.json",), revision="v2"),
        ):
            with pytest.raises(ValueError, match="^" + re.escape(place) + ".*" + re.escape(reason)):
                ask()
        assert hub.refusal("org/name", error, revision="v2").startswith(place)
        assert reason in hub.refusal("org/name", error)

    def lack(*_: object, **__: object) -> None:
        raise answer_of(EntryNotFoundError, 404)

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lack)
    assert hub.read("org/name", "a.json") is None


def test_what_the_cache_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "snapshots" / ("ab" * 20) / "config.json"
    asked: list[tuple[str, str, str | None]] = []

    def look(repository: str, name: str, *, revision: str | None) -> object:
        asked.append((repository, name, revision))
        return str(file) if revision == "v2" else object()  # the cache knows that the file does not exist

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", look)
    assert hub.commit("org/name", "config.json", revision="v2") == "ab" * 20
    assert hub.commit("org/name", "config.json") is None
    assert [hub.is_cached("org/name", "config.json", revision) for revision in ("v2", None)] == [True, False]
    assert asked == [("org/name", "config.json", revision) for revision in ("v2", None, "v2", None)]
    assert hub.is_cached(str(tmp_path), "config.json")


def test_other_errors_are_raised_at_once() -> None:
    for error in (
        type("ReadTimeout", (Exception,), {"__module__": "another_library"})(),
        type("LocalEntryNotFoundError", (Exception,), {"__module__": "huggingface_hub.errors"})(),
        wrapped(AnswerError(404)),
        AnswerError(403),
        ValueError("no such engine"),
        MemoryError(),
        OSError("disk full"),
    ):
        with pytest.raises(type(error)):
            load_after(error)

"""Cheap checks, before a run, that a model exists on the Hugging Face hub or in its local cache."""

import logging
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from actors.errors import ModelError, first_line

TIMEOUT_S = 10.0
PAUSES_S = (5.0, 15.0, 45.0, 120.0)  # between attempts to load a model; many machines ask the hub at once
LONGEST_PAUSE_S = 300.0  # longest pause that a hub can demand with Retry-After
_PASSING = {408, 429, 500, 502, 503, 504}  # HTTP statuses of a hub that is busy
_CLIENTS = ("httpx", "httpcore", "requests", "urllib3", "huggingface_hub")
_INTERRUPTIONS = ("Timeout", "Connect", "Protocol", "ReadError", "ChunkedEncoding")
_OFFLINE = "HF_HUB_OFFLINE forbids requests to the hub"
T = TypeVar("T")
log = logging.getLogger(__name__)


def check_reachable(repository: str, *, files: tuple[str, ...], revision: str | None = None) -> None:
    """Check that one of `files` of a hub repository is in the local cache or on the hub; downloads nothing.

    Args:
        repository: `org/name`; a folder passes unchecked.

    Raises:
        ValueError: none is cached or available: unknown model or revision, no access, or no network.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    if Path(repository).is_dir() or any(_cached(repository, name, revision) for name in files):
        return
    _check_online(repository, revision)
    reason = ""
    for name in files:
        try:
            get_hf_file_metadata(hf_hub_url(repository, name, revision=revision), timeout=TIMEOUT_S)
            return
        except Exception as error:
            reason = _reason(error)
    raise _unavailable(repository, revision, reason)


def read(repository: str, name: str, *, revision: str | None = None) -> str | None:
    """Return a small text file of a hub repository, fetching it into the local cache; None if it does not exist.

    Raises:
        ValueError: it is neither cached nor available: unknown model or revision, no access, or no network.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError

    path = _cached(repository, name, revision)
    if path is None:
        _check_online(repository, revision)
        try:  # a download retries an unreachable hub for half a minute
            get_hf_file_metadata(hf_hub_url(repository, name, revision=revision), timeout=TIMEOUT_S)
            path = hf_hub_download(repository, name, revision=revision, etag_timeout=TIMEOUT_S)
        except EntryNotFoundError:
            return None
        except Exception as error:
            raise _unavailable(repository, revision, _reason(error)) from None
    return Path(path).read_text(encoding="utf-8")


def size(repository: str, name: str, *, revision: str | None = None, local_only: bool = False) -> int | None:
    """Return the bytes of a file; None if it is not in the local cache and the hub does not have it or say its size."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    if path := _cached(repository, name, revision):
        return Path(path).stat().st_size
    if local_only:
        return None
    try:
        return get_hf_file_metadata(hf_hub_url(repository, name, revision=revision), timeout=TIMEOUT_S).size
    except Exception as error:  # its errors come from several libraries
        log.debug("%s/%s: no size (%s)", repository, name, first_line(error))
        return None


def commit(repository: str, name: str, *, revision: str | None = None) -> str | None:
    """Return the commit of a file that is in the local cache; None if it is not there."""
    path = _cached(repository, name, revision)
    # The cache keeps each commit in a separate folder: snapshots/COMMIT/config.json
    return Path(path).parent.name if path else None


def has_token() -> bool:
    """Return whether requests to the hub carry a token: HF_TOKEN, or that of a login on this machine."""
    from huggingface_hub import get_token

    return bool(get_token())


def with_retries(load: Callable[[], T], *, pause: Callable[[float], None] = time.sleep) -> T:
    """Return what `load` returns; if the hub is busy or the connection breaks, call it again after a pause.

    Raises:
        Exception: the error of `load`, if it has another cause or the last attempt failed.
    """
    for seconds in PAUSES_S:
        try:
            return load()
        except Exception as error:
            if (asked := _pause_asked(error)) is None:
                raise
            reason = first_line(error)
        wait = max(seconds, min(asked, LONGEST_PAUSE_S)) * random.uniform(1.0, 1.25)  # machines that start together
        log.warning("the model hub did not answer (%s); the next attempt follows in %.0f s", reason, wait)
        pause(wait)
    return load()


def _pause_asked(error: BaseException) -> float | None:
    """Return how many seconds a busy hub asks to wait (0 if it does not say); None if waiting would not help."""
    for cause in _causes(error):
        response = getattr(cause, "response", None)
        status = getattr(response, "status_code", None)
        if status is not None:
            asked = str(getattr(response, "headers", {}).get("Retry-After", ""))
            return (float(asked) if asked.isdigit() else 0.0) if status in _PASSING else None
        is_client = type(cause).__module__.startswith(_CLIENTS)
        if isinstance(cause, ConnectionError | TimeoutError) or (
            is_client and any(word in type(cause).__name__ for word in _INTERRUPTIONS)
        ):
            return 0.0
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield `error` and the errors that it was raised from, the original cause last."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def is_cached(repository: str, name: str, revision: str | None = None) -> bool:
    """Return whether a file of a hub repository is in the local cache, or `repository` is a folder."""
    return cached_folder(repository, name, revision) is not None


def cached_folder(repository: str, name: str, revision: str | None = None) -> Path | None:
    """Return the folder of the local cache with a file of a hub repository, or `repository` if it is a folder."""
    if Path(repository).is_dir():
        return Path(repository)
    path = _cached(repository, name, revision)
    return None if path is None else Path(path).parent


def _cached(repository: str, name: str, revision: str | None) -> str | None:
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(repository, name, revision=revision)
    return path if isinstance(path, str) else None


def _check_online(repository: str, revision: str | None) -> None:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise _unavailable(repository, revision, _OFFLINE)


def refusal(repository: str, error: Exception, *, revision: str | None = None) -> str:
    """Return why a repository's file is not available, and what to do."""
    return str(_unavailable(repository, revision, _reason(error)))


def _unavailable(repository: str, revision: str | None, reason: str) -> ModelError:
    absent = f"revision {revision or 'main'} is not in the cache"
    return ModelError(f"{absent}, and {reason}; use local:NAME or a folder to work without the hub", repository)


def _reason(error: Exception) -> str:
    """Return why a request to the hub failed."""
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError

    if constants.HF_HUB_OFFLINE:
        return _OFFLINE
    if isinstance(error, GatedRepoError):
        return "it is gated: accept its licence on the hub and log in (HF_TOKEN)"
    if isinstance(error, HfHubHTTPError):
        code = error.response.status_code if error.response is not None else "no answer"
        return f"the hub does not have it or denies access (HTTP {code})"
    # the HTTP library's own errors, which differ between versions of the hub client
    return f"the hub cannot be reached ({type(error).__name__}: {first_line(error)})"

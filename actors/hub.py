"""Is a model where the loaders will look for it? Asked once before a run, so that a wrong name costs a second."""

from pathlib import Path

from actors.errors import first_line

TIMEOUT_S = 10.0


def check_reachable(repository: str, *, files: tuple[str, ...], revision: str | None = None) -> None:
    """Look for one of `files` of a hub repository in the local cache, then with one request to the hub.

    A folder is not a hub repository and passes. Nothing is downloaded.

    Raises:
        ValueError: neither cached nor given out by the hub: no such model or revision, no access, no network.
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
    raise ValueError(_unavailable(repository, revision, reason))


def read(repository: str, name: str, *, revision: str | None = None) -> str | None:
    """A small text file of a hub repository: from the local cache, else fetched into it; None if there is no such file.

    Raises:
        ValueError: not cached, and the hub does not give it out: no such model or revision, no access, no network.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError

    path = _cached(repository, name, revision)
    if path is None:
        _check_online(repository, revision)
        try:  # the download alone would ask a hub that is not there for half a minute
            get_hf_file_metadata(hf_hub_url(repository, name, revision=revision), timeout=TIMEOUT_S)
            path = hf_hub_download(repository, name, revision=revision, etag_timeout=TIMEOUT_S)
        except EntryNotFoundError:
            return None
        except Exception as error:
            raise ValueError(_unavailable(repository, revision, _reason(error))) from None
    return Path(path).read_text(encoding="utf-8")


def _cached(repository: str, name: str, revision: str | None) -> str | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository, name, revision=revision)
    return found if isinstance(found, str) else None


def _check_online(repository: str, revision: str | None) -> None:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise ValueError(_unavailable(repository, revision, "HF_HUB_OFFLINE forbids asking the hub"))


def _unavailable(repository: str, revision: str | None, reason: str) -> str:
    at = f"{repository} at revision {revision or 'main'}"
    return f"{at}: not in the cache, and {reason}; local:NAME or a folder needs no hub"


def _reason(error: Exception) -> str:
    """Why the hub did not give a file."""
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError

    if isinstance(error, GatedRepoError):
        return "it is gated: accept its licence on the hub and log in (HF_TOKEN)"
    if isinstance(error, HfHubHTTPError):
        code = error.response.status_code if error.response is not None else "no answer"
        return f"the hub does not have it or does not give it out (HTTP {code})"
    # the HTTP library's own errors, which differ between versions of the hub client
    return f"the hub cannot be reached ({type(error).__name__}: {first_line(error)})"

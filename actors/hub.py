"""Is a model where the loaders will look for it? Asked once before a run, so that a wrong name costs a second."""

from pathlib import Path

TIMEOUT_S = 10.0


def check_reachable(repository: str, *, files: tuple[str, ...], revision: str | None = None) -> None:
    """Look for one of `files` of a hub repository in the local cache, then with one request to the hub.

    A folder is not a hub repository and passes. Nothing is downloaded.

    Raises:
        ValueError: neither cached nor given out by the hub: no such model or revision, no access, no network.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError

    if Path(repository).is_dir():
        return
    if any(isinstance(try_to_load_from_cache(repository, f, revision=revision), str) for f in files):
        return
    at = f"{repository} at revision {revision or 'main'}"
    if constants.HF_HUB_OFFLINE:
        raise ValueError(f"{at} is not in the cache, and HF_HUB_OFFLINE forbids asking the hub")
    reason = ""
    for name in files:
        try:
            get_hf_file_metadata(hf_hub_url(repository, name, revision=revision), timeout=TIMEOUT_S)
            return
        except GatedRepoError:
            raise ValueError(f"{at} is gated: accept its licence on the hub and log in (HF_TOKEN)") from None
        except HfHubHTTPError as error:
            code = error.response.status_code if error.response is not None else "no answer"
            reason = f"the hub does not have it or does not give it out (HTTP {code})"
        except Exception as error:  # the HTTP library's own errors, which differ between versions of the hub client
            reason = f"the hub cannot be reached ({type(error).__name__}: {str(error).splitlines()[0]})"
    raise ValueError(f"{at}: not in the cache, and {reason}; local:NAME or a folder needs no hub")

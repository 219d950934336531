"""The place of a release, `out=`, where its files are copied, and its publication on the Hugging Face Hub."""

from dataclasses import dataclass
from pathlib import Path

from actors.errors import first_line
from jobs.errors import InputError, RunError
from jobs.releasing.contents import FILES
from jobs.store.files import locations

DATA = "data/*.csv"  # files of an earlier release that match are removed


@dataclass
class PushSettings:
    """Keys for publishing a release, with the token in $HF_TOKEN or the one stored by `hf auth login`."""

    repo: str | None = None  # ORGANISATION/NAME of a data set on the Hub; null: the release is not published
    private: bool = True  # of a data set that does not exist yet
    revision: str | None = None  # an existing branch; null: main


def check_push(settings: PushSettings) -> None:
    """Check the name, and that there is a token, before anything is written.

    Raises:
        InputError: the name is not a valid name on the Hub, or there is no token.
    """
    if settings.repo is None:
        return
    from huggingface_hub import get_token
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(settings.repo)
    except HFValidationError as error:
        raise InputError(f"{first_line(error)}", key="push.repo", value=settings.repo) from error
    if settings.repo.count("/") != 1:
        raise InputError("must be ORGANISATION/NAME, or USER/NAME", key="push.repo", value=settings.repo)
    if not get_token():
        why = "no token of the Hub"
        raise InputError(why, key="push.repo", value=settings.repo, remedy="set $HF_TOKEN or run hf auth login")


def push(settings: PushSettings, folder: Path) -> str:
    """Upload the files of a release in one commit, creating the data set if needed, and return the commit's address.

    Raises:
        RunError: the Hub refuses, or cannot be reached. The files at `out=` are already written.
    """
    import httpx2
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    assert settings.repo is not None
    api = HfApi(library_name="remine")
    try:
        api.create_repo(settings.repo, repo_type="dataset", private=settings.private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=settings.repo,
            folder_path=folder,
            repo_type="dataset",
            revision=settings.revision,
            commit_message="Release",
            delete_patterns=DATA,
        )
    except (HfHubHTTPError, httpx2.HTTPError) as error:
        raise RunError(f"not published: {first_line(error)}", key="push.repo", value=settings.repo) from error
    return str(commit.commit_url)


CARD, METADATA = "README.md", "croissant.json"
DATA_FILES = [f"data/{file}.csv" for file in FILES]


def check_place(out: str, *, overwrite: bool) -> None:
    """Check that a release can be written to `out`.

    Raises:
        InputError: `out` has files and `overwrite` is false, or has files that this job did not write.
    """
    root = locations.absolute(out)
    present = [name for name in (CARD, *DATA_FILES) if locations.exists(locations.join(root, name))]
    if present and not overwrite:
        raise InputError(f"has {present[0]}", key="out", value=out, remedy="use another folder or overwrite=true")
    if present and not locations.exists(locations.join(root, METADATA)):
        raise InputError(f"this job did not write its {present[0]}", key="out", value=out, remedy="use another folder")


def publish(folder: Path, out: str) -> None:
    """Copy the files below `folder` to `out`, and remove files of an earlier release that are not in this one."""
    root = locations.absolute(out)
    written = locations.publish_folder(folder, root)
    locations.remove([locations.join(root, name) for name in DATA_FILES if name not in written])

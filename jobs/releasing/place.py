"""The place of a release, `out=`: whether its files may be replaced, and copying the new ones there."""

from pathlib import Path

from jobs.errors import InputError
from jobs.releasing.contents import FILES
from jobs.store.files import locations

CARD, METADATA = "README.md", "croissant.json"
DATA = [f"data/{file}.csv" for file in FILES]


def check(out: str, *, overwrite: bool) -> None:
    """Check that a release can be written to `out`.

    Raises:
        InputError: `out` has files and `overwrite` is false, or has files that this job did not write.
    """
    root = locations.absolute(out)
    present = [name for name in (CARD, *DATA) if locations.exists(locations.join(root, name))]
    if present and not overwrite:
        raise InputError(f"out={out}: has {present[0]}; use another folder or overwrite=true")
    if present and not locations.exists(locations.join(root, METADATA)):
        raise InputError(f"out={out}: this job did not write its {present[0]}; use another folder")


def publish(folder: Path, out: str) -> None:
    """Copy the files below `folder` to `out`, and remove files of an earlier release that are not in this one."""
    root = locations.absolute(out)
    written = locations.publish_folder(folder, root)
    locations.remove([locations.join(root, name) for name in DATA if name not in written])

"""Adding reported pictures to a list of exclusions (`jobs.runtime.selection.exclusions`), which every job respects."""

from collections.abc import Mapping

from actors.untrusted import text_lines
from jobs.errors import InputError
from jobs.store.files import locations

REPORTED = "reported.json"  # in _run/ of imported ratings; how many people reported each picture


def add_to_list(uri: str, reports: Mapping[str, int], *, least: int) -> tuple[int, int]:
    """Add reported pictures to the list at `uri`, keeping its other lines.

    Args:
        reports: how many people reported each picture.
        least: smallest number of people who must have reported a picture.

    Returns:
        How many pictures were new, and how many reported pictures the list has now.

    Raises:
        InputError: the list cannot be read or written.
    """
    reported = {picture: people for picture, people in sorted(reports.items()) if people >= least}
    target = locations.absolute(uri)
    with locations.named_errors(uri):
        try:
            text = locations.read_bytes(target).decode("utf-8-sig")
        except FileNotFoundError:
            text = ""
        except UnicodeDecodeError as error:
            raise InputError(f"reports={uri}: not a list of exclusions (byte {error.start} is not UTF-8)") from error
        listed = {line.partition(" #")[0].strip() for line in text_lines(text)}
        new = {picture: n for picture, n in reported.items() if picture not in listed}
        if new:
            text += "" if not text or text.endswith("\n") else "\n"
            text += "".join(f"{picture} # reported by {n}\n" for picture, n in new.items())
            locations.replace(target, text.encode())
    return len(new), len(reported)

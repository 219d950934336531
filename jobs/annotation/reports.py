"""Reported pictures go to a list of exclusions (`jobs.runtime.exclusions`), which every job honours."""

from collections.abc import Mapping

from jobs.errors import InputError
from jobs.store import locations


def add_to_list(uri: str, reports: Mapping[str, int], *, least: int) -> tuple[int, int]:
    """Add pictures to the list at `uri`, keeping what stands there; `reports` says how many people reported each.

    Pictures that fewer than `least` people reported are left out.
    Returns how many were new and how many of those reported stand there now.

    Raises:
        InputError: the list cannot be read or written.
    """
    reported = {picture: people for picture, people in sorted(reports.items()) if people >= least}
    place = locations.absolute(uri)
    with locations.named_errors(uri):
        try:
            text = locations.read_bytes(place).decode("utf-8-sig")
        except FileNotFoundError:
            text = ""
        except UnicodeDecodeError as error:
            raise InputError(f"reports={uri}: not a list of exclusions (byte {error.start} is not UTF-8)") from error
        there = {line.partition(" #")[0].strip() for line in text.splitlines()}
        new = {picture: n for picture, n in reported.items() if picture not in there}
        if new:
            text += "" if not text or text.endswith("\n") else "\n"
            text += "".join(f"{picture} # reported by {n}\n" for picture, n in new.items())
            locations.replace(place, text.encode())
    return len(new), len(reported)

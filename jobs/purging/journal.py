"""What a purge that was interrupted has to finish: items and responses that led to further rows may be gone by then."""

import contextlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, fields

from jobs.errors import InputError
from jobs.purging.matching import Gone
from jobs.runtime.process.console import say
from jobs.store.files import locations
from jobs.store.run_files import read_json

FILE = "_purge.json"  # in the folder that is purged; removed when the purge is complete
PARTS = tuple(part.name for part in fields(Gone))


@dataclass(frozen=True)
class Journal:
    """The journal of a purge.

    Attributes:
        purge: a name of the purge.
        listed: the hash of its list.
        gone: what must go.
    """

    purge: str
    listed: str
    gone: Gone


def uri_of(root: str) -> str:
    """The journal of a purge of `root`."""
    return locations.join(root, FILE)


def read(root: str, listed: str) -> Journal | None:
    """The journal of an interrupted purge of `root`; None if there is none.

    Raises:
        InputError: it is damaged, or that purge had another list.
    """
    uri = uri_of(root)
    if not locations.exists(uri):
        return None
    content = read_json(uri)
    if content.get("listed") != listed:
        raise InputError(f"{uri}: a purge with another list was interrupted; first run it again with its list")
    return Journal(content["purge"], listed, Gone(*(set(content[part]) for part in PARTS)))


def begin(root: str, listed: str, gone: Gone, earlier: Journal | None) -> Journal:
    """Write the journal of a purge, which continues `earlier` if there is one."""
    purge = earlier.purge if earlier else secrets.token_hex(8)
    if earlier:
        gone = Gone(*(getattr(gone, part) | getattr(earlier.gone, part) for part in PARTS))
    content = {"purge": purge, "listed": listed, **{part: sorted(getattr(gone, part)) for part in PARTS}}
    locations.replace(uri_of(root), json.dumps(content, indent=1).encode())
    return Journal(purge, listed, gone)


@contextlib.contextmanager
def mentioned_if_interrupted(root: str) -> Iterator[None]:
    """Say that the journal, a list of ids and URLs, stays behind if the block does not reach its end."""
    try:
        yield
    except BaseException:
        say(
            f"purge: not complete; {uri_of(root)} keeps the ids and URLs that remain to be removed: run the same "
            "command again, which also removes that file",
            err=True,
            level="warning",
        )
        raise

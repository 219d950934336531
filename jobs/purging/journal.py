"""The journal of a purge: the ids and URLs that it removes, for the next run after an interruption.

Without the journal, that run could not find all rows again: the items and responses that led to them may already be
removed.
"""

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
        purge: the name of the purge.
        listed: the hash of its list of exclusions.
        gone: the ids and URLs to remove.
    """

    purge: str
    listed: str
    gone: Gone


def uri_of(root: str) -> str:
    """Return the uri of the journal of a purge of `root`."""
    return locations.join(root, FILE)


def read(root: str, listed: str) -> Journal | None:
    """Return the journal of an interrupted purge of `root`; None if there is none.

    Raises:
        InputError: the journal is damaged, or the interrupted purge used another list.
    """
    uri = uri_of(root)
    if not locations.exists(uri):
        return None
    content = read_json(uri)
    if content.get("listed") != listed:
        raise InputError(
            f"exclusions=: {uri} belongs to an interrupted purge with another list; complete that purge first, by "
            "running it again with its list"
        )
    return Journal(content["purge"], listed, Gone(*(set(content[part]) for part in PARTS)))


def begin(root: str, listed: str, gone: Gone, earlier: Journal | None) -> Journal:
    """Write and return the journal of a purge; it includes the ids and URLs of `earlier`, if there is one."""
    purge = earlier.purge if earlier else secrets.token_hex(8)
    if earlier:
        gone = Gone(*(getattr(gone, part) | getattr(earlier.gone, part) for part in PARTS))
    content = {"purge": purge, "listed": listed, **{part: sorted(getattr(gone, part)) for part in PARTS}}
    locations.replace(uri_of(root), json.dumps(content, indent=1).encode())
    return Journal(purge, listed, gone)


@contextlib.contextmanager
def mentioned_if_interrupted(root: str) -> Iterator[None]:
    """Warn that the journal, which lists ids and URLs, still exists if the block raises."""
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

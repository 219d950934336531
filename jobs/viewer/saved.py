"""Views that have a name, and tags of pictures, kept as files that people, other viewers and other commands read.

    FOLDER/views.json        name -> address of the view below the viewer's, such as {"Worst region": "?region=North"}
    FOLDER/tags/NAME.txt     one image_id per line

The file of a tag is a list for `exclusions=`, and for `remine items input=FILE images=R/images`. Each change reads the
file again and replaces it in one step while no other viewer does so; comments and other lines of a tag's file are kept.
"""

import contextlib
import fcntl
import json
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import parse_qsl

from actors.untrusted import parse_json, text_lines
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.run_files import IDENTITY, run_uri
from jobs.store.runs.lock import HeldError, Lease
from jobs.viewer.queries import view_of

FOLDER, VIEWS, TAGS = "saved", "views.json", "tags"
LISTS = ("", "ratings", "compare", "map", "responses", "spans", "numbers")  # pages whose views can be saved
MOST_CHARACTERS = 60  # of a name
_NAME = re.compile(r"\w(?:[\w .,()+-]*[\w)])?")  # names of files on all systems
WAIT_S, PAUSE_S = 60.0, (0.02, 0.2)  # for another viewer that changes a file; bounds of a random pause


def folder_of(place: str) -> str:
    """Return the folder for what a viewer of `place` saves: below it or, if it is a table, next to it."""
    uri = locations.absolute(place)
    is_table = uri.endswith(".parquet") or locations.exists(run_uri(uri, IDENTITY))
    return locations.join(uri.rsplit("/", 1)[0] if is_table else uri, FOLDER)


def check_name(key: str, name: str) -> str:
    """Return the name of a view or tag without white space around it.

    Raises:
        InputError: it has characters that cannot be in the name of a file, or too many.
    """
    name = " ".join(name.split())
    if not _NAME.fullmatch(name) or len(name) > MOST_CHARACTERS:
        raise InputError(
            f"must be at most {MOST_CHARACTERS} letters, digits, spaces and . , ( ) + - _, and begin and end with a "
            "letter or digit",
            key=key,
            value=name[:MOST_CHARACTERS],
        )
    return name


class Saved:
    """The saved views and tags in a folder, which is created with the first of them."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._lock = threading.Lock()

    def tag_file(self, tag: str) -> str:
        """Return the place of a tag's file."""
        return locations.join(self.folder, TAGS, f"{tag}.txt")

    def views(self) -> dict[str, str]:
        """Return name -> address of the saved views, in alphabetical order.

        Raises:
            InputError: the file is not a JSON object of texts.
        """
        uri = locations.join(self.folder, VIEWS)
        if not locations.exists(uri):
            return {}
        with locations.named_errors(uri):
            content = locations.read_bytes(uri)
        try:
            views = parse_json(content)
        except ValueError:
            views = None
        if not isinstance(views, dict) or not all(isinstance(address, str) for address in views.values()):
            raise InputError(
                "is not a JSON object of names and addresses", place=uri, remedy="mend or remove this file of views"
            )
        return {name: list_address(views[name], key=name) for name in sorted(views, key=str.casefold)}

    def save_view(self, name: str, address: str | None) -> None:
        """Give a view a name, which may replace that of another; without an address, remove it."""
        with self._alone():
            views = {**self.views(), name: None if address is None else list_address(address, key="address")}
            kept = {name: address for name, address in views.items() if address is not None}
            self._write(
                locations.join(self.folder, VIEWS), json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True)
            )

    def tags(self) -> dict[str, list[str]]:
        """Return tag -> ids of its pictures, in alphabetical order."""
        files = locations.listing(locations.join(self.folder, TAGS))
        names = {file.uri.rsplit("/", 1)[-1] for file in files}
        tags = sorted((name.removesuffix(".txt") for name in names if name.endswith(".txt")), key=str.casefold)
        return {tag: ids for tag in tags if (ids := [i for line in self._lines(tag) if (i := _id_in(line))])}

    def tag(self, tag: str, image_ids: Sequence[str], *, add: bool) -> None:
        """Add pictures to a tag, or remove them from it; a tag of no picture has no file."""

        def change(lines: list[str]) -> list[str]:
            present = {_id_in(line) for line in lines}
            if add:
                return [*lines, *(image_id for image_id in dict.fromkeys(image_ids) if image_id not in present)]
            removed = set(image_ids)
            left = [line for line in lines if _id_in(line) not in removed]
            return left if any(map(_id_in, left)) else []

        with self._alone():
            uri = self.tag_file(tag)
            if lines := change(self._lines(tag)):
                self._write(uri, "\n".join(lines))
            elif locations.exists(uri):
                with locations.named_errors(uri):
                    locations.remove([uri])

    def spelling(self, tag: str) -> str:
        """Return the spelling of a tag that exists with other capitals, which are one file on some systems."""
        return next((other for other in self.tags() if other.casefold() == tag.casefold()), tag)

    def _lines(self, tag: str) -> list[str]:
        uri = self.tag_file(tag)
        if not locations.exists(uri):
            return []
        with locations.named_errors(uri):
            return [line for line in text_lines(locations.read_bytes(uri).decode("utf-8", "replace")) if line.strip()]

    @staticmethod
    def _write(uri: str, text: str) -> None:
        with locations.named_errors(uri):
            locations.replace(uri, f"{text}\n".encode())

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no other thread or viewer changes the folder; that of a killed viewer ends with it."""
        with self._lock, locations.named_errors(self.folder), contextlib.ExitStack() as stack:
            if locations.is_s3(self.folder):
                stack.callback(_when_free(lambda: Lease(self.folder)).release)
            else:
                Path(self.folder).mkdir(parents=True, exist_ok=True)
                descriptor = os.open(self.folder, os.O_RDONLY)
                stack.callback(os.close, descriptor)
                with contextlib.suppress(OSError):  # a file system without locks
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield


def _when_free(acquire: Callable[[], Lease]) -> Lease:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            return acquire()
        except HeldError:
            if time.monotonic() > until:
                raise
        time.sleep(random.uniform(*PAUSE_S))


def _id_in(line: str) -> str:
    """Return the id of a line of a tag's file; empty in a comment."""
    return line.partition("#")[0].strip()


def list_address(address: str, *, key: str = "at") -> str:
    """Return the address of a list, which others may have written, with only the parameters of a view.

    Raises:
        InputError: it is of no list.
    """
    path, _, query = address.partition("?")
    if path not in LISTS:
        raise InputError(f"must begin with one of {', '.join(LISTS[1:])}, or ?", key=key, value=address[:80])
    return path + view_of(parse_qsl(query)).address(page="", show="")

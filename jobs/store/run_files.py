"""The files in a table's folder `_run`.

`identity.json` has everything that the rows depend on, `manifest.json` the summary of the last run. `inputs.jsonl` and
`units.jsonl` are lists of units with one JSON value per line, so that a list of ten thousand is never in memory as a
whole; their first line is the number of the other lines, which reveals truncation.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from actors.errors import first_line
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.identity import stored_identity_hash
from jobs.store.json_types import ManifestJson, UnitJson, WrittenUnitJson, fits
from jobs.store.units import Unit

FOLDER = "_run"
IDENTITY, MANIFEST, INPUTS, UNITS = "identity.json", "manifest.json", "inputs.jsonl", "units.jsonl"
CONFIG = "config.json"  # the configuration of the command that began the table; it explains the identity


def run_uri(table: str, name: str) -> str:
    """Return the uri of the run file `name` of the table at `table`."""
    return locations.join(table, FOLDER, name)


def one_file(key: str, uri: str, kinds: str) -> Object:
    """Return the file at `uri`, for a key that takes one file; next to others, hidden files do not count.

    Args:
        kinds: the kinds of files that the key takes, for the message.

    Raises:
        InputError: there are several files or none.
    """
    everything = locations.find(uri)
    files = [file for file in everything if not locations.is_hidden(file.uri)] or list(everything)
    if len(files) == 1:
        return files[0]
    is_table = any(f"/{FOLDER}/" in file.uri for file in files)
    place = "a table that remine wrote, not a file" if is_table else f"{len(files)} files"
    raise InputError(f"{key}={uri}: {place}; name one {kinds}")


def to_json(value: Mapping[str, Any]) -> bytes:
    """Return the content of `identity.json` and `manifest.json`."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).encode()


def to_lines(values: Sequence[Any], to_json_value: Callable[[Any], Any] = lambda value: value) -> Iterator[bytes]:
    """Yield the content of a list of units in pieces: the number of `values`, then each value as a line of JSON."""
    yield f"{len(values)}\n".encode()
    for value in values:
        yield json.dumps(to_json_value(value), sort_keys=True, ensure_ascii=False).encode() + b"\n"


def read_json(uri: str, expected: Any = dict) -> Any:
    """Return the content of a JSON file.

    Args:
        expected: its type (`jobs.store.json_types`).

    Raises:
        FileNotFoundError: it does not exist.
        InputError: it is damaged.
    """
    try:
        value = json.loads(locations.read_bytes(uri))
    except (ValueError, RecursionError) as error:
        raise _damage_error(uri, f"not JSON: {first_line(error)}") from error
    if not fits(value, expected):
        raise _damage_error(uri, "unexpected keys or types")
    return value


def read_manifest(table: str) -> ManifestJson:
    """Return the manifest of the table at `table`. Raises as `read_json`."""
    manifest: ManifestJson = read_json(run_uri(table, MANIFEST), ManifestJson)
    return manifest


def kept_manifest(table: str) -> Mapping[str, Any]:
    """Return all keys of the manifest of the table at `table`; empty if there is none, or it is damaged."""
    try:
        manifest: Mapping[str, Any] = read_json(run_uri(table, MANIFEST))
    except (FileNotFoundError, InputError):
        return {}
    return manifest


def read_inputs(uri: str) -> Iterator[Unit]:
    """Yield the frozen units in an `inputs.jsonl`, one at a time. Raises as `read_json`."""
    return map(Unit.from_json, _read_lines(uri, UnitJson))


def begun_units(table: str) -> Iterator[Unit]:
    """Yield the frozen units of the table at `table`, which a command would continue; nothing without a table.

    Raises:
        InputError: the list is damaged, or the place cannot be read.
    """
    uri = run_uri(locations.absolute(table), INPUTS)
    with locations.named_errors(uri):
        try:
            yield from read_inputs(uri)
        except (FileNotFoundError, NotADirectoryError):  # opening the table refuses a file in the place of a folder
            return


def read_written_units(uri: str) -> Iterator[WrittenUnitJson]:
    """Yield the units in a `units.jsonl`, one at a time. Raises as `read_json`."""
    return _read_lines(uri, WrittenUnitJson)


def _read_lines(uri: str, expected: Any) -> Iterator[Any]:
    try:
        with locations.local_copy(uri) as path, path.open(encoding="utf-8") as text:
            promised, count = json.loads(text.readline()), 0
            for line in text:
                value = json.loads(line)
                if not fits(value, expected):
                    raise ValueError(f"line {count + 2} has unexpected keys or types")
                yield value
                count += 1
    except (ValueError, RecursionError) as error:
        raise _damage_error(uri, first_line(error)) from error
    if count != promised:
        raise _damage_error(uri, f"{count} units, the first line says {promised}")


def identity_at(table: str, listed: Iterable[Object]) -> str | None:
    """Return the identity hash of the table at `table`; None if `identity.json` is not in `listed`.

    Raises:
        InputError: it is damaged.
    """
    uri = run_uri(table, IDENTITY)
    return stored_identity_hash(read_json(uri)) if any(file.uri == uri for file in listed) else None


def _damage_error(uri: str, reason: str) -> InputError:
    rerun = "run the command that writes the table again"
    return InputError(f"damaged ({reason}); delete it and {rerun}", place=uri)

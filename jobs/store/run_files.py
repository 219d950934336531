"""The files in a table's folder `_run`.

`identity.json` has everything that the rows depend on, `manifest.json` the summary of the last run. `inputs.jsonl` is
the list of units with one JSON value per line, so that a list of ten thousand is never in memory as a whole; its first
line is the number of the other lines, which reveals truncation. `units.jsonl` is described in `jobs.store.unit_index`.

Trial runs are recognised by the key `limit` of their identity. The other tables of a pipeline with `run limit=` do not
have it, but are made from tables that do.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import islice
from typing import Any

from actors.errors import first_line
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.identity import EXCLUSIONS, ROWS_HASH, TABLE, UNITS_HASH, identity_hash, stored_identity_hash
from jobs.store.json_types import ManifestJson, UnitJson, fits
from jobs.store.units import LIMIT, Unit

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
    raise InputError(place, key=key, value=uri, remedy=f"name one {kinds}")


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
        raise damage_error(uri, f"not JSON: {first_line(error)}") from error
    if not fits(value, expected):
        raise damage_error(uri, "unexpected keys or types")
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
        raise damage_error(uri, first_line(error)) from error
    if count != promised:
        raise damage_error(uri, f"{count} units, the first line says {promised}")


def identity_at(table: str, listed: Iterable[Object]) -> str | None:
    """Return the identity hash of the table at `table`; None if `identity.json` is not in `listed`.

    Raises:
        InputError: it is damaged.
    """
    uri = run_uri(table, IDENTITY)
    return stored_identity_hash(read_json(uri)) if any(file.uri == uri for file in listed) else None


def damage_error(uri: str, reason: str) -> InputError:
    """Return the error about a damaged file of `_run/`, which the next run writes again."""
    rerun = "run the command that writes the table again"
    return InputError(f"damaged ({reason}); delete it and {rerun}", place=uri)


_NOT_COMPARED = (
    LIMIT,
    TABLE,
    EXCLUSIONS,
    ROWS_HASH,
    UNITS_HASH,
)  # keys that follow from the limit or are unrelated to it
WHOLE = float("inf")  # the limit of a table without `limit=`


def limit_of(table: str) -> float:
    """Return the limit of the run that wrote a table, or of the tables that it was made from; infinite without a limit.

    Tables that another program wrote, and tables whose parents were moved, have no limit.

    Raises:
        InputError: `_run/identity.json` is damaged.
    """
    try:
        limit = _limit(read_json(run_uri(table, IDENTITY)))
    except FileNotFoundError:
        return WHOLE
    return min(limit, _limit_of_parents(table, {table}))


def trials(identities: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return uri of a trial -> uri of the table with the same identity and a larger limit, or without a limit.

    A table made from a trial is a trial of the table made from the whole input, if both parents are among the tables.

    Args:
        identities: the content of each table's `_run/identity.json`, by uri.
    """
    hashes = {uri: stored_identity_hash(identity) for uri, identity in identities.items()}
    whole_of: dict[str, str] = {}
    for _ in identities:  # chains of parents are not longer
        grown = _alike(identities, {hashes[uri]: hashes[whole] for uri, whole in whole_of.items()})
        if grown == whole_of:
            break
        whole_of = grown
    return whole_of


def _alike(identities: Mapping[str, Mapping[str, Any]], whole_of: Mapping[str, str]) -> dict[str, str]:
    """Return the uri of the whole table by the uri of each trial, given the trials found so far among the parents.

    Args:
        identities: as for `trials`.
        whole_of: identity hash of a trial -> identity hash of its whole table.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    sizes: dict[str, tuple[bool, float]] = {}  # whether no parent is a trial, and the limit
    for uri, identity in identities.items():
        rest = {name: value for name, value in identity.items() if name not in _NOT_COMPARED}
        of_whole = _with_whole_parents(rest, whole_of)
        sizes[uri] = of_whole == rest, _limit(identity)
        alike.setdefault((str(identity.get(TABLE)), identity_hash(of_whole)), []).append(uri)
    trial_runs: dict[str, str] = {}
    for uris in alike.values():
        whole = max(uris, key=lambda uri: sizes[uri])
        trial_runs |= {uri: whole for uri in uris if sizes[uri] < sizes[whole]}
    return trial_runs


def _with_whole_parents(value: Any, whole_of: Mapping[str, str]) -> Any:
    """Return an identity in which the hashes of trials are replaced by those of the whole tables."""
    if isinstance(value, Mapping):
        return {name: _with_whole_parents(inner, whole_of) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_whole_parents(inner, whole_of) for inner in value]
    return whole_of.get(value, value) if isinstance(value, str) else value


def _limit_of_parents(table: str, seen: Set[str]) -> float:
    """Return the smallest limit of the tables that a table's first unit was made from, and of their parents."""
    limit = WHOLE
    with suppress(OSError, InputError):  # parents may have been moved or removed
        for unit in islice(read_inputs(run_uri(table, INPUTS)), 1):
            places = (source.uri.rsplit("/", 1)[0] if source.uri.endswith(".parquet") else source.uri
                      for source in unit.inputs)  # fmt: skip
            for parent in set(places) - seen:
                with suppress(OSError, InputError):
                    limit = min(limit, _limit(read_json(run_uri(parent, IDENTITY))))
                    limit = min(limit, _limit_of_parents(parent, seen | {parent}))
    return limit


def _limit(identity: Mapping[str, Any]) -> float:
    return float(identity.get(LIMIT) or WHOLE)

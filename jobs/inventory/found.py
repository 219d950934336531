"""The tables at or below a folder, what they contain, how `ls`, `rm`, `copy` and `diff` print it, and their removal."""

import glob
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jobs.errors import InputError
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.files.local_files import path_hint
from jobs.store.files.objects import HashSet, Object
from jobs.store.footers import Footer, Footers, data_objects
from jobs.store.identity import TABLE, flatten, stored_identity_hash
from jobs.store.run_files import FOLDER, IDENTITY, INPUTS, MANIFEST, read_inputs, run_uri, trials
from jobs.store.runs import lock
from jobs.store.runs.place import is_set_aside, is_temporary, is_written_by_run
from jobs.store.unit_index import indexed_footers

_END = f"/{FOLDER}/{IDENTITY}"


@dataclass(frozen=True)
class FoundTable:
    """A table on disk or object storage.

    Attributes:
        name: its name in `jobs.tables`.
        files: all files in its folder, without those of tables below it.
        identity: what its rows depend on, as in `_run/identity.json`.
        units, planned: the units that are written as the run plans them, and the number of all units of its run; None
            if the list of units is lost.
        rows: the number of rows in its data objects.
        changed: Unix time of the last change of its run files.
    """

    uri: str
    name: str
    files: tuple[Object, ...]
    identity: Mapping[str, Any]
    units: int
    planned: int | None
    rows: int
    changed: float

    @property
    def size(self) -> int:
        """The size of all its files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def identity_hash(self) -> str:
        """The identity hash in its footers."""
        return stored_identity_hash(self.identity)

    @property
    def is_complete(self) -> bool:
        """Whether each of its units was written."""
        return self.planned is not None and self.units >= self.planned

    @property
    def state(self) -> str:
        """`complete`, or how many of its units were written; also the limit of a table with only part of its input."""
        if self.planned is None:
            return "list of units lost"
        limit = f", limit={self.identity['limit']}" if "limit" in self.identity else ""
        return "complete" + limit if self.is_complete else f"{self.units:,} of {self.planned:,} units{limit}"


def files_by_table(listed: Iterable[Object]) -> dict[str, list[Object]]:
    """Return, by uri of each table, the files that belong to it and not to a table below it."""
    files = list(listed)
    tables = {file.uri.removesuffix(_END) for file in files if file.uri.endswith(_END)}
    grouped: dict[str, list[Object]] = defaultdict(list)
    for file in files:
        folder = file.uri
        while (cut := folder.rfind("/")) > 0:
            folder = folder[:cut]
            if folder in tables:
                grouped[folder].append(file)
                break
    return dict(sorted(grouped.items()))


def find_tables(root: str) -> list[FoundTable]:
    """Return the tables at or below `root`, in order of uri.

    Raises:
        InputError: there is no table, or a run file is damaged.
    """
    root = locations.absolute(root)
    grouped = files_by_table(locations.listing(root))
    if not grouped:
        raise InputError(f"no table here or below; name a table, or a folder of tables{path_hint(root)}", place=root)
    return [_read(uri, files) for uri, files in grouped.items()]


def find_all(places: Sequence[str]) -> list[FoundTable]:
    """Return the tables at or below each of `places`, each table once.

    Raises:
        InputError: `places` is empty, or a place has no table.
    """
    if not places:
        raise InputError("name at least one table, or a folder of tables, as in inputs=[R]", key="inputs", value="[]")
    return list({table.uri: table for place in places for table in find_tables(place)}.values())


def _read(uri: str, files: list[Object]) -> FoundTable:
    names = {file.uri for file in files}
    identity = run_files.read_json(run_uri(uri, IDENTITY))
    planned = None
    if run_uri(uri, INPUTS) in names:
        planned = sum(1 for _ in run_files.read_inputs(run_uri(uri, INPUTS)))
    objects = list(data_objects(uri, files))
    units = len(objects)
    rows = _rows_of_manifest(uri) if run_uri(uri, MANIFEST) in names and planned == units else None
    if rows is None:
        footers = Footers(f for f in indexed_footers(uri, objects, files) if f is not None)
        rows = sum(footer.rows for footer in footers)
        units = units if planned is None else _written_as_planned(uri, footers)
    changed = max(_changed(run_uri(uri, name)) for name in (IDENTITY, MANIFEST) if run_uri(uri, name) in names)
    return FoundTable(uri, str(identity.get(TABLE, "?")), tuple(files), identity, units, planned, rows, changed)


def _written_as_planned(uri: str, footers: Iterable[Footer]) -> int:
    """Return the number of units that were written from the inputs of the last run; it may have replaced older ones."""
    planned = HashSet((unit.name, unit.version) for unit in run_files.read_inputs(run_uri(uri, INPUTS)))
    records = (footer.record for footer in footers)
    return sum((record["unit"]["name"], record["version"]) in planned for record in records if record)


def _rows_of_manifest(uri: str) -> int | None:
    """Return the rows of a run that ended; None if units were missing, or if a later run has begun."""
    manifest: Mapping[str, Any] = run_files.read_manifest(uri)
    return int(manifest["counts"]["rows_out"]) if manifest.get("complete") else None


def _changed(uri: str) -> float:
    fs, path = locations.filesystem(uri)
    return float((fs.get_file_info(path).mtime_ns or 0) / 1e9)


_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_AGES = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def size(n: int) -> str:
    """Return a number of bytes in the largest decimal unit that makes it at least one."""
    value, unit = float(n), 0
    while value >= 999.95 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_SIZES[unit]}" if unit else f"{n} B"


def age(seconds: float) -> str:
    """Return a duration in its largest whole unit."""
    for length, unit in _AGES:
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return "0 s"


def short_hash(identity: str) -> str:
    """Return the first eight digits of an identity's hash."""
    return identity[:8]


def flat_lines(identity: Mapping[str, Any]) -> list[str]:
    """Return an identity as `key: value` lines, one for each leaf, in order of the keys."""
    return [f"{key}: {value}" for key, value in sorted(flatten(dict(identity)).items())]


def in_columns(rows: Sequence[Sequence[str]], *, numbers: Container[int] = ()) -> list[str]:
    """Return the rows with cells padded to the width of their column; the columns `numbers` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


class RatedRun(NamedTuple):
    """Uris of tables.

    Attributes:
        ratings, items: all such tables except trial runs (`limit=`) of other tables among them.
        records, images: the table with the most rows; None if there is none.
    """

    ratings: list[str]
    items: list[str]
    records: str | None
    images: str | None


def find_rated_run(place: str) -> RatedRun | None:
    """Return the tables below the folder `place`; None if it is a glob or a table, or has only tables of ratings.

    Raises:
        InputError: none of the tables below has ratings.
    """
    uri = locations.absolute(place)
    if glob.has_magic(place) or locations.exists(run_uri(uri, IDENTITY)):
        return None
    try:
        tables = find_tables(uri)
    except InputError:  # nothing there, which opening the ratings reports
        return None
    trial_runs = trials({table.uri: table.identity for table in tables if table.is_complete})
    by_kind: dict[str, list[FoundTable]] = {}
    for table in tables:
        if table.uri not in trial_runs:
            by_kind.setdefault(table.name, []).append(table)
    if set(by_kind) == {"ratings"} and not trial_runs:
        return None
    if "ratings" not in by_kind:
        raise InputError(f"has tables of {', '.join(sorted(by_kind))}, but none of ratings", key="ratings", value=place)
    ratings, items = ([table.uri for table in by_kind.get(kind, ())] for kind in ("ratings", "items"))
    records, images = (
        max(by_kind[kind], key=lambda table: table.rows).uri if kind in by_kind else None
        for kind in ("records", "images")
    )
    return RatedRun(ratings, items, records, images)


def remove_table(table: FoundTable) -> list[str]:
    """Remove the files that a run wrote into the folder of `table`; return the uris of the other files, which are kept.

    The identity is removed last, so that after an interruption the place is still a table and can be removed again.

    Raises:
        InputError: another process is writing the table.
    """
    lock.acquire(table.uri)
    try:
        identity = run_uri(table.uri, IDENTITY)
        written = [f.uri for f in table.files if is_written_by_run(table.uri, f.uri) or is_temporary(f.uri)]
        locations.remove([uri for uri in written if uri != identity])
        locations.remove([identity])
    finally:
        lock.release(table.uri)
    if not locations.is_s3(table.uri):
        _remove_empty_folders(Path(table.uri))
    return [f.uri for f in table.files if f.uri not in written]


def leftovers(table: FoundTable) -> Iterator[Object]:
    """Yield the files of `table` that no reader uses.

    These are temporary files, damaged files that a repair set aside, rejects of replaced generations, and data objects
    and rejects of units that are not in the list of the run. If a table's list of units is lost, only the first two.
    """
    yield from (file for file in table.files if is_temporary(file.uri) or is_set_aside(file.uri))
    if run_uri(table.uri, INPUTS) not in {file.uri for file in table.files}:
        return
    generations = {unit.name: 0 for unit in read_inputs(run_uri(table.uri, INPUTS))}
    objects = list(data_objects(table.uri, table.files))
    for footer in indexed_footers(table.uri, objects, table.files):
        if footer is not None and (record := footer.record) is not None and record["unit"]["name"] in generations:
            generations[record["unit"]["name"]] = record["generation"]
    for file in table.files:
        folder, _, name = file.uri.removeprefix(table.uri).lstrip("/").rpartition("/")
        if not name.endswith(".parquet") or is_temporary(file.uri):
            continue
        if folder == "_rejects":
            unit, _, generation = name.removesuffix(".parquet").rpartition(".")
            # Rejects are written before their data object: those of a later generation may belong to a run.
            if unit not in generations or (generation.isdecimal() and int(generation) < generations[unit]):
                yield file
        elif not folder and name.removesuffix(".parquet") not in generations:
            yield file


def remove_leftovers(table: FoundTable, files: Iterable[Object]) -> None:
    """Remove `files` of `table`.

    Raises:
        InputError: another process is writing the table.
    """
    lock.acquire(table.uri)
    try:
        locations.remove([file.uri for file in files])
    finally:
        lock.release(table.uri)


def _remove_empty_folders(folder: Path) -> None:
    for name in (FOLDER, "_rejects"):
        _remove_if_empty(folder / name)
    _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()

"""Removal of tables, and of files that interrupted or repeated runs left in tables."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from jobs.inventory.found import FoundTable
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.footers import data_objects
from jobs.store.run_files import FOLDER, IDENTITY, INPUTS, read_inputs, run_uri
from jobs.store.runs import lock, place
from jobs.store.unit_index import indexed_footers


def remove_table(table: FoundTable) -> list[str]:
    """Remove the files that a run wrote into the folder of `table`; return the uris of the other files, which are kept.

    The identity is removed last, so that after an interruption the place is still a table and can be removed again.

    Raises:
        InputError: another process is writing the table.
    """
    lock.acquire(table.uri)
    try:
        identity = run_uri(table.uri, IDENTITY)
        written = [f.uri for f in table.files if place.is_written_by_run(table.uri, f.uri) or place.is_temporary(f.uri)]
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
    yield from (file for file in table.files if place.is_temporary(file.uri) or place.is_set_aside(file.uri))
    if run_uri(table.uri, INPUTS) not in {file.uri for file in table.files}:
        return
    generations = {unit.name: 0 for unit in read_inputs(run_uri(table.uri, INPUTS))}
    objects = list(data_objects(table.uri, table.files))
    for footer in indexed_footers(table.uri, objects, table.files):
        if footer is not None and (record := footer.record) is not None and record["unit"]["name"] in generations:
            generations[record["unit"]["name"]] = record["generation"]
    for file in table.files:
        folder, _, name = file.uri.removeprefix(table.uri).lstrip("/").rpartition("/")
        if not name.endswith(".parquet") or place.is_temporary(file.uri):
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

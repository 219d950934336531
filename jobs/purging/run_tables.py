"""The tables of a run, their lists of exclusions, and what is left of withdrawn pictures in them and in other files."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from actors.quantities import quantity
from jobs.errors import InputError
from jobs.purging import matching, purged_files
from jobs.purging.needles import Needles, columns_to_read
from jobs.runtime.selection.exclusions import KEPT, Exclusions
from jobs.store import table_faults
from jobs.store.files import locations
from jobs.store.footers import data_objects
from jobs.store.reading import TableSource, open_table
from jobs.store.run_files import FOLDER, IDENTITY, run_uri
from jobs.store.runs import lock
from jobs.store.table_faults import Fault
from jobs.tables import TABLES


def open_tables_below(root: str, *, interrupted: bool = False) -> list[TableSource]:
    """Return the tables with units at or below the folder `root`, sorted by uri; also tables within other tables'
    folders (`_partial`).

    Args:
        interrupted: whether a purge was interrupted, after which run files may not match the units.

    Raises:
        InputError: there are no tables, one is damaged, or one is an incomplete search (`neighbors`). The identity of
            a search includes the rows that it covers, so that it could not be continued after the purge.
    """
    opened = (table_faults.sound_part(uri) if interrupted else _begun(uri) for uri in sorted(uris_below(root)))
    return [table for table in opened if table is not None]


def _begun(uri: str) -> TableSource | None:
    """Return the table at `uri`, complete or not; None if it has no unit yet."""
    if next(data_objects(uri, locations.listing(uri)), None) is None:
        return None
    table = open_table(uri, complete=False)
    return open_table(uri) if table.name == "neighbors" else table


@contextlib.contextmanager
def locked(root: str) -> Iterator[None]:
    """Lock all tables at or below `root`, before they are read, until the end of the block.

    Raises:
        InputError: there are no tables, or another process writes one of them.
    """
    with contextlib.ExitStack() as locks:
        for uri in uris_below(root):
            if lock.acquire(uri):
                locks.callback(lock.release, uri)
        yield


def uris_below(root: str) -> list[str]:
    """Return the uris of the tables at or below the folder `root`, also of those without a unit.

    Raises:
        InputError: there are no tables.
    """
    end = f"/{FOLDER}/{IDENTITY}"
    uris = [file.uri.removesuffix(end) for file in locations.listing(root) if file.uri.endswith(end)]
    if not uris:
        raise InputError("no table here or below; name a table, or the folder of a run", key="input", value=root)
    return uris


def counts_by_table(tables: Sequence[TableSource], needles: Needles) -> tuple[dict[str, int], dict[str, int]]:
    """Return two counts by the uri of the table: rows that must be removed, and other rows that mention a picture.

    Tables without such rows are omitted.
    """
    gone, mentioning = Counter[str](), Counter[str]()
    for table in tables:
        columns = columns_to_read(table.footers[0].schema)
        for rows in table.batches(columns) if columns else ():
            of_gone, of_mentioning = needles.masks(rows, TABLES[table.name].key)
            gone[table.uri] += int(of_gone.sum())
            mentioning[table.uri] += int(of_mentioning.sum())
    return dict(+gone), dict(+mentioning)


def check_list(tables: Sequence[TableSource], listed: Exclusions) -> None:
    """Check that the list has every picture that the tables exclude already.

    Raises:
        InputError: it lacks one, so that later runs with the list would bring the picture back.
    """
    for table in tables:
        try:
            kept = frozenset(filter(None, locations.read_bytes(run_uri(table.uri, KEPT)).decode().split("\n")))
        except FileNotFoundError:
            continue
        if missing := kept - listed.marks:
            why = f"the list lacks pictures that {table.uri} excludes ({len(missing):,} marks in its _run/{KEPT})"
            raise InputError(why, key="exclusions", remedy="use the earlier list with the new entries added")


@dataclass(frozen=True)
class Leftovers:
    """What is left of withdrawn pictures.

    Attributes:
        faults: each table and file that names or shows one.
        tables, rows, read: the number of tables, of their rows, and of other files that were read.
        unchecked: the files that could not be read, or not all of them.
    """

    faults: list[Fault]
    tables: int
    rows: int
    read: int
    unchecked: list[str]


def find_leftovers(root: str, excluded: Exclusions, *, without: Sequence[str]) -> Leftovers:
    """Search the tables at or below `root`, and the files among them except those in `without`.

    Raises:
        InputError: there is no table.
    """
    sources = open_tables_below(root)
    needles = Needles(matching.gather(sources, excluded.marks))
    rows, mentions = counts_by_table(sources, needles)
    others = purged_files.other_files(root, sources, without=without)
    checked = purged_files.purge_files(others.files, others, needles, act=False)
    faults = [Fault(at, f"has {quantity(n, 'row')} about a picture of the list") for at, n in sorted(rows.items())]
    faults += [Fault(at, f"mentions such a picture in texts of {n:,} other rows") for at, n in sorted(mentions.items())]
    faults += [Fault(file, "mentions a picture of the list") for file in checked.found]
    read = len(others.files) - len(checked.unchecked)
    return Leftovers(faults, len(sources), sum(source.rows for source in sources), read, checked.unchecked)

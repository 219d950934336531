"""What is left of withdrawn pictures in the tables and files below a folder."""

from collections.abc import Sequence
from dataclasses import dataclass

from actors.quantities import quantity
from jobs.purging import files, matching
from jobs.purging.needles import Needles
from jobs.purging.tables import counts_by_table, open_tables_below
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.table_faults import Fault


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
    others = files.other_files(root, sources, without=without)
    checked = files.purge_files(others.files, others, needles, act=False)
    faults = [Fault(at, f"has {quantity(n, 'row')} about a picture of the list") for at, n in sorted(rows.items())]
    faults += [Fault(at, f"mentions such a picture in texts of {n:,} other rows") for at, n in sorted(mentions.items())]
    faults += [Fault(file, "mentions a picture of the list") for file in checked.found]
    read = len(others.files) - len(checked.unchecked)
    return Leftovers(faults, len(sources), sum(source.rows for source in sources), read, checked.unchecked)

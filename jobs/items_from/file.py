"""items input=FILE: check a user's file, then write its rows as items, texts and records.

The file is read once, into a spool, before anything is written, so that a fault in the last line leaves no trace.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice

from jobs.items_from import input_rows, row_items
from jobs.items_from.config import ItemsConfig
from jobs.items_from.output import ITEMS, ItemsPlan
from jobs.items_from.pictures import open_pictures
from jobs.items_from.unit_spool import UnitSpool
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions
from jobs.store import limits
from jobs.store.files.spool import Spool
from jobs.store.writer import Reject

# The keys that the rows depend on. The folder or table of pictures is not included, since ids are hashes of names.
IDENTITY = ("columns", "separators", "kind", "item_per", "language", "encoding", "delimiter", "unit_rows")


@contextmanager
def read_plan(cfg: ItemsConfig, excluded: Exclusions) -> Iterator[ItemsPlan]:
    """Read and check the file, and yield what to write; its spool exists until the generator is closed.

    Raises:
        InputError: a column, picture or list does not fit, two rows have the same id, or no row is usable.
    """
    assert cfg.input is not None
    limits.check(cfg.limit)
    file = input_rows.open_file(cfg.input, encoding=cfg.encoding, delimiter=cfg.delimiter)
    roles = row_items.roles_of(cfg, file)
    pictures = open_pictures(cfg, file)
    records = pictures.by_url and bool(roles.pictures)
    reader = row_items.ItemRowReader(cfg, file, roles, pictures)
    exclusion_filter = ExclusionFilter(excluded.marks)
    with (
        Spool("items") as folder,
        UnitSpool(folder.path, cfg.unit_rows, exclusion_filter, records=records, gold=bool(roles.gold)) as spool,
    ):
        for line, row in islice(file.rows(spool.reject), cfg.limit):
            prepared = reader.items(line, row)
            if isinstance(prepared, Reject):
                spool.reject(prepared)
            else:
                spool.add(line, prepared)
        reader.finish()
        same = f"columns.id={roles.id}" if roles.id else "pictures and texts; remove one, or set columns.id="
        spool.finish(file, same=same)
        settings = asdict(cfg)
        yield ItemsPlan(
            units=spool.units(file),
            identity={
                "input": file.object.uri,
                "pictures": type(pictures).__name__.lower(),
                **{key: settings[key] for key in IDENTITY},
                **({"limit": cfg.limit} if cfg.limit else {}),
            },
            read=lambda unit: spool.rows(unit.extra["number"]),
            lines=tuple(
                f"rejected: {file.at(reject.position)}: {reject.message} ({reject.reason})"
                for reject in spool.first_rejects
            ),
            tables=("records", "texts", ITEMS) if records else ("texts", ITEMS),
            condition=cfg.condition,
            limit=limits.Taken(cfg.limit, None, None, per_input=False, noun="rows") if cfg.limit else None,
            own_units=("records",) if records and spool.shares_pictures else (),
        )

"""Counts of a unit's tables: rejects, filtered rows and tallies are with the items alone."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from jobs.items_from.output import UnitRows, _fill
from jobs.store.counts import Counts
from jobs.store.writer import Reject


class Writer:
    """Stands for a unit's writer."""

    def __init__(self) -> None:
        self.counts, self.rows, self.rejects = Counts(), 0, list[Reject]()

    def write(self, rows: pa.Table) -> None:
        self.rows += rows.num_rows

    def reject(self, reject: Reject) -> None:
        self.rejects.append(reject)


def test_what_did_not_become_an_item_is_counted_once() -> None:
    reject = Reject("f", 3, "malformed", "no row")
    tables = {"items": pa.table({"item_id": ["a", "b"]}), "texts": pa.table({"text_id": ["t"]})}
    tallies = {"exclusions": {"m": 1}}
    parts: Any = {"tables": tables, "rows_in": 7, "filtered": {"empty": 4}, "rejects": [reject], "tallies": tallies}
    rows: Any = SimpleNamespace(**parts)
    assert set(parts) == set(UnitRows.__dataclass_fields__)
    items, texts = Writer(), Writer()
    for name, writer in (("items", items), ("texts", texts)):
        target: Any = writer
        _fill(target, name, rows)
    assert (items.rows, items.counts.rows_in, items.rejects) == (2, 7, [reject])
    assert (items.counts.filtered, items.counts.tallies) == ({"empty": 4}, {"exclusions": {"m": 1}})
    assert (texts.rows, texts.counts.rows_in, texts.rejects) == (1, 1, [])
    assert not texts.counts.filtered
    assert not texts.counts.tallies

"""Counts of a unit's tables: rejects, filtered rows and tallies are with the items alone."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.items_from.items_output import ItemsPlan, UnitRows, _fill, check, rows_of, write
from jobs.runtime.configuration.config import Writing
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.selection.exclusions import Exclusions, marks_of
from jobs.store.counts import Counts
from jobs.store.table_plan import RowLimit
from jobs.store.units import Unit
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


def exclusions_of(*entries: str) -> Exclusions:
    return Exclusions(entries, tuple(marks_of(entry) for entry in entries))


def items_plan(**keys: Any) -> ItemsPlan:
    """Return a plan of two units, each with one item and one text."""

    def read(unit: Unit) -> UnitRows:
        tables = {
            "items": rows_of("items", [{"item_id": unit.name, "kind": "text"}]),
            "texts": rows_of("texts", [{"text_id": f"t-{unit.name}", "role": "text", "text": "T"}]),
        }
        tallies = {"kinds": {"text": 1}, "exclusions": {"b": 1}} if unit.name == "u2" else {"kinds": {"text": 1}}
        return UnitRows(tables, rows_in=1, tallies=tallies)

    units = [Unit(name, (), rows=1) for name in ("u1", "u2")]
    return ItemsPlan(**{"units": units, "identity": {"of": "test"}, "read": read, "lines": ["the line"], **keys})


def test_a_table_is_identified_by_the_plan_its_condition_and_the_exclusions(tmp_path: Path) -> None:
    def identities(excluded: Exclusions, **keys: Any) -> list[dict[str, Any]]:
        plans = check(Writing(out=str(tmp_path / "o")), items_plan(**keys), excluded)
        return [dict(plan.identity) for plan in plans.values()]

    first, second = identities(exclusions_of())
    assert first == second == {"of": "test", "condition": ""}
    assert identities(exclusions_of(), condition="c")[0] == {"of": "test", "condition": "c"}
    with_list = identities(exclusions_of("a"))
    assert with_list[0] == with_list[1]
    assert with_list[0].keys() == {"of", "condition", "exclusions"}
    assert identities(exclusions_of("b")) != with_list


def test_only_items_have_the_metadata_and_only_some_tables_units_of_their_own(tmp_path: Path) -> None:
    plan = items_plan(
        condition="c",
        metadata={"k": "v"},
        own_units=("texts",),
        limit=RowLimit(1, 1, 2, per_input=False, noun="rows"),
        derived=True,
    )
    plans = check(Writing(out=str(tmp_path / "o")), plan, exclusions_of())
    assert {name: dict(table.metadata) for name, table in plans.items()} == {
        "texts": {}, "items": {"k": "v", "condition": "c"}
    }  # fmt: skip
    assert {name: [unit.name for unit in table.units] for name, table in plans.items()} == {
        "texts": ["texts-u1", "texts-u2"], "items": ["u1", "u2"]
    }  # fmt: skip
    assert {(table.out, table.limit, table.derived) for table in plans.values()} == {
        (f"{tmp_path}/o/{name}", plan.limit, True) for name in ("texts", "items")
    }
    without = check(Writing(out=str(tmp_path / "o")), items_plan(metadata={"k": "v"}), exclusions_of())
    assert without["items"].metadata == {"k": "v"}


def test_what_is_said_about_the_tables(tmp_path: Path) -> None:
    excluded, out = exclusions_of("a", "b", "c"), str(tmp_path / "o")
    plan = items_plan(matched={"c": 1})
    planned = write(Writing(out=out, plan=True), plan, excluded, job="pairs")
    assert isinstance(planned, Plan)
    assert (planned.lines.count("  the line"), len(planned.planned)) == (1, 2)
    assert not (tmp_path / "o").exists()
    manifests = write(Writing(out=out), plan, excluded, job="pairs")
    assert isinstance(manifests, Manifest)
    assert {name: manifest["counts"]["rows_out"] for name, manifest in manifests.items()} == {"texts": 2, "items": 2}
    assert [line for line in manifests.lines if " s" not in line] == [
        f"pairs: {out}/texts",
        "  2 in = 2 out",
        f"pairs: {out}/items",
        "  2 in = 2 out",
        "  the line",
        "  kinds: text 2",
        "  exclusions: 1 of 3 entries match no picture here, for example a",
    ]


def test_nothing_is_written_if_one_of_the_tables_cannot_be_continued(tmp_path: Path) -> None:
    out = tmp_path / "o"
    write(Writing(out=str(out)), items_plan(identity={"of": "another test"}), exclusions_of())
    shutil.rmtree(out / "texts")
    with pytest.raises(InputError, match="o/items"):
        write(Writing(out=str(out)), items_plan(), exclusions_of())
    assert not (out / "texts").exists()

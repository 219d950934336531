"""Footers of objects that remine wrote, and of objects that it did not write."""

import json
from typing import Any

import pyarrow as pa

from jobs.store.counts import Counts
from jobs.store.files.objects import Object
from jobs.store.footers import Footer, Footers
from jobs.store.units import unit_of_file

SOURCE = Object("/table/u.parquet", 9, "e")


def schema(**metadata: str) -> pa.Schema:
    return pa.schema([("item_id", pa.string())], metadata=metadata or None)


def test_only_an_object_of_a_purge_names_the_one_that_it_replaced() -> None:
    replaced = {"purge": "p", "size": 3, "etag": "e"}
    records: list[Any] = [{"replaced": replaced}, {}]
    written = [*(json.dumps(record).encode() for record in records), None]
    assert [Footer(SOURCE, 2, schema(), record).replaced for record in written] == [replaced, None, None]


def test_an_object_without_a_record_has_the_rows_of_its_file() -> None:
    footer = Footer(SOURCE, 2, schema(), None)
    assert (footer.record, footer.counts) == (None, Counts(2, 2))
    assert (footer.unit, footer.unit.rows) == (unit_of_file(SOURCE, rows=2), 2)


def test_schemas_that_differ_in_their_metadata_are_kept_apart() -> None:
    schemas = [schema(source="a"), schema(source="b"), schema(source="a"), schema()]
    footers = Footers(Footer(SOURCE, number, of_object, None) for number, of_object in enumerate(schemas))
    assert len(footers.schemas) == 3
    for footer, expected in zip([*footers, footers[1]], [*schemas, schemas[1]], strict=True):
        assert footer.schema.equals(expected, check_metadata=True)
    assert [footer.rows for footer in footers[1:3]] == [1, 2]

"""Every batch is cast and checked before it is written; what is wrong is named."""

import pyarrow as pa
import pytest

from jobs import tables
from jobs.runtime.command_line import job_names
from jobs.tables import TABLES, WRITTEN_BY, TableError, conform
from tests.cases import check_cases

NODE_IMAGES = TABLES["node_images"]
NEIGHBORS = TABLES["neighbors"]


def neighbors(**columns: object) -> pa.Table:
    arguments: dict[str, object] = {
        "query_id": ["q"],
        "rank": [1],
        "item_id": ["i"],
        "score": [0.5],
        "probability": [0.5],
    }
    return pa.table(arguments | columns)


def test_a_right_batch_is_cast_and_put_in_order() -> None:
    batch = pa.table({
        "probability": pa.array([0.5], pa.float32()),
        "score": pa.array([1], pa.int64()),
        "item_id": pa.array(["i"]).dictionary_encode(),
        "rank": pa.array([1], pa.int64()),
        "query_id": pa.array(["q"], pa.large_string()),
    })  # fmt: skip
    conformed = conform(batch, NEIGHBORS)
    assert conformed.schema.equals(NEIGHBORS.schema(), check_metadata=True)
    assert conformed.to_pylist() == [{"query_id": "q", "rank": 1, "item_id": "i", "score": 1.0, "probability": 0.5}]


def test_every_wrong_column_is_named_at_once() -> None:
    batch = pa.table({"query_id": ["q"], "rank": [[1]], "stranger": [1], "score": ["high"]})
    with pytest.raises(TableError) as raised:
        conform(batch, NEIGHBORS)
    message = str(raised.value)
    assert "table neighbors" in message
    assert "unknown columns stranger" in message
    assert "missing columns item_id" in message
    assert "column rank is list" in message
    assert "column score is string, not double" in message


def test_a_duplicate_column_is_named() -> None:
    twice = pa.Table.from_arrays(
        [pa.array(["n"]), pa.array(["a"]), pa.array(["b"])], ["node_id", "image_id", "image_id"]
    )
    with pytest.raises(TableError, match="duplicate columns image_id"):
        conform(twice, NODE_IMAGES)
    strangers = pa.Table.from_arrays([pa.array(["n"])] * 4, ["node_id", "image_id", "x", "x"])
    with pytest.raises(TableError, match="unknown columns x; duplicate columns x"):
        conform(strangers, NODE_IMAGES)


def test_a_value_that_does_not_fit_is_refused_not_wrapped() -> None:
    with pytest.raises(TableError, match="column rank is int64, not int32"):
        conform(neighbors(rank=[2**40]), NEIGHBORS)
    with pytest.raises(TableError, match="column rank is double"):
        conform(neighbors(rank=[1.5]), NEIGHBORS)


def test_keys_may_not_be_null_or_double() -> None:
    with pytest.raises(TableError, match="null in key column query_id"):
        conform(neighbors(query_id=pa.array([None], pa.string())), NEIGHBORS)
    double = pa.concat_tables([neighbors(), neighbors(), neighbors(rank=[2])])
    with pytest.raises(TableError, match=r"1 duplicate keys, the first {'query_id': 'q', 'rank': 1}"):
        conform(double, NEIGHBORS)


def test_nulls_outside_the_key_and_no_rows_are_fine() -> None:
    assert conform(neighbors(score=pa.array([None], pa.null())), NEIGHBORS)["score"].null_count == 1
    assert conform(NEIGHBORS.schema().empty_table(), NEIGHBORS).num_rows == 0


def test_every_table_says_what_it_is() -> None:
    def check(table: tables.Table) -> None:
        schema = table.schema(encoder="e")
        assert all(field.metadata[b"description"].strip() for field in schema)
        assert set(table.key) <= set(table.columns)
        assert [f.name for f in schema if not f.nullable] == [c for c in table.columns if c in table.key]
        assert schema.metadata == {
            b"remine.table": table.name.encode(),
            b"remine.version": str(table.version).encode(),
            b"remine.key": ",".join(table.key).encode(),
            b"remine.encoder": b"e",
        }
        assert conform(schema.empty_table(), table).num_columns == len(table.columns)

    check_cases(check, TABLES)


def test_vectors_have_the_length_asked_for() -> None:
    assert tables.table("embeddings", dim=3).schema().field("embedding").type == pa.list_(pa.float16(), 3)
    assert tables.table("records", dim=3) is TABLES["records"]
    with pytest.raises(TableError, match="no table 'pictures'; must be one of class_edges, entities, terms"):
        tables.table("pictures")


def test_each_table_has_the_jobs_that_write_it() -> None:
    assert WRITTEN_BY.keys() == TABLES.keys()
    assert {job for jobs in WRITTEN_BY.values() for job in jobs} <= set(job_names.JOBS)

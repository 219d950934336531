"""A unit is published whole: its rejects before its data, and only if its counts balance."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import RunError
from jobs.store.counts import Counts
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.footers import read_footer
from jobs.store.object_rows import read_unit
from jobs.store.reading import open_table
from jobs.store.writer import REJECTS, REJECTS_HELD, Reject, Target, UnitTask, UnitWriter
from jobs.tables import TABLES
from tests.cases import check_cases
from tests.jobs.store.small_runs import begin, contents, plan, unit, write


def test_a_unit_that_does_not_balance_is_not_published(out: str) -> None:
    run = begin(plan(out))
    writer = UnitWriter(run.target, run.todo[0]).__enter__()
    writer.counts.rows_in = 5
    writer.write(pa.table({"node_id": ["n"], "image_id": ["i"]}))
    with pytest.raises(RunError, match="does not balance"):
        writer.__exit__(None, None, None)
    assert list(Path(out).glob("*.parquet")) == []


def test_an_exception_inside_the_block_publishes_nothing(out: str) -> None:
    run = begin(plan(out))

    def fail() -> None:
        with UnitWriter(run.target, run.todo[0]) as writer:
            writer.reject(Reject("f", 0, "malformed", "no row"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sorted(p.name for p in Path(out).rglob("*") if p.is_file()) == [
        "config.json",
        "identity.json",
        "inputs.jsonl",
    ]


def test_an_empty_unit_is_an_object_of_zero_rows(anywhere: str) -> None:
    run = begin(plan(anywhere, units=[unit("a")]))
    write(run, run.todo[0], rows=0)
    run.finish()
    source = open_table(anywhere)
    assert (len(source.footers), source.rows) == (1, 0)
    assert read_unit(source.footers[0].object.uri).column_names == ["node_id", "image_id"]
    assert begin(plan(anywhere, units=[unit("a")])).todo == []


def test_rejects_are_there_before_data(anywhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan(anywhere, units=[unit("a")])
    run = begin(planned)
    publish = locations.publish

    def broken(source: Path, uri: str) -> None:
        if "/_rejects/" not in uri and uri.endswith(".parquet"):
            raise OSError("the store is gone")
        publish(source, uri)

    monkeypatch.setattr(locations, "publish", broken)
    with pytest.raises(OSError, match="the store is gone"):
        write(run, run.todo[0], rejected=2)
    monkeypatch.undo()
    uris = [o.uri for o in locations.listing(anywhere) if o.uri.endswith(".parquet")]
    assert uris == [run.target.rejects_uri(run.todo[0].unit.name, 0)]

    again = begin(planned)
    write(again, again.todo[0], rejected=2)
    assert again.finish()["counts"]["rejected"] == {"malformed": 2}
    rejects = read_unit(uris[0])
    assert rejects["position"].to_pylist() == [0, 1]
    assert rejects["file"].to_pylist() == ["/corpus/a"] * 2
    assert contents(anywhere) == ["a0", "a1"]


def test_many_rejects_are_all_kept_and_not_all_in_memory(out: str) -> None:
    run = begin(plan(out, units=[unit("a")]))
    with UnitWriter(run.target, run.todo[0]) as writer:
        for i in range(2 * REJECTS_HELD + 1):
            writer.counts.rows_in += 1
            writer.reject(Reject("f", i, "malformed", "no row"))
            assert len(writer._rejects) < REJECTS_HELD
    kept = pq.read_table(run.target.rejects_uri(run.todo[0].unit.name, 0))
    assert kept.schema.equals(REJECTS)
    assert kept["position"].to_pylist() == list(range(2 * REJECTS_HELD + 1))
    metadata = pq.read_metadata(run.target.rejects_uri(run.todo[0].unit.name, 0)).row_group(0).column(0)
    assert metadata.compression == "ZSTD"
    assert run.finish()["counts"]["rejected"] == Counter(malformed=2 * REJECTS_HELD + 1)


def test_row_groups_are_bounded_by_their_bytes(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.store.writer.ROW_GROUP_BYTES", 1000)
    run = begin(plan(out, units=[unit("a"), unit("b")]))
    for task, text in zip(run.todo, ("x" * 100, "x" * 5000), strict=True):
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 20
            writer.write(pa.table({"node_id": [f"{n:02}{text}" for n in range(20)], "image_id": ["i"] * 20}))
    groups = [pq.ParquetFile(run.target.data_uri(task.unit.name)).metadata for task in run.todo]
    # 20 rows of some 110 B are 2.2 kB: 8 or 9 rows in each; a row of 5 kB is a separate group
    assert groups[0].num_row_groups == 3
    assert groups[1].num_row_groups == 20
    columns = [groups[0].row_group(0).column(number) for number in range(2)]
    assert [(column.has_dictionary_page, column.compression) for column in columns] == [(True, "ZSTD")] * 2


def test_the_record_of_a_unit_adds_up_its_batches(out: str) -> None:
    retired: Any = {"version": "v", "generation": 0, "counts": Counts().to_json(), "begun": 1.0, "seconds": 2.0}
    replaced: Any = {"purge": "p", "size": 3, "etag": "e"}
    target = Target(out, "images", {"source": "hand"}, "identity", {"python": "3"})
    task = UnitTask(unit("a", derived=True), 1, (retired,))
    schema = TABLES["images"].schema()
    failed = {"rendition": "w", "status": "error", "error_kind": "no_memory", "error_message": "full", "attempts": 1}
    batches = [
        [
            failed | {"image_id": "a", "source_url": "https://h/a"},
            failed | {"image_id": "b", "source_url": "https://h/b"},
            {"image_id": "c", "rendition": "w", "status": "ok"},
        ],
        [failed | {"image_id": "d", "source_url": "https://h/d"}],
    ]
    begun = time.time()
    with UnitWriter(target, task, replaced=replaced) as writer:
        writer.counts.rows_in = 5
        writer.reject(Reject("f", 0, "malformed", "no row"))
        for rows in batches:
            writer.write(pa.Table.from_pylist(rows, schema=schema))
        writer.write(schema.empty_table())
    assert (writer.errors.items, writer.errors.failed) == (4, 3)
    footer = read_footer(Object(target.data_uri("a"), Path(out, "a.parquet").stat().st_size, ""))
    assert footer is not None
    assert footer.record is not None
    record: dict[str, Any] = {**footer.record}
    assert begun <= record.pop("begun") <= time.time()
    assert 0 <= record.pop("seconds") <= time.time() - begun + 0.001  # rounded
    assert record == {
        "unit": task.unit.to_json(), "version": task.unit.version, "generation": 1, "retired": [retired],
        "identity": "identity", "versions": {"python": "3"}, "replaced": replaced,
        "counts": {
            "rows_in": 5, "rows_out": 4, "filtered": {}, "rejected": {"malformed": 1},
            "status": {"error": 3, "ok": 1}, "tallies": {},
            "failures": {"error/no_memory": {"rows": 3, "where": "https://h/a", "message": "full"}},
        },
    }  # fmt: skip
    assert Path(target.rejects_uri("a", 1)).exists()
    assert (footer.schema.metadata or {})[b"remine.source"] == b"hand"


def test_a_task_is_sent_whole_to_a_worker() -> None:
    retired: Any = {"version": "v", "generation": 0, "counts": Counts().to_json(), "begun": 1.0, "seconds": 2.0}
    task = UnitTask(unit("a", derived=True), 1, (retired,), ("error", "blocked"))
    assert UnitTask.from_json(task.to_json()) == task
    first = UnitTask(unit("a"))
    assert (first.generation, first.retired, first.retry) == (0, (), ())
    assert UnitTask.from_json(first.to_json()) == first


def test_numbers_next_to_vectors_are_no_dictionaries(out: str) -> None:
    target = Target(out, "embeddings", {}, "identity", {}, dim=2)
    rows = [{"item_id": f"i{n}", "kind": "image", "embedding": [1.0, 0.5], "status": "ok"} for n in range(4)]
    with UnitWriter(target, UnitTask(unit("a"))) as writer:
        writer.counts.rows_in = len(rows)
        writer.write(pa.Table.from_pylist(rows, schema=target.definition().schema()))
    group = pq.read_metadata(target.data_uri(unit("a").name)).row_group(0)
    chunks = {chunk.path_in_schema: chunk.has_dictionary_page for chunk in map(group.column, range(group.num_columns))}
    assert chunks["item_id"]
    assert not chunks["embedding.list.element"]


def test_pictures_are_not_compressed_again(out: str) -> None:
    target = Target(out, "images", {}, "identity", {})
    rows = [{"image_id": f"i{n}", "rendition": "w300", "bytes": bytes(100_000), "status": "ok"} for n in range(3)]
    with UnitWriter(target, UnitTask(unit("a"))) as writer:
        writer.counts.rows_in = len(rows)
        writer.write(pa.Table.from_pylist(rows, schema=target.definition().schema()))
    group = pq.read_metadata(target.data_uri(unit("a").name)).row_group(0)
    codecs = {chunk.path_in_schema: chunk.compression for chunk in map(group.column, range(group.num_columns))}
    assert codecs.pop("bytes") == "UNCOMPRESSED"
    assert set(codecs.values()) == {"ZSTD"}
    assert pq.read_table(target.data_uri(unit("a").name))["bytes"].to_pylist() == [bytes(100_000)] * 3


def test_counts_balance_if_every_row_is_accounted_for() -> None:
    cases = [
        (Counts(rows_in=2, rows_out=2), True),
        (Counts(rows_in=2, rows_out=2, status=Counter(ok=2)), True),
        (Counts(rows_in=2, rows_out=2, status=Counter(ok=1)), False),
        (Counts(rows_in=3, rows_out=2, filtered=Counter(rule=1)), True),
        (Counts(rows_in=3, rows_out=2), False),
    ]

    def check(counts: Counts, balances: bool) -> None:
        assert counts.balances() is balances

    check_cases(check, cases)


def test_counts_of_units_add_up() -> None:
    total = Counts()
    for rows in (1, 2):
        total += Counts(
            rows_in=3,
            rows_out=rows,
            filtered=Counter(rule=3 - rows),
            status=Counter(ok=rows),
            tallies={"term": {"war": rows}, f"of-{rows}": {"": 1}},
        )
    assert (total.rows_in, total.rows_out, total.filtered, total.status) == (6, 3, {"rule": 3}, {"ok": 3})
    assert total.tallies == {"term": {"war": 3}, "of-1": {"": 1}, "of-2": {"": 1}}

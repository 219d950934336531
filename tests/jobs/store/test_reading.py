"""Tables are found by name or glob, and read if this version of remine wrote them."""

import threading
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError, RunError
from jobs.store import footers, reading
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.footers import Footer, data_objects
from jobs.store.object_rows import NARROW_BYTES, weight_of
from jobs.store.reading import TableSource, open_table, open_tables, tables_in
from jobs.tables import table
from tests.cases import check_cases
from tests.factories import record, write_records
from tests.jobs.store.small_runs import ALL_ROWS, FILES, begin, complete, plan, unit, write


def test_rejects_are_read_in_order_from_the_units_that_have_some(out: str) -> None:
    run = begin(plan(out))
    for task, rejected in zip(run.todo, (2, 0, 1), strict=True):
        write(run, task, rejected=rejected)
    run.finish()
    rejects = list(open_table(out, "node_images").rejects())
    assert [f"{reject.file} {reject.position}" for reject in rejects] == ["/corpus/a 0", "/corpus/a 1", "/corpus/c 0"]


def test_rejects_of_an_earlier_generation_do_not_count(out: str) -> None:
    for etag, rejected in (("1", 2), ("2", 1)):
        run = begin(plan(out, units=[unit("a", etag=etag, derived=True)], derived=True))
        write(run, run.todo[0], rejected=rejected)
        run.finish()
    assert [reject.position for reject in open_table(out).rejects()] == [0]


def test_a_glob_names_the_folders_at_its_depth(tmp_path: Path) -> None:
    for name in ("x/one", "x/two", "x/deep/three", "y/one"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "a.parquet").write_bytes(b"")
    (tmp_path / "x" / "file").write_bytes(b"")
    assert tables_in(f"{tmp_path}/x/*") == [f"{tmp_path}/x/{name}" for name in ("deep", "one", "two")]
    assert tables_in(f"{tmp_path}/*/o?e") == [f"{tmp_path}/{name}/one" for name in "xy"]
    assert tables_in(f"{tmp_path}/x/no") == [f"{tmp_path}/x/no"]
    with pytest.raises(InputError, match="no table matches"):
        tables_in(f"{tmp_path}/x/n*")


def test_a_table_of_a_newer_remine_is_refused(out: str) -> None:
    complete(plan(out, units=[unit("a")]))
    (victim,) = Path(out).glob("*.parquet")
    read = pq.read_table(victim)
    for changed, message in (({b"remine.table": b"dreams"}, "'dreams'"), ({b"remine.version": b"99"}, "version 99")):
        pq.write_table(read.replace_schema_metadata({**read.schema.metadata, **changed}), victim)
        with pytest.raises(InputError, match=message):
            open_table(out)


def test_of_two_units_the_one_of_a_newer_remine_is_named(out: str) -> None:
    complete(plan(out, units=[unit("a"), unit("b")]))
    *_, victim = sorted(Path(out).glob("*.parquet"))
    read = pq.read_table(victim)
    pq.write_table(read.replace_schema_metadata({**read.schema.metadata, b"remine.version": b"99"}), victim)
    with pytest.raises(InputError, match=f"^{victim}: version 99 of table"):
        open_table(out)


def test_files_of_several_tables_in_one_folder_are_refused(out: str) -> None:
    complete(plan(out, units=[unit("a"), unit("b")]))
    first, last = sorted(Path(out).glob("*.parquet"))

    def rename(file: Path, table_name: bytes) -> None:
        read = pq.read_table(file)
        pq.write_table(read.replace_schema_metadata({**read.schema.metadata, b"remine.table": table_name}), file)

    rename(last, b"texts")
    with pytest.raises(InputError, match=f"^{out}: several tables in one folder: node_images, texts; move all but"):
        open_table(out)
    rename(last, b"")
    with pytest.raises(InputError, match=f"^{last}: not written by remine, but in the folder of a table"):
        open_table(out)
    rename(first, b"")
    with pytest.raises(InputError, match=f"^{out}: Parquet files, but not a table of remine; expected records "):
        open_table(out, "records")


def test_hidden_names_and_folders_hold_no_data_objects(out: str) -> None:
    names = ["a.parquet", ".b.parquet", ".ipynb_checkpoints/c.parquet", "_rejects/d.parquet", "x/e.parquet", "f.txt"]
    listed = [Object(f"{out}/{name}", 1, "") for name in names]
    assert [o.uri for o in data_objects(out, listed)] == [f"{out}/a.parquet", f"{out}/x/e.parquet"]


def test_folders_that_a_run_keeps_for_itself_are_not_named_as_tables(out: str) -> None:
    complete(plan(f"{out}/_partial/one"))
    with pytest.raises(InputError, match="no table here"):
        open_table(out)
    complete(plan(f"{out}/two"))
    with pytest.raises(InputError, match="a folder of several tables: two; name one of them"):
        open_table(out)


def test_a_run_that_has_written_nothing_yet_is_named_as_such(out: str) -> None:
    begin(plan(out))
    with pytest.raises(InputError, match=r"no unit is done yet; run the command that writes it again, or wait$"):
        open_table(out, "node_images")


def test_an_absent_table_and_another_table_are_refused_before_they_are_opened(out: str, tmp_path: Path) -> None:
    begin(plan(out))
    with pytest.raises(InputError, match=f"^{tmp_path}/none: no table here"):
        reading.refuse_early(f"{tmp_path}/none", "images")
    with pytest.raises(InputError, match=f"^{out}: is a table 'node_images', expected images"):
        reading.refuse_early(out, "images")
    reading.refuse_early(out, "images", "node_images")
    reading.refuse_early(None, "images")


def test_a_folder_in_a_list_means_all_of_its_tables(out: str) -> None:
    for name in ("one", "two"):
        complete(plan(f"{out}/{name}"))
    assert [source.uri for source in open_tables([out])] == [f"{out}/one", f"{out}/two"]
    assert [source.uri for source in open_tables([f"{out}/two", f"{out}/*"])] == [f"{out}/two", f"{out}/one"]


def test_units_are_in_order_of_their_names_although_their_files_are_not(out: str) -> None:
    """`a.b.parquet` is before `a.parquet`, and `a` before `a.b`."""
    units = [replace(unit(file), name=name) for file, name in zip(FILES, ("a.b", "a", "c"), strict=True)]
    complete(plan(out, units=units))
    assert [footer.unit.name for footer in open_table(out).footers] == ["a", "a.b", "c"]


def test_parts_have_the_rows_of_the_table_and_of_its_first_rows(tmp_path: Path) -> None:
    out = str(tmp_path / "r")
    write_records(out, [[record(f"{unit}-{n}") for n in range(size)] for unit, size in enumerate((5, 0, 7, 1))])

    def ids(source: TableSource) -> list[str]:
        return [one for batch in source.batches(["record_id"]) for one in batch["record_id"].to_pylist()]

    whole = open_table(out)
    for limit in (None, 1, 4, 5, 6, 11, 12, 13, 99):
        source = whole.first(limit)
        assert ids(source) == ids(whole)[:limit]
        for rows in (1, 3, 6, 100):
            assert [one for part in source.parts(rows) for one in ids(part)] == ids(source), (limit, rows)
    assert len(list(whole.first(12).parts(6))) > 1


@pytest.mark.parametrize("ahead_bytes", [reading.AHEAD_BYTES, 1])
def test_rows_on_s3_come_in_the_order_of_the_units(s3: str, ahead_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AHEAD_BYTES", ahead_bytes)
    out = f"{s3}/ahead-{ahead_bytes}"
    complete(plan(out, units=[unit(name, derived=True) for name in FILES]))
    source = open_table(out, "node_images")

    def read(limit: int | None = None) -> list[str]:
        return [node for batch in source.first(limit).batches(["node_id"]) for node in batch["node_id"].to_pylist()]

    assert read() == ALL_ROWS
    assert read(3) == ALL_ROWS[:3]
    assert [rows["node_id"].to_pylist() for rows in source.by_object(["node_id"])] == [
        ALL_ROWS[first : first + 2] for first in (0, 2, 4)
    ]
    locations.replace(f"{out}/b.parquet", b"PAR1 damaged PAR1")
    batches = source.batches(["node_id"])
    assert next(batches)["node_id"].to_pylist() == ALL_ROWS[:2]
    with pytest.raises(RunError, match=r"b\.parquet: damaged"):
        next(batches)


def test_a_slow_footer_on_s3_keeps_no_thread_from_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = [threading.Event() for _ in range(2 * footers.THREADS_S3)]

    def read(source: Object) -> None:
        begun[source.size].set()
        if source.size == footers.THREADS_S3 - 1:
            assert begun[-1].wait(timeout=60)

    monkeypatch.setattr(footers, "_read", read)
    monkeypatch.setattr(footers, "_read_again", lambda _: None)  # what the second client reads; without a store
    objects = [Object(f"s3://bucket/{number}.parquet", number, "") for number in range(len(begun))]
    assert list(footers.read_footers(objects, remote=True)) == [None] * len(begun)


def test_pictures_vectors_and_unknown_columns_weigh_as_much_as_the_object() -> None:
    source = Object("s3://b/u", 10**6, "")
    images = Footer(source, 3, table("images").schema(), None)
    vectors = Footer(source, 3, table("embeddings", dim=4).schema(), None)
    small = replace(images, object=source._replace(size=5000))
    cases = [
        (images, None, 10**6),
        (images, [], 10**6),
        (images, ["image_id", "bytes"], 10**6),
        (vectors, ["embedding"], 10**6),
        (images, ["image_id"], 3 * NARROW_BYTES),
        (vectors, ["item_id", "kind"], 6 * NARROW_BYTES),
        (images, ["image_id", "absent"], 6 * NARROW_BYTES),
        (small, ["image_id", "status"], 5000),
    ]

    def check(footer: Footer, columns: list[str] | None, weight: int) -> None:
        assert weight_of(footer, columns) == weight

    check_cases(check, cases)

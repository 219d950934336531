"""`ls`, `rm`, `copy`: what lies where, and that nothing else is touched."""

import fcntl
import gzip
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs import ls, rm
from jobs.errors import InputError
from jobs.inventory.copying import copy_files, plan_copy
from jobs.inventory.found import (
    RatedRun,
    age,
    files_by_table,
    find_rated_run,
    find_tables,
    flat_lines,
    in_columns,
    leftovers,
    remove_leftovers,
    remove_table,
    short_hash,
    size,
)
from jobs.runtime.command_line import cli
from jobs.runtime.process import console
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.json_types import FOOTER_KEY
from jobs.store.reading import open_table
from jobs.store.runs import lock
from tests.factories import picture, rating, record, rows_of, write_records, write_table, write_units
from tests.jobs.store import small_runs

IMAGES = [picture(number) for number in range(3)]
RATINGS = [rating("i1", "ann", "sensitive", "yes"), rating("i2", "ann", "sensitive", "no")]


def two_tables(folder: Path) -> Path:
    write_units(folder / "images", "images", [IMAGES[:2], IMAGES[2:]])
    write_table(folder / "ratings" / "ann", "ratings", RATINGS)
    (folder / "notes.txt").write_text("ours")
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_sizes_ages_and_columns_are_read_at_a_glance() -> None:
    cases = {
        0: "0 B",
        999: "999 B",
        1000: "1.0 kB",
        999_949: "999.9 kB",
        999_950: "1.0 MB",
        3_210_000_000_000: "3.2 TB",
        10**18: "1000.0 PB",
    }
    assert {n: size(n) for n in cases} == cases
    ages = {
        0.4: "0 s",
        1.0: "1 s",
        59.0: "59 s",
        60.0: "1 min",
        3_600.0: "1 h",
        7_199.0: "1 h",
        86_400.0 * 3: "3 d",
        86_400.0 * 365: "1 y",
        86_400.0 * 800: "2 y",
    }
    assert {seconds: age(seconds) for seconds in ages} == ages
    assert in_columns([("name", "n"), ("a", "10")], numbers={1}) == ["name   n", "a     10"]
    assert flat_lines({"b": 1, "a": {"y": [2], "x": None}}) == ["a.x: None", "a.y: [2]", "b: 1"]
    assert short_hash("0123456789") == "01234567"


def test_a_file_belongs_to_the_innermost_table() -> None:
    names = [
        "R/t/_run/identity.json",
        "R/t/u.parquet",
        "R/t/_partial/_run/identity.json",
        "R/t/_partial/p.parquet",
        "R/x",
    ]
    grouped = files_by_table([Object(f"/{name}", 1, "") for name in names])
    assert {uri: [file.uri for file in files] for uri, files in grouped.items()} == {
        "/R/t": ["/R/t/_run/identity.json", "/R/t/u.parquet"],
        "/R/t/_partial": ["/R/t/_partial/_run/identity.json", "/R/t/_partial/p.parquet"],
    }


def test_ls_counts_rows_units_and_bytes_by_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_tables(tmp_path)
    images, ratings = find_tables(str(tmp_path))
    assert (images.name, images.rows, images.units, images.planned, images.state) == ("images", 3, 2, 2, "complete")
    assert images.size == sum(p.stat().st_size for p in (tmp_path / "images").rglob("*") if p.is_file())
    assert images.identity_hash == open_table(images.uri).identity
    assert (ratings.name, ratings.rows) == ("ratings", 2)
    states = [
        ({"planned": None}, False, "list of units lost"),
        ({"planned": 1200}, False, "2 of 1,200 units"),
        ({"planned": 3, "identity": {"limit": 4}}, False, "2 of 3 units, limit=4"),
        ({"identity": {"limit": 4}}, True, "complete, limit=4"),
    ]  # fmt: skip
    for changes, is_complete, state in states:
        changed = replace(images, **changes)  # type: ignore[arg-type]
        assert (changed.is_complete, changed.state) == (is_complete, state)

    min((tmp_path / "images").glob("*.parquet"), key=lambda path: pq.read_metadata(path).num_rows).unlink()
    assert find_tables(str(tmp_path / "images"))[0].rows == 2  # not those of the manifest
    assert cli.main("ls", [str(tmp_path), "--identity"]) == 0
    out = capsys.readouterr().out
    line = next(line.split() for line in out.splitlines() if line.split()[1:2] == ["images"])
    assert line[3:4] == ["1"]
    assert "1 of 2 units" in out
    assert images.identity_hash[:8] in out
    assert "    table: ratings" in out


def test_ls_prints_a_line_for_each_table_and_their_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rows, days in (("few", 1, 3), ("many", 1200, 400)):
        write_table(tmp_path / name, "ratings", [rating(f"i{n}", "ann", "q", "1") for n in range(rows)])
        past = time.time() - days * 86_400 - 60
        for file in (tmp_path / name / "_run").iterdir():
            os.utime(file, (past, past))
    tables = few, many = find_tables(str(tmp_path))
    assert ls.execute(ls.LsConfig([str(tmp_path), few.uri])) == list(tables)  # each table once
    heading, *lines, total = capsys.readouterr().out.splitlines()
    assert tuple(heading.split()) == ls.HEADINGS
    assert [line.split() for line in lines] == [
        [table.uri, "ratings", rows, "1", *size(table.size).split(), *of_age, "complete", table.identity_hash[:8]]
        for table, rows, of_age in ((few, "1", ("3", "d")), (many, "1,200", ("1", "y")))
    ]
    assert total == f"2 tables, {size(few.size + many.size)}"


def test_what_a_table_lost_is_counted_by_what_is_left(tmp_path: Path) -> None:
    """Rows are those of the manifest only if it says that the run ended with all units of the list."""
    write_units(tmp_path / "t", "ratings", [RATINGS[:1], RATINGS[1:]])
    run = tmp_path / "t" / "_run"
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["counts"]["rows_out"] = 7

    def counted() -> tuple[int, int, int | None, str]:
        (table,) = find_tables(str(tmp_path))
        return table.rows, table.units, table.planned, table.state

    for is_complete, rows in ((True, 7), (False, 2)):
        (run / "manifest.json").write_text(json.dumps(manifest | {"complete": is_complete}))
        assert counted() == (rows, 2, 2, "complete")
    (tmp_path / "t" / "unit1.parquet").write_bytes(b"damaged")
    assert counted() == (1, 1, 2, "1 of 2 units")
    (run / "inputs.jsonl").unlink()
    assert counted() == (1, 2, None, "list of units lost")


def test_a_table_changed_when_the_last_of_its_run_files_was_written(tmp_path: Path) -> None:
    write_table(tmp_path / "t", "ratings", RATINGS)
    identity, manifest = (tmp_path / "t" / "_run" / name for name in (run_files.IDENTITY, run_files.MANIFEST))
    for seconds in ((1000, 2000), (4000, 3000)):
        for file, second in zip((identity, manifest), seconds, strict=True):
            os.utime(file, (second, second))
        (table,) = find_tables(str(tmp_path))
        assert table.changed == max(seconds)
    manifest.unlink()
    os.utime(identity, (500, 500))
    assert find_tables(str(tmp_path))[0].changed == 500


def test_a_trial_run_counts_until_the_whole_run_is_complete(tmp_path: Path) -> None:
    assert find_rated_run(str(tmp_path)) is None
    trial = write_table(tmp_path / "trials", "ratings", RATINGS[:1], limit=1)
    whole = write_units(tmp_path / "whole", "ratings", [RATINGS[:1], RATINGS[1:]])
    run = find_rated_run(str(tmp_path))
    assert run is not None
    assert run.ratings == [whole]
    next((tmp_path / "whole").glob("*.parquet")).unlink()
    run = find_rated_run(str(tmp_path))
    assert run is None or run.ratings == [trial, whole]  # None: the tables below, which are all ratings


def test_places_without_a_table_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for job, *keys in (("ls",), ("rm",), ("rm", "interrupted=true")):
        assert cli.main(job, [str(tmp_path), *keys]) == 2
        assert "no table here or below" in capsys.readouterr().err
        assert cli.main(job, keys) == 2
        assert "inputs" in capsys.readouterr().err


def test_rm_asks_and_leaves_what_is_not_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_tables(tmp_path)
    (tmp_path / "images" / "own.txt").write_text("mine")
    before = snapshot(tmp_path)
    assert cli.main("rm", [str(tmp_path)]) == 2  # nobody to ask
    assert "yes=true" in capsys.readouterr().err
    images, ratings = find_tables(str(tmp_path))
    listed = (
        f"  {images.uri}: images, 3 rows, {size(images.size)}\n  {ratings.uri}: ratings, 2 rows, {size(ratings.size)}"
    )
    total = f"2 tables, {size(images.size + ratings.size)}"
    capsys.readouterr()
    assert cli.main("rm", [str(tmp_path), "plan=true"]) == 0
    assert capsys.readouterr().out == f"{listed}\nrm: would remove {total}\n"
    for answer, status, last in ((False, 0, "rm: nothing removed\n"), (None, 2, "")):
        questions: list[str] = []
        monkeypatch.setattr("jobs.rm.confirm", lambda text, answer=answer, to=questions: to.append(text) or answer)
        assert cli.main("rm", [str(tmp_path)]) == status
        assert capsys.readouterr().out == f"{listed}\n{last}"
        assert questions == [f"rm: remove {total}?"]
    assert snapshot(tmp_path) == before

    assert cli.main("rm", [str(tmp_path / "images"), str(tmp_path / "ratings"), "yes=true"]) == 0
    assert snapshot(tmp_path) == {"images/own.txt": b"mine", "notes.txt": b"ours"}
    assert "own.txt" in capsys.readouterr().out


def test_a_table_inside_another_is_removed_first_and_some_of_the_files_of_others_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outer = write_table(tmp_path / "t", "ratings", RATINGS)
    inner = write_table(tmp_path / "t" / "_partial", "ratings", RATINGS)
    assert rm.execute(rm.RmConfig([outer], yes=True)) == [outer, inner]
    assert not (tmp_path / "t").exists()  # which the outer one could not remove while the inner one was there
    assert capsys.readouterr().out.splitlines()[-1].startswith("rm: removed 2 tables, ")
    for count, more in ((5, ""), (7, " and 2 more")):
        write_table(outer, "ratings", RATINGS)
        names = [f"{outer}/own{number}.txt" for number in range(count)]
        for name in names:
            Path(name).touch()
        rm.execute(rm.RmConfig([outer], yes=True))
        assert f"  kept, not written by a run: {', '.join(names[:5])}{more}\n" in capsys.readouterr().out
        for name in names:
            Path(name).unlink()


def test_a_table_that_another_process_writes_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second descriptor of its folder has the lock as another process would; no job keeps its own lock."""
    table = tmp_path / "t"
    write_units(table, "images", [IMAGES[:2], IMAGES[2:]])
    (table / ".u.1.tmp").touch()
    (table / "unit1.parquet").write_bytes(b"damaged")
    (tmp_path / "listed.txt").write_text(IMAGES[0]["image_id"])
    jobs = [
        ("rm", [str(table), "interrupted=true"]),
        ("verify", [str(table), "repair=true"]),
        ("purge", [f"input={table}", f"exclusions={tmp_path}/listed.txt"]),
        ("rm", [str(table), "yes=true"]),
    ]
    folder = os.open(table / "_run", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    before = snapshot(table)
    for job, keys in jobs:
        assert cli.main(job, keys) == 2
        assert "another process is writing this table" in capsys.readouterr().err
        assert snapshot(table) == before, job
    fcntl.flock(folder, fcntl.LOCK_UN)
    for job, keys in jobs:
        assert cli.main(job, keys) == 0, job
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(folder, fcntl.LOCK_UN)
    os.close(folder)
    assert not table.exists()


def test_tables_on_s3_are_removed_with_their_lease(s3: str) -> None:
    place = locations.join(s3, "removed", "images")
    write_units(place, "images", [IMAGES])
    assert cli.main("rm", [place, "interrupted=true"]) == 0
    assert cli.main("rm", [place, "yes=true"]) == 0
    assert list(locations.listing(place)) == []
    write_units(place, "images", [IMAGES])  # the place is free again


def test_confirmation_needs_a_terminal_and_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Typed:
        def __init__(self, text: str, *, terminal: bool = True) -> None:
            self.text, self.terminal = text, terminal

        def isatty(self) -> bool:
            return self.terminal

        def readline(self) -> str:
            return self.text

        write = flush = lambda *_: None

    for typed, answer in ((Typed("y\n"), True), (Typed("YES\n"), True), (Typed("\n"), False), (Typed("no\n"), False),
                          (Typed("y\n", terminal=False), None)):  # fmt: skip
        for question_is_seen in (True, False):
            monkeypatch.setattr(console.sys, "stdin", typed)
            monkeypatch.setattr(console.sys, "stderr", Typed("", terminal=question_is_seen))
            assert console.confirm("remove?") is (answer if question_is_seen else None)


def test_rm_interrupted_removes_leftovers_and_no_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "t"
    for etag in ("1", "2"):  # the second time each unit gets a generation 1
        units = [small_runs.unit(name, etag=etag, derived=True) for name in small_runs.FILES]
        small_runs.complete(small_runs.plan(str(table), units=units, derived=True))
    rejects = table / "_rejects"
    rejects.mkdir(exist_ok=True)
    later = rejects / "a.2.parquet"  # of a run that has not published its unit
    later.write_bytes(b"")
    (rejects / "a.1.parquet").write_bytes(b"")  # of the generation that readers use
    (rejects / "a.x.parquet").write_bytes(b"")  # of nobody known
    kept = snapshot(table)
    leftovers = [table / ".u.1.tmp", rejects / "a.0.parquet", rejects / "gone.7.parquet", table / "gone.parquet"]
    for file in leftovers:
        file.write_bytes(b"12345")

    write_table(tmp_path / "without", "ratings", RATINGS)
    for is_plan, verb in ((True, "would remove"), (False, "removed")):
        assert rm.execute(rm.RmConfig([str(tmp_path)], interrupted=True, plan=is_plan)) == [str(table)]
        assert capsys.readouterr().out == f"  {table}: 4 files, 20 B\nrm: {verb} 4 files, 20 B\n"
        assert all(file.exists() == is_plan for file in leftovers)
    assert snapshot(table) == kept
    assert cli.main("rm", [str(tmp_path), "interrupted=true"]) == 0
    assert capsys.readouterr().out == "rm: removed 0 files, 0 B\n"


def test_copies_read_alike_and_continue(tmp_path: Path, s3: str, capsys: pytest.CaptureFixture[str]) -> None:
    source, present, back = two_tables(tmp_path / "R"), locations.join(s3, "copied", "R"), tmp_path / "back"
    assert cli.main("copy", [str(source), present]) == 0
    assert cli.main("copy", [present, str(back)]) == 0
    assert snapshot(back) == snapshot(source)
    for table in ("images", "ratings/ann"):
        assert rows_of(f"{present}/{table}") == rows_of(str(source / table))

    near = tmp_path / "near"
    assert cli.main("copy", [str(source), str(near)]) == 0
    for file in source.rglob("*.parquet"):
        assert (near / file.relative_to(source)).stat().st_mtime_ns == file.stat().st_mtime_ns

    lost = next((back / "images").glob("*.parquet"))  # an interrupted copy
    lost.unlink()
    capsys.readouterr()
    assert cli.main("copy", [present, str(back)]) == 0
    assert f"copied 1 file, {size(lost.stat().st_size)}" in capsys.readouterr().out
    (back / "notes.txt").write_text("else")
    for out, words in ((str(back), "other content"), (present + "/deeper", "inside")):
        assert cli.main("copy", [present, out]) == 2
        assert words in capsys.readouterr().err


def test_identities_are_copied_first_and_manifests_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_tables(tmp_path / "R")
    for source, out in (("R", "R/images"), ("R/images", "R"), ("R", "R")):
        with pytest.raises(InputError, match="must not be input="):
            plan_copy(str(tmp_path / source), str(tmp_path / out))
    compressed = gzip.compress(b"notes")
    (tmp_path / "R" / "notes.gz").write_bytes(compressed)
    (tmp_path / "R" / "images" / "_run" / lock.LEASE).write_text("{}")  # of a run that is writing
    plan = plan_copy(str(tmp_path / "R"), str(tmp_path / "out"))
    copied: list[str] = []
    publish = locations.publish

    def noted(path: Path, uri: str) -> None:
        publish(path, uri)
        copied.append(uri)

    monkeypatch.setattr(locations, "publish", noted)
    copy_files(plan)
    assert sorted(copied) == sorted(target for _, target in plan.files)
    assert (tmp_path / "out" / "notes.gz").read_bytes() == compressed
    for order in (copied, [target for _, target in plan.files]):
        names = [uri.rsplit("/", 1)[-1] for uri in order]
        assert names[:2] == ["identity.json"] * 2
        assert set(names[-4:]) == {"manifest.json", "units.jsonl"}
        assert lock.LEASE not in names


def test_records_and_images_are_the_tables_with_the_most_rows(tmp_path: Path) -> None:
    ratings = write_table(tmp_path / "ratings", "ratings", [rating("i", "ann", "sensitive", "yes")])
    for name, rows in {"few": 1, "most": 3, "some": 2}.items():
        write_table(tmp_path / "records" / name, "records", [record(f"{name}{number}") for number in range(rows)])
        write_table(tmp_path / "images" / name, "images", [picture(number) for number in range(rows)])
    records, images = (str(tmp_path / kind / "most") for kind in ("records", "images"))
    assert find_rated_run(str(tmp_path)) == RatedRun([ratings], [], records, images)


def test_a_folder_is_a_run_if_it_has_more_than_ratings(tmp_path: Path) -> None:
    """Tables, globs, folders of ratings and folders without tables are opened as what they are."""
    rows = [rating("i", "ann", "sensitive", "yes")]
    only, mixed = tmp_path / "only", tmp_path / "mixed"
    tables = [write_table(only / name, "ratings", rows) for name in "ab"]
    for place in (str(only), tables[0], f"{only}/*", f"{only}/[ab]", str(tmp_path / "nothing")):
        assert find_rated_run(place) is None, place
    of_mixed = write_table(mixed / "ratings", "ratings", rows)
    items = [write_table(mixed / name, "items", [{"item_id": name}]) for name in ("x", "y")]
    assert find_rated_run(str(mixed)) == RatedRun([of_mixed], items, None, None)
    assert find_rated_run(f"{tmp_path}/m*") is None
    write_table(tmp_path / "other" / "images", "images", [picture(0)])
    write_table(tmp_path / "other" / "items", "items", [])
    with pytest.raises(InputError, match=r"^ratings=.*/other: has tables of images, items, but none of ratings$"):
        find_rated_run(f"{tmp_path}/other")


def test_trial_runs_are_left_out_also_where_only_ratings_are(tmp_path: Path) -> None:
    rows = [rating("i", "ann", "sensitive", "yes")]
    whole = write_table(tmp_path / "whole", "ratings", rows)
    write_table(tmp_path / "trial", "ratings", rows, limit=1)
    assert find_rated_run(str(tmp_path)) == RatedRun([whole], [], None, None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "records"
    write_records(str(out), [[record("a")], [record("b")]], rejected=1)
    return out


def opened(folder: Path) -> Any:
    """Return the table as the inventory has it: its place and files."""
    return type("Table", (), {"uri": str(folder), "files": list(locations.listing(str(folder)))})


def names(folder: Path, files: Any) -> list[str]:
    return sorted(Path(getattr(file, "uri", file)).relative_to(folder).as_posix() for file in files)


def test_files_of_others_stay(folder: Path) -> None:
    for name in ("notes.txt", "mine/x.parquet", "_other/y"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    (folder / ".unit.tmp").write_text("x")
    assert names(folder, remove_table(opened(folder))) == ["_other/y", "mine/x.parquet", "notes.txt"]
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert left == {"notes.txt", "mine/x.parquet", "_other/y"}
    assert not (folder / "_run").exists()
    assert not (folder / "_rejects").exists()


def test_a_table_alone_leaves_no_folder_and_its_identity_goes_last(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[list[str]] = []
    remove = locations.remove

    def recorded(uris: list[str]) -> None:
        removed.append(names(folder, uris))
        remove(uris)

    monkeypatch.setattr(locations, "remove", recorded)
    assert remove_table(opened(folder)) == []
    assert not folder.exists()
    assert removed[-1] == ["_run/identity.json"]
    assert "_run/identity.json" not in removed[0]


def test_leftovers_are_what_no_reader_uses(folder: Path) -> None:
    assert list(leftovers(opened(folder))) == []
    rows = pq.read_table(folder / "unit0.parquet")
    footer = json.loads(pq.read_metadata(folder / "unit0.parquet").metadata[FOOTER_KEY]) | {"generation": 3}
    metadata = {**rows.schema.metadata, FOOTER_KEY: json.dumps(footer).encode()}
    pq.write_table(rows.replace_schema_metadata(metadata), folder / "unit0.parquet")
    rejects = folder / "_rejects"
    for name in ("unit0.2", "unit0.3", "unit0.4", "unit1.9", "gone.5", "unit0.x"):
        (rejects / f"{name}.parquet").write_text("x")
    for name in ("old.parquet", "notes.txt", "sub/old.parquet", ".a.tmp", "sub/.b.parquet.tmp"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    first = sorted(path.name for path in rejects.glob("unit0.?.parquet"))[0]
    expected = {".a.tmp", "sub/.b.parquet.tmp", "old.parquet", "_rejects/gone.5.parquet", "_rejects/unit0.2.parquet"}
    table = opened(folder)
    unused = names(folder, leftovers(table))
    assert unused == sorted(expected | {f"_rejects/{first}"})
    remove_leftovers(table, list(leftovers(table)))
    assert list(leftovers(opened(folder))) == []
    assert (folder / "unit0.parquet").exists()
    (folder / "more.parquet").write_text("x")
    (folder / ".c.tmp").write_text("x")
    (folder / "_run" / "inputs.jsonl").unlink()
    assert names(folder, leftovers(opened(folder))) == [".c.tmp"], "without the list of units"

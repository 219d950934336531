"""`ls`, `rm`, `gc`, `copy`: what lies where, and that nothing else is touched."""

import gzip
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError
from jobs.inventory.copying import copy_files, plan_copy
from jobs.inventory.found import files_by_table, find_tables
from jobs.inventory.rated_run import find_rated_run
from jobs.inventory.shown import age, flat_lines, in_columns, short_hash, size
from jobs.runtime.command_line import cli
from jobs.runtime.process import console
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.reading import open_table
from jobs.store.runs import lease
from tests.factories import picture, rating, rows_of, write_table, write_units
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
    for job in ("ls", "rm", "gc"):
        assert cli.main(job, [str(tmp_path)]) == 2
        assert "no table here or below" in capsys.readouterr().err
        assert cli.main(job, []) == 2
        assert "inputs" in capsys.readouterr().err


def test_rm_asks_and_leaves_what_is_not_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_tables(tmp_path)
    (tmp_path / "images" / "own.txt").write_text("mine")
    before = snapshot(tmp_path)
    assert cli.main("rm", [str(tmp_path)]) == 2  # nobody to ask
    assert "yes=true" in capsys.readouterr().err
    assert cli.main("rm", [str(tmp_path), "plan=true"]) == 0
    for answer in (False, None):
        monkeypatch.setattr("jobs.rm.confirm", lambda _, answer=answer: answer)
        cli.main("rm", [str(tmp_path)])
    assert snapshot(tmp_path) == before

    assert cli.main("rm", [str(tmp_path / "images"), str(tmp_path / "ratings"), "yes=true"]) == 0
    assert snapshot(tmp_path) == {"images/own.txt": b"mine", "notes.txt": b"ours"}
    assert "own.txt" in capsys.readouterr().out


def test_tables_on_s3_are_removed_with_their_lease(s3: str) -> None:
    place = locations.join(s3, "removed", "images")
    write_units(place, "images", [IMAGES])
    assert cli.main("gc", [place]) == 0
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


def test_gc_removes_leftovers_and_no_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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

    assert cli.main("gc", [str(tmp_path), "plan=true"]) == 0
    assert all(file.exists() for file in leftovers)
    assert cli.main("gc", [str(tmp_path)]) == 0
    assert "removed 4 files, 20 B" in capsys.readouterr().out
    assert snapshot(table) == kept
    assert cli.main("gc", [str(tmp_path)]) == 0
    assert capsys.readouterr().out == "gc: removed 0 files, 0 B\n"


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
    (tmp_path / "R" / "images" / "_run" / lease.NAME).write_text("{}")  # of a run that is writing
    plan = plan_copy(str(tmp_path / "R"), str(tmp_path / "out"))
    copied: list[str] = []
    replace = locations.replace

    def noted(uri: str, data: Any) -> None:
        replace(uri, data)
        copied.append(uri)

    monkeypatch.setattr(locations, "replace", noted)
    copy_files(plan)
    assert sorted(copied) == sorted(target for _, target in plan.files)
    assert (tmp_path / "out" / "notes.gz").read_bytes() == compressed
    for order in (copied, [target for _, target in plan.files]):
        names = [uri.rsplit("/", 1)[-1] for uri in order]
        assert names[:2] == ["identity.json"] * 2
        assert set(names[-4:]) == {"manifest.json", "units.jsonl"}
        assert lease.NAME not in names

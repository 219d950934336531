"""Copies: which files are copied, that they are whole, and what the command prints about them."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from jobs import copy
from jobs.errors import InputError
from jobs.inventory.copying import copy_files, plan_copy
from jobs.inventory.found import size
from jobs.runtime.command_line import cli
from jobs.store.files import locations
from jobs.store.runs import lock
from tests.factories import rating, write_table


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with a table, and with a file of the user that has the name of a lease."""
    write_table(tmp_path / "R" / "t", "ratings", [rating("i", "ann", "q", "1")])
    (tmp_path / "R" / lock.LEASE).write_text("of the user")
    return tmp_path / "R"


def sizes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def test_a_plan_announces_what_the_copy_then_reports(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, files = source.parent / "out", sizes(source)
    amount = f"{len(files)} files, {size(sum(files.values()))}"
    assert copy.execute(copy.CopyConfig(str(source), str(out), plan=True)) == 0
    assert capsys.readouterr().out == f"copy: would copy {amount}\n"
    assert not out.exists()
    assert copy.execute(copy.CopyConfig(str(source), str(out))) == len(files)
    assert capsys.readouterr().out == f"copy: copied {amount} to {out}\n"
    assert sizes(out) == files
    (out / lock.LEASE).unlink()
    assert copy.execute(copy.CopyConfig(str(source), str(out))) == 1
    assert capsys.readouterr().out == f"copy: copied 1 file, 11 B to {out} ({len(files) - 1} are there already)\n"


def test_files_of_a_run_that_is_writing_are_not_copied(source: Path) -> None:
    for name in ("t/.unit.1.tmp", f"t/_run/{lock.LEASE}"):
        (source / name).write_text("x")
    targets = {target for _, target in plan_copy(str(source), f"{source}_2").files}
    assert targets == {f"{source}_2/{name}" for name in sizes(source)} - {
        f"{source}_2/t/.unit.1.tmp", f"{source}_2/t/_run/{lock.LEASE}"
    }  # fmt: skip


def test_a_file_with_other_content_is_refused(source: Path) -> None:
    out = source.parent / "out"
    copy_files(plan_copy(str(source), str(out)))
    assert (out / lock.LEASE).read_text() == "of the user"
    (out / lock.LEASE).write_text("of the USER")  # the first parts are the same
    with pytest.raises(InputError, match="exists with other content"):
        plan_copy(str(source), str(out))


def test_a_file_in_the_place_of_a_folder_is_refused(source: Path) -> None:
    (source.parent / "out").touch()
    with pytest.raises(InputError, match="is a file, where a folder is needed"):
        plan_copy(str(source), str(source.parent / "out"))


def test_a_place_without_files_has_nothing_to_copy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to copy"):
        plan_copy(str(tmp_path / "nothing"), str(tmp_path / "out"))
    assert not list(locations.listing(str(tmp_path / "out")))


def test_the_same_command_heals_damaged_copies(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def cut(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-9])

    def flip(path: Path) -> None:
        content = path.read_bytes()
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])

    def lose_tail(path: Path) -> None:
        half = path.stat().st_size // 2
        path.write_bytes(path.read_bytes()[:half] + bytes(path.stat().st_size - half))

    def rot(path: Path) -> None:
        times = path.stat()
        path.write_bytes(b"of the USER")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    (source / "page.html").write_text("of the user")
    out = source.parent / "out"
    copy.execute(copy.CopyConfig(str(source), str(out)))
    whole = {name: (out / name).read_bytes() for name in sizes(out)}
    victims = [path for path in out.rglob("*") if path.is_file() and out / "t" in path.parents]
    assert len(victims) >= 5
    for damage in (cut, flip, lose_tail):
        for path in victims:
            damage(path)
            assert copy.execute(copy.CopyConfig(str(source), str(out))) == 1, (damage, path)
            assert "1 damaged copy replaced" in capsys.readouterr().out
    rot(out / "page.html")
    assert copy.execute(copy.CopyConfig(str(source), str(out))) == 1
    assert {name: (out / name).read_bytes() for name in sizes(out)} == whole


def test_a_newer_unit_is_not_taken_for_a_damaged_copy(source: Path) -> None:
    """A purge or a retry wrote it."""
    out = source.parent / "out"
    copy_files(plan_copy(str(source), str(out)))
    shutil.rmtree(out / "t")
    write_table(out / "t", "ratings", [rating("i", "ann", "q", "2")])
    with pytest.raises(InputError, match="exists with other content"):
        plan_copy(str(source), str(out))


def test_a_table_that_is_being_written_is_named(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, table = source.parent / "out", source / "t"

    def warning(name: str) -> str:
        assert cli.main("copy", [str(source), str(out / name)]) == 0
        return capsys.readouterr().err

    assert warning("whole") == ""
    folder = os.open(table / "_run", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert f"{table} is being written (1 of 1 unit): copy it again" in warning("written")
    os.close(folder)
    (table / "_run" / "manifest.json").unlink()
    next(table.glob("*.parquet")).unlink()
    assert f"{table} is not complete (0 of 1 unit): copy it again" in warning("incomplete")


def test_files_that_vanish_are_counted_and_not_copied(source: Path) -> None:
    plan = plan_copy(str(source), str(source.parent / "out"))
    (source / lock.LEASE).unlink()
    copied = copy_files(plan)
    assert (copied.gone, copied.files, copied.bytes) == (1, len(plan.files) - 1, sum(sizes(source).values()))

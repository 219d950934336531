"""Copies: which files are copied, that they are whole, and what the command prints about them."""

from pathlib import Path

import pytest

from jobs import copy
from jobs.errors import InputError
from jobs.inventory import copying
from jobs.inventory.copying import copy_files, plan_copy
from jobs.inventory.shown import size
from jobs.store.files import locations
from jobs.store.runs import lease
from tests.factories import rating, write_table


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with a table, and with a file of the user that has the name of a lease."""
    write_table(tmp_path / "R" / "t", "ratings", [rating("i", "ann", "q", "1")])
    (tmp_path / "R" / lease.NAME).write_text("of the user")
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
    (out / lease.NAME).unlink()
    assert copy.execute(copy.CopyConfig(str(source), str(out))) == 1
    assert capsys.readouterr().out == f"copy: copied 1 file, 11 B to {out} ({len(files) - 1} are there already)\n"


def test_files_of_a_run_that_is_writing_are_not_copied(source: Path) -> None:
    for name in ("t/.unit.1.tmp", f"t/_run/{lease.NAME}"):
        (source / name).write_text("x")
    targets = {target for _, target in plan_copy(str(source), f"{source}_2").files}
    assert targets == {f"{source}_2/{name}" for name in sizes(source)} - {
        f"{source}_2/t/.unit.1.tmp", f"{source}_2/t/_run/{lease.NAME}"
    }  # fmt: skip


def test_a_file_is_copied_and_compared_in_all_its_parts(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "_CHUNK", 3)
    out = source.parent / "out"
    copy_files(plan_copy(str(source), str(out)))
    assert (out / lease.NAME).read_text() == "of the user"
    (out / lease.NAME).write_text("of the USER")  # the first parts are the same
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

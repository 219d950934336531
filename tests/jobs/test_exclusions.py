"""The list of pictures that must not be used, and what each kind of row becomes under it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from actors.folder_fetcher import FolderFetcher
from actors.ids import content_id
from jobs import cli, exclusions
from jobs.errors import InputError
from tests.jobs.records import record, write_records

URL = "https://upload.example/a.jpg"


def test_ids_urls_and_comments_are_read(tmp_path: Path) -> None:
    file = tmp_path / "withdrawn.txt"
    file.write_text(f"# reported in May\n{URL}\n\n{'0' * 32} # by its owner\n", encoding="utf-8")
    assert exclusions.read_exclusions(str(file)) == {content_id(URL), "0" * 32}


def test_no_file_excludes_nothing_and_leaves_the_identity_alone() -> None:
    assert exclusions.read_exclusions(None) == frozenset()
    assert exclusions.identity(frozenset()) == {}
    assert exclusions.identity(frozenset({"a"})) != exclusions.identity(frozenset({"b"}))


def test_a_list_that_is_absent_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        exclusions.read_exclusions(str(tmp_path / "nowhere.txt"))
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(InputError, match="no picture in it"):
        exclusions.read_exclusions(str(tmp_path / "empty.txt"))


def test_an_excluded_picture_is_out_of_reach_of_the_stages() -> None:
    rows = pa.table(
        {
            "image_id": ["a", "b", "c"],
            "bytes": pa.array([b"1", b"2", None], pa.large_binary()),
            "status": ["ok", "ok", "missing"],
        }
    )
    held = exclusions.withhold(rows, item="image_id", excluded=frozenset({"b"}))
    assert held["bytes"].to_pylist() == [b"1", None, None]
    assert held["status"].to_pylist() == ["ok", "reported", "missing"]
    assert held.schema == rows.schema


def test_an_excluded_file_is_not_read(tmp_path: Path) -> None:
    asked = pa.table({"image_id": ["a"], "source_url": [URL], "path": [str(tmp_path / "never-read.jpg")]})
    held = exclusions.withhold(asked, item="image_id", excluded=frozenset({"a"}))
    (row,) = FolderFetcher(open_filesystem=pafs.LocalFileSystem)(held).to_pylist()
    assert (row["status"], row["error_kind"], row["attempts"], row["bytes"]) == ("reported", "excluded", 0, None)


def test_curate_drops_excluded_pictures_after_its_own_rules(tmp_path: Path) -> None:
    rows = [record("a", image=URL), record("b", image=URL), record("c", image="https://upload.example/c.jpg")]
    write_records(str(tmp_path / "m"), [rows])
    (tmp_path / "withdrawn.txt").write_text(f"{URL}\n{'0' * 32}\n")
    made = cli.execute("curate", [f"input={tmp_path}/m", f"out={tmp_path}/r", f"exclusions={tmp_path}/withdrawn.txt"])
    assert isinstance(made, dict)
    assert made["counts"]["filtered"] == {"one_row_an_image": 1, "excluded": 1}
    assert made["identity"]["rules"][-2:] == ["one_row_an_image", "excluded"]

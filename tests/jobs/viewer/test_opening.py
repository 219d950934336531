"""What the viewer prints when it opens tables, and its title."""

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from jobs import view
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.viewer import loading, opening
from jobs.viewer.loading import ViewedTables
from jobs.viewer.opening import listening, server
from tests.factories import image_row, rating, write_file, write_table
from tests.jobs.viewer.small_study import GOLD, RED, URLS, viewer_of, write_study


def test_tables_are_counted_by_name_and_what_is_left_out_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    source: Any = SimpleNamespace
    tables = ViewedTables(
        {"ratings": [source(rows=1200), source(rows=34)], "images": [], "texts": [source(rows=1)]},
        left_out={"T": "T: a trial run", "U": "U: not done"},
    )
    opening._show(tables, source(others=["E"]))
    assert capsys.readouterr().out.splitlines() == [
        "  ratings: 1,234 rows of 2 tables", "  texts: 1 row of 1 table", "  left out: T: a trial run",
        "  left out: U: not done", "  left out of searches: E: its vectors are from another encoder",
    ]  # fmt: skip


def test_the_title_names_three_places() -> None:
    assert opening._title(["/x/a", "s3://bucket/b/c"]) == "a, c"
    assert opening._title(["/a", "/b", "/c"]) == "a, b, c"
    assert opening._title(["/a", "/b", "/c", "/d", "/e"]) == "a, b, c, …"


def test_a_rater_without_a_picture_is_named_with_an_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [rating(item, rater, "fit", "1") for rater, item in (("n", "z"), ("n", "y"), ("m", "i"), ("m", "y"))]
    write_table(tmp_path / "R" / "ratings", "ratings", rows)
    write_table(tmp_path / "R" / "images", "images", [image_row("", image_id=name) for name in "ij"])
    viewer_of(str(tmp_path / "R"), tmp_path / "db").close()
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "none of" in line)
    assert line.strip() == (
        "n: none of the 2 ratings is about one of these pictures: item ids of the ratings look like 'y', "
        "those of the pictures like 'i'"
    )
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE subjects (item_id VARCHAR)")
        assert loading.without_pictures(connection) == []


def test_the_bytes_of_a_picture_are_those_of_its_row(tmp_path: Path) -> None:
    """Two units, the second with a picture that could not be fetched."""
    place = write_study(tmp_path)
    viewer = viewer_of(place, tmp_path / "db")
    try:
        pictures = viewer._shown.pictures
        small = pictures.thumbnail(GOLD, 16)
        assert small is not None
        assert (small.width, small.height) == (16, 12)
        assert pictures.thumbnail(RED, 16) != small
        assert pictures.thumbnail("nothing", 16) is None
        (missing,) = (
            row[0] for row in viewer._shown.connection.execute(
                "SELECT image_id FROM pictures WHERE status <> 'ok'").fetchall()
        )  # fmt: skip
        assert pictures.thumbnail(missing, 16) is None
    finally:
        viewer.close()


def test_each_picture_has_its_place_in_the_files_of_all_tables(tmp_path: Path) -> None:
    """Two tables, the first of two row groups; pictures are in the order of the tables and their rows."""
    numbers = {"a": range(70), "b": range(70, 73)}
    for name, of_table in numbers.items():
        rows = [image_row("", image_id=f"i{n * 3 % 70 if n < 70 else n:02}") for n in of_table]
        write_file(tmp_path / name, "images", rows)
    with duckdb.connect() as connection:
        tables = loading.open_places([str(tmp_path / name) for name in numbers])
        files = loading.load(connection, tables, ExclusionFilter(frozenset({"i03"})))
        listed = connection.execute("SELECT image_id, file, row_group, row, place FROM pictures").fetchall()
    assert [Path(file).parent.name for file in files] == ["a", "b"]
    groups = [pq.ParquetFile(files[file]).read_row_group(group)["image_id"] for file, group in ((0, 0), (0, 1), (1, 0))]
    assert {(file, group) for _, file, group, _, _ in listed} == {(0, 0), (0, 1), (1, 0)}
    for image_id, file, group, row, _ in listed:
        assert groups[2 * file + group][row].as_py() == image_id
    assert [place for *_, place in listed] == [0, *range(2, 73)]  # the second one is excluded


def test_only_this_machine_can_reach_a_free_port() -> None:
    with listening(0) as listener:
        address, port = listener.getsockname()
        assert (address, port > 0) == ("127.0.0.1", True)
        with socket.create_connection((address, port), timeout=5):  # before a server runs
            pass
        with pytest.raises(InputError, match=rf"^port={port}: cannot listen there \(.*\); use another one, or 0"):
            listening(port).__enter__()
    assert listener.fileno() == -1
    with pytest.raises(InputError, match=r"^port=70000: cannot listen there"):
        listening(70_000).__enter__()


def test_addresses_with_the_token_are_not_logged() -> None:
    config = server(None).config
    assert (config.access_log, config.server_header, config.log_level) == (False, False, "warning")


def test_the_address_is_printed_before_it_is_served_and_everything_is_closed_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[tuple[Any, str]] = []

    class Server:
        def __init__(self, application: Any) -> None:
            assert application

        def run(self, sockets: list[socket.socket]) -> None:
            (listener,) = sockets
            served.append((listener.getsockname()[1], capsys.readouterr().out))

    monkeypatch.setattr(opening, "server", Server)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "gone.txt").write_text(f"{URLS[0]}\n")
    view.execute(view.ViewConfig([write_study(tmp_path)], exclusions=str(tmp_path / "gone.txt")))
    ((port, printed),) = served
    *_, excluded, address, hint = printed.splitlines()
    assert "1 of 1 entries match" in excluded
    assert address.startswith(f"view: http://127.0.0.1:{port}/")
    assert len(address.rstrip("/").rpartition("/")[2]) >= 43  # 32 random bytes
    assert hint == "  Ctrl-C ends it"
    assert list((tmp_path / "tmp").iterdir()) == []

"""Pictures of a folder: their units, and the files of records."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.runtime.configuration.config import load
from jobs.sources import picture_sources
from jobs.sources.picture_sources import fetcher_settings
from jobs.sources.source_config import FetchConfig, SourceConfig
from jobs.store.files.objects import Object
from jobs.store.units import WHOLE, Unit
from jobs.store.writer import UnitTask
from tests.cases import check_cases
from tests.factories import TableInMemory, record, write_records


def files_of(place: str, *names: str) -> list[Object]:
    return [Object(f"{place}/{name}", 1, "e") for name in names]


def records_of(*urls: str | None, batch: int = 1) -> Any:
    return TableInMemory("records", [record(str(n)) | {"image_url": url} for n, url in enumerate(urls)], batch=batch)


def test_the_name_of_a_picture_is_the_last_part_of_its_url() -> None:
    def check(url: str, name: str) -> None:
        assert picture_sources.file_name(url) == name

    check_cases(check, [
        ("https://h/a/b.jpg", "b.jpg"), ("https://h/a/b.jpg?width=9#x", "b.jpg"), ("b.jpg", "b.jpg"),
        ("https://h/a%20b.jpg", "a b.jpg"), ("https://h/..", ""), ("https://h/.", ""), ("https://h/%2e%2e", ""),
        ("https://h/a%2Fb.jpg", ""), ("https://h/", ""), ("", ""), ("https://h/.b.jpg", ".b.jpg"),
    ])  # fmt: skip


def test_files_are_divided_in_order_and_a_changed_file_changes_its_unit() -> None:
    files = files_of("/f", *"abcde")
    units = list(picture_sources.folder_units(files, 2))
    assert [[file.uri for file in unit.inputs] for unit in units] == [["/f/a", "/f/b"], ["/f/c", "/f/d"], ["/f/e"]]
    assert [unit.rows for unit in units] == [2, 2, 1]
    for change in ({"size": 2}, {"etag": "f"}, {"uri": "/f/z"}):
        changed = [unit.name for unit in picture_sources.folder_units([files[0]._replace(**change), *files[1:]], 2)]
        assert [one == other.name for one, other in zip(changed, units, strict=True)] == [False, True, True]
    assert list(picture_sources.folder_units([], 2)) == []


def test_records_whose_file_is_there_are_counted() -> None:
    files = files_of("/f", "a.jpg", "b c.jpg")
    urls = ["https://h/x/a.jpg", "https://h/b%20c.jpg", None, "https://h/none.jpg", "https://h/y/a.jpg"]
    assert picture_sources.count_names("/f", files, records_of(*urls)) == 3


def test_a_folder_without_any_picture_of_the_records_is_refused() -> None:
    files = files_of("/f", "a.jpg", "b.jpg")
    for urls in (["https://h/none.jpg", None, "https://h/b.jpg"], [None, "https://h/"], []):
        for batch in (1, 3):
            picture_sources.check_names("/f", files, records_of(*urls, batch=batch))
    message = r"source\.path=/f: none .* among its 2 files; .* for example 'first\.jpg'$"
    with pytest.raises(InputError, match=message):
        picture_sources.check_names("/f", files, records_of(None, "https://h/first.jpg", "https://h/second.jpg"))


def test_requests_of_files_have_ids_of_their_place_in_the_folder() -> None:
    task = UnitTask(Unit("u", tuple(files_of("/f/sub", "a.jpg"))))
    assert picture_sources.requests_of_files(task, folder="/f").to_pylist() == [
        dict(zip(picture_sources.FolderFetcher.INPUTS.names, (content_id("sub/a.jpg"), "/f/sub/a.jpg", "/f/sub/a.jpg"),
                 strict=True))
    ]  # fmt: skip


def test_requests_of_records_have_a_path_only_if_the_file_is_there(tmp_path: Path) -> None:
    place = tmp_path / "pictures"
    (place / "folder").mkdir(parents=True)
    (place / "a.jpg").write_bytes(b"x")
    urls = ["https://h/a.jpg", "https://h/none.jpg", "https://h/", "https://h/folder"]
    rows = [record(f"r{n}") | {"image_id": f"{n:032x}", "image_url": url} for n, url in enumerate(urls)]
    write_records(str(tmp_path / "R"), [rows])
    file = tmp_path / "R" / "unit0.parquet"
    task = UnitTask(Unit("u", (Object(str(file), file.stat().st_size, ""),), extra={"from": 0, "to": 4}))
    requests = picture_sources.requests_of_records(task, folder=str(place), repeated=None)
    ids, of_urls, paths = (column.to_pylist() for column in requests.columns)
    assert (ids, of_urls) == ([row["image_id"] for row in rows], urls)
    assert paths == [f"{place}/a.jpg", None, None, None]


def test_a_table_keeps_its_units_if_only_excluded_pictures_left_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = files_of("/f", *"abcde")
    begun = list(picture_sources.folder_units(before, 2))
    monkeypatch.setattr(picture_sources.run_files, "begun_units", lambda out: begun if out == "R" else [])
    marks = tmp_path / "marks.txt"

    def keeps(names: str, *entries: str, out: str = "R", overwrite: bool = False) -> bool:
        """Return whether a folder with these files is read in the units of the table."""
        marks.write_text("".join(f"{entry}\n" for entry in entries))
        cfg: Any = SimpleNamespace(overwrite=overwrite, exclusions=str(marks) if entries else None, out=out)
        files = files_of("/f", *names)
        units = picture_sources._begun_or_new(cfg, "/f", files, 2)
        assert units in (begun, list(picture_sources.folder_units(files, 2)))
        return units == begun

    for entry in (content_id("b"), "/f/b"):
        assert keeps("acde", entry)
        assert keeps("abcde", entry)
        assert not keeps("acde", entry, overwrite=True)
        assert not keeps("acde", entry, out="another")
        assert not keeps("acd", entry)
        assert not keeps("acdef", entry)
        assert keeps("abcdef", entry, content_id("f"))
    assert not keeps("acde")
    assert not keeps("acde", content_id("x"))


def fetch_config(name: str, path: str | None, **keys: Any) -> FetchConfig:
    return FetchConfig(source=SourceConfig(name=name, path=path), out="o", **keys)


def test_a_shard_is_a_unit_whatever_its_compression(tmp_path: Path) -> None:
    for name in ("b.tar", "a.tar.gz", "c.tgz", "tar.txt", "d.tar.json", "e.zip"):
        (tmp_path / name).write_bytes(b"x" * len(name))
    units = picture_sources.tar_units(str(tmp_path))
    assert [Path(unit.inputs[0].uri).name for unit in units] == ["a.tar.gz", "b.tar", "c.tgz", "d.tar.json"]
    assert {(unit.piece, unit.rows) for unit in units} == {(WHOLE, None)}
    assert len({unit.name for unit in units}) == 4
    with pytest.raises(InputError, match=r"source\.path=.*e\.zip: contains no \.tar or \.tgz file"):
        picture_sources.tar_units(f"{tmp_path}/e.zip")


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """Five pictures in row groups of two."""
    rows = pa.table({"image": [b"x"] * 5, "key": list("abcde"), "n": range(5)})
    pq.write_table(rows, tmp_path / "p.parquet", row_group_size=2)
    (tmp_path / "notes.txt").write_text("x")
    return tmp_path


def test_a_row_group_is_a_unit(parquet: Path) -> None:
    pq.write_table(pa.table({"image": [b"x"]}), parquet / "q.parq")
    units = picture_sources.parquet_units(SourceConfig(name="parquet"), str(parquet))
    assert [(unit.piece, unit.rows) for unit in units] == [
        ("row group 0", 2), ("row group 1", 2), ("row group 2", 1), ("row group 0", 1)
    ]  # fmt: skip
    assert len({unit.name for unit in units}) == 4
    assert len({unit.inputs for unit in units}) == 2


def test_files_without_pictures_or_keys_are_refused(parquet: Path) -> None:
    path = f"{parquet}/p.parquet"
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({}, f"{parquet}/notes.txt", r"contains no \.parquet file"),
        ({"key_column": "name"}, path, r"source\.key_column=name: not a column .* its columns are image, key, n$"),
        ({"bytes_column": "key"}, path, r"source\.bytes_column=key: not a column of bytes; .* has bytes in image"),
    ]
    for keys, place, message in cases:
        with pytest.raises(InputError, match=message):
            picture_sources.parquet_units(SourceConfig(name="parquet", **keys), place)
    assert len(picture_sources.parquet_units(SourceConfig(name="parquet", key_column="key"), path)) == 3
    (parquet / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"bad\.parquet: not a readable Parquet file"):
        picture_sources.parquet_units(SourceConfig(name="parquet"), str(parquet))


def test_the_plan_counts_files_and_depends_on_what_is_read(parquet: Path) -> None:
    cfg = fetch_config("parquet", str(parquet))
    cfg.source.key_column = "key"
    plan = picture_sources.shard_plan(cfg)
    assert (len(plan.units), plan.note, plan.streamed) == (3, "1 file", False)
    assert plan.identity == {"path": str(parquet), "bytes_column": None, "key_column": "key"}
    with pytest.raises(InputError, match=r"input: source=parquet reads all pictures"):
        picture_sources.shard_plan(fetch_config("parquet", str(parquet), input="R"))
    with pytest.raises(InputError, match=r"source\.path=: required with source=webdataset"):
        picture_sources.shard_plan(fetch_config("webdataset", None))


CONTACT = "source.contact=ada@uni-somewhere.edu"


def settings(*keys: str) -> Any:
    return fetcher_settings(load("fetch", FetchConfig, ["source=urls", "input=R", "out=O", CONTACT, *keys]))


def test_keys_become_rules_and_bounds() -> None:
    fetcher = settings(
        "source.allow_hosts=[a.example,'*.b.example:8443','*',10.0.0.1]", "source.max_bytes=5", "source.connect_s=1",
        "source.read_s=2", "source.total_s=3", "verify_only=true", "width=320",
        "source.testing.allow_addresses=[127.0.0.1]", "source.testing.resolve=['a.example:127.0.0.1:80','b:[::1]:81']",
    )  # fmt: skip
    assert fetcher.rules.hosts == ("a.example", "*.b.example:8443", "*", "10.0.0.1")
    assert fetcher.rules.private == {"127.0.0.1"}
    assert fetcher.rules.fixed == (("a.example", "127.0.0.1", 80), ("b", "::1", 81))
    bounds = fetcher.bounds
    assert (bounds.max_bytes, bounds.connect_s, bounds.read_s, bounds.total_s) == (5, 1, 2, 3)
    assert (fetcher.verify_only, fetcher.width) == (True, 320)
    assert "ada@uni-somewhere.edu" in fetcher.agent
    plain = settings()
    assert (plain.width, plain.verify_only, plain.rules.fixed, plain.rules.private) == (None, False, (), frozenset())


def test_keys_that_are_refused() -> None:
    def refused(key: str, message: str) -> None:
        with pytest.raises(InputError) as error:
            settings(key)
        assert message in str(error.value)

    cases = [
        ("source.contact=null", "source.contact=: required"),
        ("source.contact=''", "source.contact=: required"),
        ("source.contact=nobody", "source.contact=nobody: "),
        ("source.allow_hosts=[]", "source.allow_hosts=[]: at least one host"),
        ("source.allow_hosts=[a.example,'https://b']", "source.allow_hosts: 'https://b' must be a host name"),
        ("source.allow_hosts=['a.*']", "'a.*' must be"),
        ("source.allow_hosts=['**']", "'**' must be"),
        ("source.allow_hosts=['a:123456']", "'a:123456' must be"),
        ("source.allow_hosts=['a.example/x']", "'a.example/x' must be"),
        ("source.testing.resolve=['a.example:localhost:80']", "source.testing.resolve: must be a list"),
        ("source.max_bytes=0", "source.max_bytes=0: must be greater than 0"),
        ("source.read_s=-1", "source.read_s=-1"),
        ("source.ca_file=/absent.pem", "source.ca_file=/absent.pem: not a readable PEM file"),
    ]
    check_cases(refused, cases)


def test_a_width_must_be_one_that_wikimedia_serves() -> None:
    for width in (0, 10_000_000):
        with pytest.raises(InputError, match=f"width={width}: must be from 1 to"):
            settings(f"width={width}", "source.form=served")
    assert settings("width=321", "source.form=served").width == 321
    assert settings("width=10000000", "source.form=paper").width == 10_000_000

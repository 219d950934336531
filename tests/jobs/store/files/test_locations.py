"""Places, local and on a real S3 server: found, listed, claimed, written whole, removed; errors that name them."""

import gzip
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.store import footers
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.files.s3 import REACH_ATTEMPTS, arrow_filesystem, forget_settings
from tests.cases import check_cases
from tests.jobs.store.answering import answering, in_environment

ODD = ["a b.txt", "a#b.txt", "a?b.txt", "a[1].txt", "a*b.txt", "x%20y.txt", "é.txt"]


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty folder, local or on S3."""
    if request.param == "local":
        return str(tmp_path)
    return f"{request.getfixturevalue('s3')}/{tmp_path.name}"


@pytest.fixture
def settings_forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The environment may be changed; it is looked at again before and after."""
    yield monkeypatch
    monkeypatch.undo()
    forget_settings()


def put(place: str, *names: str) -> None:
    for name in names:
        locations.replace(locations.join(place, name), name.encode())


def names(objects: Iterable[Object], place: str) -> list[str]:
    return [o.uri.removeprefix(place).lstrip("/") for o in objects]


def test_the_files_of_a_path_glob_or_folder_are_found_in_order(place: str) -> None:
    put(place, "b.tsv", "a.tsv", "d/c.tsv", "d/e/f.tsv", "x.csv")
    assert names(locations.find(f"{place}/a.tsv"), place) == ["a.tsv"]
    assert names(locations.find(f"{place}/*.tsv"), place) == ["a.tsv", "b.tsv"]
    assert names(locations.find(f"{place}/**/*.tsv"), place)[-2:] == ["d/c.tsv", "d/e/f.tsv"]
    assert names(locations.find(f"{place}/d/"), place) == ["d/c.tsv", "d/e/f.tsv"]
    assert names(locations.listing(place), place) == ["a.tsv", "b.tsv", "d/c.tsv", "d/e/f.tsv", "x.csv"]
    (result,) = locations.find(f"{place}/a.tsv")
    assert (result.size, bool(result.etag)) == (5, True)


def test_what_another_process_writes_or_removes_is_seen_at_once(place: str) -> None:
    put(place, "a.tsv")
    assert names(locations.find(f"{place}/*.tsv"), place) == ["a.tsv"]
    fs, folder = locations.filesystem(place)  # pyarrow's, next to the client for listings
    with fs.open_output_stream(f"{folder}/b.tsv") as stream:
        stream.write(b"b")
    fs.delete_file(f"{folder}/a.tsv")
    assert names(locations.find(f"{place}/*.tsv"), place) == ["b.tsv"]
    assert [locations.exists(f"{place}/{name}.tsv") for name in "ab"] == [False, True]


def test_what_lies_below_is_in_order_of_its_whole_name(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.store.files.s3.KEYS_PER_REQUEST", 3)  # so that a listing has pages
    present = [
        "a",
        "a-b/x",
        "a.parquet",
        "b-",
        "b.c/d/e",
        "b.c/d-e",
        "b/x",
        "b0",
        "é",
        "\N{CJK UNIFIED IDEOGRAPH-4E00}",
    ]
    put(place, *reversed(present[1:]))
    assert names(locations.listing(place), place) == sorted(present[1:])
    assert names(locations.find(f"{place}/b.c"), place) == ["b.c/d-e", "b.c/d/e"]
    locations.remove([o.uri for o in locations.listing(place)])
    assert locations.listing(place) == []


def test_links_are_followed_to_files_and_not_to_folders(tmp_path: Path) -> None:
    put(str(tmp_path / "elsewhere"), "x", "below/y")
    here = tmp_path / "here"
    here.mkdir()
    (here / "file").symlink_to(tmp_path / "elsewhere" / "x")
    (here / "folder").symlink_to(tmp_path / "elsewhere" / "below")
    (here / "dangling").symlink_to(tmp_path / "nothing")
    (here / "itself").symlink_to(here / "itself")
    os.mkfifo(here / "pipe")
    assert names(locations.listing(str(here)), str(here)) == ["file"]


def test_a_replaced_file_has_another_etag(place: str) -> None:
    put(place, "a")
    (before,) = locations.find(f"{place}/a")
    locations.replace(f"{place}/a", b"other")
    (after,) = locations.find(f"{place}/a")
    assert before.etag != after.etag


def test_odd_names_are_names_and_nothing_else(place: str) -> None:
    put(place, *ODD, "aXb.txt", "a1.txt")
    for name in ODD:
        assert names(locations.find(f"{place}/{name}"), place) == [name]
        assert locations.read_bytes(f"{place}/{name}") == name.encode()
    locations.remove([f"{place}/{name}" for name in ODD])
    assert names(locations.listing(place), place) == ["a1.txt", "aXb.txt"]


def test_a_folder_of_an_odd_name_is_listed(place: str) -> None:
    folder = f"{place}/draft [1]? #2"
    put(folder, "x")
    assert names(locations.listing(folder), folder) == ["x"]
    assert names(locations.find(folder), folder) == ["x"]


class Pages:
    """A store that lists these keys of one bucket, two a page."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def call_s3(self, call: str, **asked: Any) -> dict[str, Any]:
        assert call == "list_objects_v2"
        below = [key for key in self.keys if key.startswith(asked["Prefix"])]
        first = int(asked.get("ContinuationToken", 0))
        page = [{"Key": key, "Size": 3, "ETag": '"e"'} for key in below[first : first + 2]]
        more = {"IsTruncated": True, "NextContinuationToken": str(first + 2)} if len(below) > first + 2 else {}
        return {"Contents": page, **more} if page else {}

    def info(self, name: str) -> dict[str, Any]:
        return {"type": "directory", "name": name}


def test_all_pages_of_a_listing_are_read_and_a_folder_key_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Pages("t/", "t/a", "t/b/", "t/b/c", "t/d", "tt", "u/")
    monkeypatch.setattr("jobs.store.files.s3.client", lambda: store)
    assert [o.uri for o in locations.listing("s3://bucket/t")] == [
        f"s3://bucket/t/{name}" for name in ("a", "b/c", "d")
    ]
    assert not locations.listing("s3://bucket/u")  # made in a console, and empty: a run may write there
    with pytest.raises(InputError, match="no file matches"):
        locations.find("s3://bucket/u")


def test_nothing_below_a_folder_is_an_empty_list(place: str) -> None:
    assert locations.listing(f"{place}/nothing") == []


def test_of_many_who_create_one_wins(place: str) -> None:
    uri = f"{place}/_run/identity.json"
    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(lambda i: locations.create(uri, str(i).encode()), range(6)))
    assert won.count(True) == 1
    assert locations.read_bytes(uri) == str(won.index(True)).encode()
    assert locations.create(uri, b"late") is False
    assert names(locations.listing(place), place) == ["_run/identity.json"]  # and nothing is left of the losers


def test_bytes_are_stored_as_they_are(place: str, tmp_path: Path) -> None:
    packed = gzip.compress(b"text" * 100)
    source = tmp_path / "source.bin"
    source.write_bytes(packed)
    for name in ("plain.bin", "packed.gz", "name.zst"):
        locations.publish(source, f"{place}/out/{name}")
        assert locations.read_bytes(f"{place}/out/{name}") == packed
        assert locations.find(f"{place}/out/{name}")[0].size == len(packed)


def test_the_files_of_a_folder_appear_below_a_place(place: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("folder")
    (folder / "d" / "empty").mkdir(parents=True)
    for name in ("b", "d/c"):
        (folder / name).write_text(name)
    assert locations.publish_folder(folder, f"{place}/out") == ["b", "d/c"]
    assert names(locations.listing(f"{place}/out"), f"{place}/out") == ["b", "d/c"]
    assert locations.read_bytes(f"{place}/out/d/c") == b"d/c"


def test_what_is_gone_can_be_removed_again(place: str) -> None:
    put(place, "a", "b")
    locations.remove([f"{place}/gone", f"{place}/a"])
    locations.remove([])
    assert names(locations.listing(place), place) == ["b"]


def test_what_is_not_there_is_named(place: str) -> None:
    with pytest.raises(InputError, match=r"none\.tsv: "):
        locations.find(f"{place}/none.tsv")
    with pytest.raises(InputError, match=r"\*\.nope: no file matches"):
        locations.find(f"{place}/*.nope")
    with pytest.raises(FileNotFoundError):
        locations.read_bytes(f"{place}/none")


def test_an_invalid_place_is_refused() -> None:
    def check(bad: str) -> None:
        with pytest.raises(InputError):
            locations.absolute(bad)

    check_cases(check, ["gs://bucket/x", "s3://", "s3:///x", "", " "])


def test_places_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert locations.absolute("a/../b/") == str(tmp_path / "b")
    assert locations.absolute("s3://bucket//a//b/") == "s3://bucket/a/b"
    assert locations.join("s3://bucket/a/", "b", "c") == "s3://bucket/a/b/c"


@pytest.mark.skipif("__import__('os').geteuid() == 0", reason="root may read everything")
def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0)
    with pytest.raises(InputError, match="secret: access denied"):
        locations.find(str(secret))


LOOKS: list[Callable[[str], object]] = [
    lambda bucket: locations.find(f"{bucket}/x.tsv"),
    lambda bucket: locations.find(f"{bucket}/*.tsv"),
    lambda bucket: locations.listing(f"{bucket}/out"),
]


@pytest.mark.parametrize("look", LOOKS, ids=["key", "glob", "listing"])
def test_a_missing_bucket_is_named(s3: str, look: Callable[[str], object]) -> None:
    with pytest.raises(InputError, match="bucket 'no-such-bucket'"):
        look("s3://no-such-bucket")


@pytest.mark.parametrize("look", LOOKS, ids=["key", "glob", "listing"])
def test_a_wrong_credential_is_reported(
    s3: str, look: Callable[[str], object], settings_forgotten: pytest.MonkeyPatch
) -> None:
    locations.listing(s3)  # a client with the right one has been made
    settings_forgotten.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    forget_settings()
    with pytest.raises(InputError, match=f"{s3}.*: access denied") as raised:
        look(s3)
    assert "wrong" not in str(raised.value)


@pytest.mark.parametrize("look", LOOKS, ids=["key", "glob", "listing"])
def test_an_unreachable_endpoint_is_reported_after_few_attempts(
    s3: str, look: Callable[[str], object], settings_forgotten: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[str, int]] = []

    def refused(place: tuple[str, int], **_: object) -> None:
        tried.append(place)
        raise ConnectionRefusedError

    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        settings_forgotten.setenv(name, "http://127.0.0.1:9")
    settings_forgotten.setattr(socket, "create_connection", refused)
    settings_forgotten.setattr("jobs.store.files.s3.REACH_PAUSE_S", 0.01)
    forget_settings()
    with pytest.raises(InputError, match="the storage endpoint cannot be reached"):
        look(s3)
    assert tried == [("127.0.0.1", 9)] * REACH_ATTEMPTS


def test_a_store_that_ignores_conditions_is_recognised(s3: str, tmp_path: Path) -> None:
    assert locations.creates_once(str(tmp_path))
    assert locations.creates_once(f"{s3}/probe")
    assert list(locations.listing(f"{s3}/probe")) == []
    with answering(200) as url, in_environment(url):
        assert not locations.creates_once("s3://bucket/probe")


def test_a_process_keeps_one_client_with_a_connection_for_each_thread_that_reads_footers(
    settings_forgotten: pytest.MonkeyPatch,
) -> None:
    settings_forgotten.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    forget_settings()
    first, _ = locations.filesystem("s3://bucket/a")
    assert locations.filesystem("s3://bucket/b")[0] is first
    assert pa.io_thread_count() >= footers.THREADS_S3 == 64
    child = os.fork()
    if not child:  # connections are not shared with a child
        os._exit(arrow_filesystem.cache_info().currsize)
    assert os.waitpid(child, 0)[1] == 0
    forget_settings()
    assert locations.filesystem("s3://bucket/a")[0] is not first

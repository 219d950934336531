"""Tables on three S3 servers: one that does what Amazon's does, an old Ceph, and one that ignores conditional writes.

A server is skipped if its programs are not installed; `tests/s3_servers/` says where they are from.
"""

import random
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.runtime.command_line import cli
from jobs.store.files import locations
from jobs.store.files.faults import CHECKSUM_SETTINGS
from jobs.store.files.s3 import client, key_path
from jobs.store.reading import open_table
from jobs.store.run_files import IDENTITY, read_json, run_uri
from jobs.store.runs import place
from jobs.testbed import loopback_s3
from jobs.testbed.synthetic import write_corpus
from tests import reliability
from tests.jobs.store.racing import Racer, race, race_commands
from tests.jobs.store.small_runs import ALL_ROWS, begin, complete, contents, plan, write
from tests.s3_servers.kinds import CHECKSUMS, KINDS, ServerKind

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("in_process"), pytest.mark.timeout(900)]
OBJECTS = 1_050  # more than a page of a listing, or a request for deletions, has
LARGE = 12 << 20  # bytes that pyarrow uploads in parts
IGNORES = "ignores conditional writes"
SAME = "corpus.language=en"  # the default of `mine`


@dataclass(frozen=True)
class Store:
    """The running server, the uri of its bucket, and what its tests have counted."""

    kind: ServerKind
    bucket: str
    counts: Counter[str] = field(default_factory=Counter)

    def count(self, *, tables: int = 0, objects: int = 0) -> None:
        """Count a test that passed, the tables that it compared, and objects other than those of tables."""
        self.counts.update({"tests": 1, "tables compared": tables, "objects": objects})


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    kind: ServerKind = request.param
    if absence := kind.absence():
        pytest.skip(absence)
    with (
        kind.create(tmp_path_factory.mktemp("server")) as server,
        loopback_s3.temporary_environment({**server.environment(), **kind.variables}),
    ):
        server.create_bucket("tables")
        yield (store := Store(kind, "s3://tables"))
    names = {
        "server": f"{kind.name} {kind.version()}",
        "conditional writes": "honoured" if kind.honours_conditions else "ignored",
        "checksums": "when required" if kind.needs_settings else "of every upload",
    }
    if store.counts:
        reliability.record("S3 servers", **names, **store.counts)


@pytest.fixture
def out(store: Store, tmp_path: Path) -> str:
    return f"{store.bucket}/{tmp_path.name}/R/records"


@pytest.fixture
def mine(out: str, tmp_path: Path) -> list[str]:
    """Keys of `mine` but for `out=`, with a corpus of several files on the server."""
    write_corpus(tmp_path / "corpus", rows=600, pictures=20)
    files = [*sorted((tmp_path / "corpus").glob("*.tsv.gz")), tmp_path / "corpus" / "terms.csv"]
    corpus = out.removesuffix("/R/records") + "/corpus"
    for file in files:
        locations.publish(file, f"{corpus}/{file.name}")
    return [f"corpus.path={corpus}/*.tsv.gz", f"terms.path={corpus}/terms.csv"]


def rows(table: str) -> pa.Table:
    return pa.concat_tables(open_table(table).batches()).sort_by([("record_id", "ascending")])


def units(table: str) -> dict[str, str]:
    """Uri -> ETag of the table's units."""
    return {
        file.uri: file.etag
        for file in locations.listing(table)
        if "/_" not in file.uri.removeprefix(table) and file.uri.endswith(".parquet")
    }


def test_a_store_without_conditional_writes_is_reported_before_a_run(
    store: Store, out: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(place, "_warned", set())  # a process warns once
    opened = begin(plan(out))
    assert (IGNORES in caplog.text) != store.kind.honours_conditions
    for task in opened.todo:
        write(opened, task)
    assert opened.finish()["conditional_writes"] == store.kind.honours_conditions
    assert contents(out) == ALL_ROWS
    store.count()


def test_a_table_is_that_of_a_local_disk_and_is_resumed(
    store: Store, mine: list[str], out: str, tmp_path: Path
) -> None:
    assert cli.main("mine", [*mine, f"out={tmp_path}/records"]) == 0
    assert cli.main("mine", [*mine, f"out={out}"]) == 0
    local = rows(f"{tmp_path}/records")
    assert local.num_rows > 0
    assert rows(out).equals(local)

    written = units(out)
    assert len(written) > 2
    removed = sorted(written)[1]
    locations.remove([removed])
    assert cli.main("verify", [f"input={out}"]) != 0
    assert cli.main("mine", [*mine, f"out={out}"]) == 0
    again = units(out)
    assert again.keys() == written.keys()
    assert {uri: again[uri] for uri in written if uri != removed} == {
        uri: etag for uri, etag in written.items() if uri != removed
    }
    assert rows(out).equals(local)
    assert cli.main("verify", [f"input={out}"]) == 0
    store.count(tables=2)


def test_a_table_is_listed_and_removed(
    store: Store, mine: list[str], out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main("mine", [*mine, f"out={out}"]) == 0
    written = rows(out)
    capsys.readouterr()
    assert cli.main("ls", [out]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(out)]
    assert line.split()[2:4] == [f"{written.num_rows:,}", f"{len(units(out))}"]
    assert cli.main("rm", [out, "yes=true"]) == 0
    assert list(locations.listing(out)) == []
    assert cli.main("mine", [*mine, f"out={out}"]) == 0
    assert rows(out).equals(written)
    store.count(tables=1)


def test_a_picture_is_purged(store: Store, mine: list[str], out: str, tmp_path: Path) -> None:
    assert cli.main("mine", [*mine, f"out={out}"]) == 0
    before = rows(out)
    url = before["image_url"][0].as_py()
    exclusions = tmp_path / "exclusions.txt"
    exclusions.write_text(f"{url}\n")
    keys = [f"input={out.removesuffix('/records')}", f"exclusions={exclusions}"]
    assert cli.main("verify", keys) == 1
    assert cli.main("purge", keys) == 0
    assert cli.main("verify", keys) == 0
    assert rows(out).equals(before.filter(pc.not_equal(before["image_url"], url)))
    store.count(tables=1)


def test_more_objects_than_a_page_of_a_listing_has(store: Store, out: str) -> None:
    complete(plan(out))
    uris = [f"{out}/_rejects/{number:04}.0.parquet" for number in range(OBJECTS)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda uri: locations.replace(uri, b"x"), uris))
    assert {file.uri for file in locations.listing(out)} >= set(uris)
    assert contents(out) == ALL_ROWS
    complete(plan(out), overwrite=True)
    assert not [file for file in locations.listing(out) if "/_rejects/" in file.uri]
    assert contents(out) == ALL_ROWS
    store.count(objects=OBJECTS)


def test_an_object_that_is_uploaded_in_parts(store: Store, out: str, tmp_path: Path) -> None:
    large, uri = tmp_path / "large", f"{out}/large.parquet"
    large.write_bytes(random.Random(3).randbytes(LARGE))
    locations.publish(large, uri)
    assert locations.read_bytes(uri) == large.read_bytes()
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as file:
        file.seek(LARGE - 10)
        assert file.read() == large.read_bytes()[-10:]
    store.count(objects=1)


@pytest.mark.parametrize("exists", [False, True], ids=["new", "replaced"])
def test_an_upload_that_breaks_off_leaves_what_was_there(store: Store, out: str, exists: bool) -> None:
    uri = f"{out}/unit.parquet"
    if exists:
        locations.replace(uri, b"before")
    address = urlsplit(client().url(key_path(uri), client_method="put_object"))
    head = f"PUT {address.path}?{address.query} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n"
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(f"{head}Content-Length: {LARGE}\r\n\r\n".encode() + bytes(LARGE // 2))
        time.sleep(1)  # the server has read it
    time.sleep(1)
    assert locations.exists(uri) == exists
    assert not exists or locations.read_bytes(uri) == b"before"
    assert [file.size for file in locations.listing(out)] == [len(b"before")] * exists
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(f"{head}Content-Length: 5\r\n\r\nafter".encode())
        assert connection.makefile("rb").readline().split()[1] == b"200"
    assert locations.read_bytes(uri) == b"after"
    store.count()


@pytest.mark.parametrize("name", ["a b+c%41&d=e#f", "[x]*?.parquet", "Größe 日本", 'it\'s "quoted";,$'])
def test_names_of_objects(store: Store, out: str, name: str) -> None:
    uri = f"{out}/{name}"
    locations.replace(uri, b"content")
    assert [file.uri for file in locations.listing(out)] == [uri]
    assert locations.read_bytes(uri) == b"content"
    assert not locations.create(uri, b"other") or not store.kind.honours_conditions
    locations.remove([uri])
    assert list(locations.listing(out)) == []
    store.count(objects=1)


@pytest.mark.parametrize("identities", [(1, 1), (1, 2)], ids=["same configuration", "two configurations"])
def test_one_of_two_runs_writes_the_table(
    store: Store, racers: list[Racer], out: str, identities: tuple[int, int]
) -> None:
    opened, answers = race(racers, out, identities)
    assert len([answer for answer in answers if IGNORES in answer]) == (0 if store.kind.honours_conditions else 2)
    if store.kind.honours_conditions:
        assert len(opened) == 1, answers
    assert len(opened) <= 1, answers  # without conditional writes both may give up
    for racer in opened:
        racer.go_on()
        assert racer.read() == "finished"
        assert read_json(run_uri(out, IDENTITY))["rules"] == {"x": identities[racers.index(racer)]}
        assert contents(out) == ALL_ROWS
    store.count(tables=len(opened))


@pytest.mark.parametrize("other", [SAME, "corpus.language=null"], ids=["same configuration", "two configurations"])
def test_one_of_two_commands_writes_the_table(
    store: Store, racers: list[Racer], mine: list[str], out: str, other: str
) -> None:
    commands = [[*mine, f"out={out}"], [*mine, other, f"out={out}"]]
    ends = race_commands(racers, "mine", [[*command, "ray.num_cpus=2"] for command in commands])
    codes = [code for code, _ in ends]
    assert codes in ([0, 2], [2, 0]) or (codes == [2, 2] and not store.kind.honours_conditions), ends
    for code, last in ends:
        assert code == 0 or "is writing this table" in last or "another configuration" in last, ends
    written = units(out)
    again = [cli.main("mine", command) for command in commands]
    winner = codes.index(0) if 0 in codes else again.index(0)
    assert again[winner] == 0
    assert again[1 - winner] == (0 if other == SAME else 2)
    assert {uri: etag for uri, etag in units(out).items() if uri in written} == written  # nothing is written twice
    calm = out.replace("/R/", "/calm/")
    assert cli.main("mine", [*commands[winner][:-1], f"out={calm}"]) == 0
    assert rows(out).equals(rows(calm))
    assert cli.main("verify", [f"input={out}"]) == 0
    store.count(tables=1)


def test_the_settings_of_checksums(store: Store, mine: list[str], out: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    with loopback_s3.temporary_environment(dict.fromkeys(CHECKSUMS)):
        code = cli.main("mine", [*mine, f"out={out}"])
    printed = capsys.readouterr().err.strip().splitlines()
    if not store.kind.needs_settings:
        assert code == 0
    else:
        assert code == 2
        assert len(printed) == 1
        for part in (out, "checksum", CHECKSUM_SETTINGS):
            assert part in printed[0]
        assert not units(out)
        assert cli.main("mine", [*mine, f"out={out}"]) == 0
    assert cli.main("verify", [f"input={out}"]) == 0
    store.count()

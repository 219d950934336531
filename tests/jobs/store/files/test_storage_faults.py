"""Faults between the client and the S3 server: the rows of a run are those of an undisturbed one, or it says why not.

The faults befall requests to a real server (`tests.fault_proxy`).
"""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.store.files import faults, locations, s3
from jobs.store.reading import open_table
from jobs.testbed.synthetic import write_corpus
from tests import reliability
from tests.fault_proxy import Fault, FaultProxy, Request, through
from tests.jobs.store.small_runs import ALL_ROWS, FILES, begin, complete, contents, plan, write

pytestmark = [pytest.mark.usefixtures("in_process"), pytest.mark.timeout(600)]
OBJECTS = 1_050  # more than a page of a listing, or a request for deletions, has
LARGE = 12 << 20  # bytes that pyarrow uploads in parts
EXPIRED = {"status": 400, "code": "ExpiredToken"}
RANDOM = [
    {"kind": "answer"},
    {"kind": "answer", "status": 500, "code": "InternalError"},
    {"kind": "cut answer"},
    {"kind": "cut request"},
    {"kind": "lost answer"},
    {"kind": "slow"},
]


@pytest.fixture(scope="module")
def proxy(s3: str) -> Iterator[FaultProxy]:
    import os

    with FaultProxy(os.environ["AWS_ENDPOINT_URL"]) as proxy, through(proxy):
        yield proxy


@pytest.fixture
def out(s3: str, request: pytest.FixtureRequest) -> str:
    return f"{s3}/faults/{abs(hash(request.node.name)):x}/table"


@pytest.fixture
def few_attempts(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """pyarrow gives up after 150 ms instead of 25 s."""
    monkeypatch.setattr(s3, "ARROW_ATTEMPTS", 3)
    s3.forget_settings()
    yield
    monkeypatch.undo()
    s3.forget_settings()


def of(*methods: str, paths: tuple[str, ...] = (".parquet", "identity.json")) -> Callable[[Request], bool]:
    """Requests on some objects; each repetition of one by botocore takes a second."""
    return lambda request: request.method in methods and request.path.endswith(paths)


def names(out: str) -> set[str]:
    return {file.uri.removeprefix(out) for file in locations.listing(out)}


@pytest.mark.parametrize(
    "fault",
    [
        Fault("answer", of("GET", "PUT"), times=1, each=True, status=500, code="InternalError"),
        *(
            pytest.param(fault, marks=pytest.mark.long)
            for fault in (
                Fault("answer", of("GET", "PUT"), times=2, each=True),
                Fault("cut answer", of("GET"), times=2, each=True),
                Fault("cut request", of("PUT"), times=1, each=True),
                Fault("lost answer", of("PUT"), times=1, each=True),
                Fault("slow", of("GET")),
            )
        ),
    ],
    ids=lambda fault: f"{fault.kind} {fault.status}",
)
def test_a_run_under_faults_is_an_undisturbed_run(proxy: FaultProxy, out: str, fault: Fault) -> None:
    complete(plan(f"{out}-calm"))
    with proxy.between(fault):
        manifest = complete(plan(out))
        assert contents(out) == ALL_ROWS
        assert proxy.affected[fault.kind] >= len(FILES)
    assert manifest["complete"]
    assert manifest["conditional_writes"], "a lost answer is not taken for a store that ignores conditions"
    assert names(out) == names(f"{out}-calm")
    assert open_table(out).counts() == open_table(f"{out}-calm").counts()
    assert cli.main("verify", [f"input={out}"]) == 0


@pytest.mark.parametrize("reply", [EXPIRED, {"status": 403, "code": "ExpiredToken"}], ids=["400", "403"])
def test_credentials_that_expire_stop_the_run_and_the_same_command_continues(
    proxy: FaultProxy, out: str, reply: dict[str, object]
) -> None:
    run = begin(plan(out))
    write(run, run.todo[0])
    with proxy.between(Fault("answer", **reply)):  # type: ignore[arg-type]
        with pytest.raises(OSError, match=r".") as stopped:
            write(run, run.todo[1])
        sentence = faults.sentence(stopped.value) or ""
        for part in (out, "credentials have expired", "renew them"):
            assert part in sentence
        with pytest.raises(InputError, match=r"credentials.* have expired"):  # a HEAD, whose answer has no code
            begin(plan(out))
    reads = Fault("answer", lambda request: request.method == "GET", **reply)  # type: ignore[arg-type]
    with proxy.between(reads), pytest.raises(OSError, match=r".") as small:  # the code is longer than the file
        locations.read_bytes(f"{out}/_run/config.json")
    assert "credentials have expired" in (faults.sentence(small.value) or "")
    again = begin(plan(out))
    assert [task.unit.inputs[0].uri for task in again.todo] == ["/corpus/b", "/corpus/c"]
    for task in again.todo:
        write(again, task)
    assert again.finish()["complete"]
    assert contents(out) == ALL_ROWS


@pytest.mark.usefixtures("few_attempts")
@pytest.mark.parametrize("kind", ["error in 200", pytest.param("answer", marks=pytest.mark.torture)])
def test_an_upload_in_parts_is_whole_or_absent(proxy: FaultProxy, out: str, tmp_path: Path, kind: str) -> None:
    large, uri = tmp_path / "large", f"{out}/large.parquet"
    large.write_bytes(random.Random(3).randbytes(LARGE))
    with proxy.between(Fault(kind, lambda request: request.completes_upload, code="InternalError")):
        with pytest.raises(OSError, match=r"."):
            locations.publish(large, uri)
        assert proxy.affected[kind] > 0
    assert not locations.exists(uri)
    with proxy.between(Fault(kind, lambda request: request.completes_upload, times=1, code="InternalError")):
        locations.publish(large, uri)
        assert proxy.affected[kind] == 1
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as stream:
        assert stream.read() == large.read_bytes()


@pytest.mark.long
def test_listings_of_any_page_size_and_more_than_a_thousand_objects(proxy: FaultProxy, out: str) -> None:
    complete(plan(out))
    uris = [f"{out}/_rejects/{number:04}.0.parquet" for number in range(OBJECTS)]

    def put(uri: str) -> None:
        fs, path = locations.filesystem(uri)
        with fs.open_output_stream(path, compression=None) as stream:
            stream.write(b"x")

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(put, uris))
    calm = list(locations.listing(out))
    assert len(calm) > OBJECTS
    with proxy.between(pages=[7, 0, 1, 500]):  # S3 may return a page without an object, and more after it
        assert list(locations.listing(out)) == calm
        assert contents(out) == ALL_ROWS
        assert proxy.requests["GET"] > 10
        complete(plan(out), overwrite=True)
    assert not [uri for uri in locations.listing(out) if "/_rejects/" in uri.uri]
    assert contents(out) == ALL_ROWS


class Dice:
    """Faults of random kinds at random requests."""

    def __init__(self, seed: int, share: float) -> None:
        self._draw, self._share = random.Random(seed), share

    def __call__(self, request: Request) -> bool:
        return self._draw.random() < self._share / len(RANDOM)

    def faults(self) -> list[Fault]:
        # Not more than two for the same request: a client gives up after six.
        return [Fault(matches=self, times=2, each=True, **options) for options in RANDOM]  # type: ignore[arg-type]


def rows(out: str) -> pa.Table:
    table = open_table(out)
    return pa.concat_tables(table.batches()).sort_by([("record_id", "ascending")])


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.torture) for seed in range(2, 22))])
def test_jobs_under_random_faults_write_the_rows_of_undisturbed_ones(
    proxy: FaultProxy, out: str, tmp_path: Path, seed: int
) -> None:
    write_corpus(tmp_path, rows=600, pictures=20)
    for file in sorted(tmp_path.glob("*.tsv.gz")):
        locations.publish(file, f"{out}/corpus/{file.name}")
    locations.publish(tmp_path / "terms.csv", f"{out}/terms.csv")
    mine = ["mine", f"corpus.path={out}/corpus/*.tsv.gz", f"terms.path={out}/terms.csv"]
    for place, faults_now in (("calm", []), ("disturbed", Dice(seed, 0.15 if seed == 1 else 0.3).faults())):
        with proxy.between(*faults_now):
            assert cli.main(mine[0], [*mine[1:], f"out={out}/{place}/records"]) == 0
            curate = [f"input={out}/{place}/records", f"out={out}/{place}/curated"]
            assert cli.main("curate", curate) == 0
            if faults_now:
                assert sum(proxy.affected.values()) > 10
                requests, affected = sum(proxy.requests.values()), sum(proxy.affected.values())
    for table in ("records", "curated"):
        calm, disturbed = f"{out}/calm/{table}", f"{out}/disturbed/{table}"
        assert rows(disturbed).num_rows > 0
        assert rows(disturbed).equals(rows(calm))
        assert len(names(disturbed)) == len(names(calm))
        assert cli.main("verify", [f"input={disturbed}"]) == 0
    reliability.record("storage faults", jobs="mine, curate", runs=1, requests=requests, faults=affected)

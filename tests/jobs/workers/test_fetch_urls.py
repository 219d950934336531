"""What a worker of `fetch source=urls` asks for, writes and reports of the pictures of a unit."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from actors.ids import content_id
from actors.status import Status
from actors.url_fetcher import ImageRequest
from jobs.corpora.records import open_records
from jobs.errors import RunError
from jobs.runtime.selection import exclusions
from jobs.store.counts import Counts
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan, limited
from jobs.store.writer import UnitWriter
from jobs.workers import fetch_urls
from jobs.workers.fetch_urls import FetchUnit, ImageWriter, RowSpool, RunFiles
from tests.factories import image_row, record, rows_of, write_records

REQUESTS = [SimpleNamespace(image_id=str(number)) for number in range(3)]


def fetched(fetch: Callable[..., Any], spool: Any, report: Any) -> Any:
    unit: Any = object.__new__(FetchUnit)  # without processes that decode
    with asyncio.Runner() as unit._loop:
        unit._fetcher = SimpleNamespace(fetch=fetch)
        return unit._fetch(REQUESTS, spool, report)


def test_each_picture_is_reported_and_errors_are_counted() -> None:
    async def fetch(requests: Sequence[Any], done: Callable[[Any], None], *, credits_of: Sequence[Any]) -> Any:
        assert credits_of == requests
        for request, status in zip(requests, (Status.OK, Status.ERROR, Status.MISSING), strict=True):
            done(image_row(request.image_id) | {"image_id": request.image_id, "status": status})
        return "credits"

    reported: list[tuple[int, bool]] = []
    report = SimpleNamespace(add=lambda number, *, errors: reported.append((number, errors)))
    with RowSpool() as spool:
        assert fetched(fetch, spool, report) == "credits"
        assert [spool.row(str(number))["status"] for number in range(3)] == ["ok", "error", "missing"]
    assert reported == [(1, False), (1, True), (1, False)]


def test_the_first_error_of_a_group_is_raised() -> None:
    async def fetch(*_: Any, **__: Any) -> Any:
        raise BaseExceptionGroup("", [BaseExceptionGroup("", [RunError("full")]), ValueError("later")])

    with pytest.raises(RunError, match="full"):
        fetched(fetch, None, None)


class Fetches:
    """Units of records whose pictures have a status by their URL, without requests or processes that decode."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.statuses = folder, dict[str, str]()
        self.requests: list[ImageRequest] = []
        self.counts = Counts()

    def run(self, *, retry: Sequence[str] = (), limit: int | None = None, out: str = "images") -> list[dict[str, Any]]:
        """Fetch all pictures but those of the list, and return the rows."""
        pictures = open_records(f"{self.folder}/records", None, {})
        plan = TablePlan(f"{self.folder}/{out}", "images", {}, pictures.units, {}, {}, derived=True)
        run = open_run(limited(plan, limit), resume=True, overwrite=False, retry=retry)
        excluded = exclusions.keep(run, exclusions.read_exclusions(f"{self.folder}/list.txt"))
        unit: Any = object.__new__(FetchUnit)
        unit._files = RunFiles(run.target.out, excluded, pictures.keep_repeats(run))
        unit._fetch = self._fetch
        self.requests.clear()
        for task in run.todo:
            with UnitWriter(run.target, task) as writer:
                unit(task, writer, None)
            self.counts = writer.counts
        run.finish()
        return rows_of(run.target.out)

    def _fetch(self, requests: Sequence[ImageRequest], spool: RowSpool, _: Any) -> dict[str, tuple[str, str]]:
        self.requests += requests
        for request in reversed(requests):
            spool.add(image_row(request.url, status=self.statuses.get(request.url, "ok")))  # type: ignore[arg-type]
        return {request.image_id: ("ada", "CC0") for request in requests[:1]}


@pytest.fixture
def fetches(tmp_path: Path) -> Fetches:
    rows = [record("a"), record("b") | {"original_width": "400"}, record("c"), record("again", image="https://i/a.jpg")]
    write_records(f"{tmp_path}/records", [rows])
    (tmp_path / "list.txt").write_text("https://i/c.jpg\n")
    return Fetches(tmp_path)


def test_each_picture_of_a_unit_is_asked_for_once_and_excluded_ones_are_reported(fetches: Fetches) -> None:
    rows = fetches.run()
    a, b, c = (f"https://i/{name}.jpg" for name in "abc")
    assert [row["source_url"] for row in rows] == [a, b, c]
    assert fetches.requests == [
        ImageRequest(content_id(a), a), ImageRequest(content_id(b), b, 400), ImageRequest(content_id(c), c, None, True)
    ]  # fmt: skip
    assert [(row["author"], row["licence"]) for row in rows] == [("ada", "CC0"), (None, None), (None, None)]
    assert (fetches.counts.rows_in, fetches.counts.rows_out, fetches.counts.filtered) == (4, 3, {"same_picture": 1})
    assert sum(fetches.counts.tallies[exclusions.TALLY].values()) >= 1
    assert [row["source_url"] for row in fetches.run(limit=2, out="first")] == [a, b]


def test_a_retry_asks_for_the_pictures_of_its_statuses_alone(fetches: Fetches) -> None:
    a, b, c = (f"https://i/{name}.jpg" for name in "abc")
    fetches.statuses = {a: "error", b: "ok", c: "missing"}
    first = fetches.run()
    fetches.statuses = {}
    again = fetches.run(retry=["error", "missing"])
    assert [request.url for request in fetches.requests] == [a, c]
    assert [row["status"] for row in again] == ["ok"] * 3
    assert again[1] == first[1]
    assert (fetches.counts.rows_in, fetches.counts.filtered) == (4, {"same_picture": 1})


class Written:
    """Stands for a unit's writer; keeps the tables."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []

    def write(self, rows: pa.Table) -> None:
        self.tables.append(rows)


def row(name: str, size: int) -> Any:
    return {"image_id": name, "rendition": "original", "status": "ok", "bytes": b"x" * size}


@pytest.mark.parametrize(("rows", "size", "parts"), [(2, 100, ["ab", "cd", "e"]), (9, 3, ["abc", "de"])])
def test_rows_are_written_at_their_limits_in_order(
    monkeypatch: pytest.MonkeyPatch, rows: int, size: int, parts: list[str]
) -> None:
    monkeypatch.setattr(fetch_urls, "MAX_ROWS", rows)
    monkeypatch.setattr(fetch_urls, "MAX_BYTES", size)
    written: Any = Written()
    with ImageWriter(written) as writer:
        for name in "abcde":
            writer.add(row(name, 1))
    assert ["".join(table["image_id"].to_pylist()) for table in written.tables] == parts


def test_nothing_is_written_of_what_an_error_ended() -> None:
    written: Any = Written()

    def fail() -> None:
        with ImageWriter(written) as writer:
            writer.add(row("a", 1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert written.tables == []

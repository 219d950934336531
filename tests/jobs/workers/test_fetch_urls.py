"""What a worker of `fetch source=urls` reports of the pictures of a unit."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from actors.status import Status
from jobs.errors import RunError
from jobs.workers.fetch_urls import FetchUnit, RowSpool
from tests.factories import image_row

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

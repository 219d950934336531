"""The requests to S3 that a plan announces are those that a unit makes, counted in front of a real server."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from jobs.runtime.estimates import GETS_PER_FOOTER, GETS_PER_INPUT, PUTS_PER_UNIT
from jobs.store import locations
from jobs.store.footers import read_footers
from jobs.store.objects import Object
from jobs.store.reading import open_table, read_unit
from jobs.store.s3 import forget_settings
from tests.forwarding import forwarding
from tests.jobs.store.small_runs import begin, plan, write

NAME = "AWS_ENDPOINT_URL"


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Within the context, requests go through a server of this process, which counts them by method."""
    before = dict(os.environ)
    name = next(key for key in (f"{NAME}_S3", NAME) if key in before)
    parts = urlsplit(before[name])
    with forwarding((str(parts.hostname), int(parts.port or 80))) as front:
        os.environ[name] = f"http://127.0.0.1:{front.port}"
        forget_settings()
        try:
            yield front.requests
        finally:
            os.environ.clear()
            os.environ.update(before)
            forget_settings()


@pytest.fixture(scope="module")
def out(s3: str) -> str:
    return f"{s3}/requests/table"


def test_a_unit_is_written_with_one_put_and_read_with_few_gets(out: str) -> None:
    with counted() as counts:
        run = begin(plan(out))
        counts.clear()
        for task in run.todo:
            write(run, task)
        units = len(run.todo)
        assert counts["PUT"] == units * PUTS_PER_UNIT
        assert counts["GET"] + counts["HEAD"] + counts["POST"] == 0
        run.finish()

        objects = [Object(f.uri, f.size, f.etag) for f in locations.find(f"{out}/*.parquet")]
        counts.clear()
        assert all(read_footers(objects, remote=True))
        assert counts["GET"] + counts["HEAD"] == units * GETS_PER_FOOTER
        source = open_table(out)
        counts.clear()
        for footer in source.footers:
            assert read_unit(footer.object.uri).num_rows
        assert units < counts["GET"] + counts["HEAD"] <= units * GETS_PER_INPUT

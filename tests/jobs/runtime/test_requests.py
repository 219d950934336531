"""The requests to S3 that a plan announces are those that a unit makes, counted in front of a real server."""

import pytest

from jobs.runtime.estimates import GETS_PER_FOOTER, GETS_PER_INPUT, PUTS_PER_UNIT
from jobs.store import locations
from jobs.store.footers import read_footers
from jobs.store.object_rows import read_unit
from jobs.store.objects import Object
from jobs.store.reading import open_table
from tests.forwarding import counted_s3
from tests.jobs.store.small_runs import begin, plan, write


@pytest.fixture(scope="module")
def out(s3: str) -> str:
    return f"{s3}/requests/table"


def test_a_unit_is_written_with_one_put_and_read_with_few_gets(out: str) -> None:
    with counted_s3() as front:
        counts = front.requests
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
        listed = [one._replace(size=one.size + more) for one, more in zip(objects, (1, -1, 10**6), strict=True)]
        footers = list(read_footers(listed, remote=True))
        assert [footer.rows for footer in footers if footer] == [footer.rows for footer in source.footers]  # by asking
        assert list(read_footers([Object(f"{out}/absent.parquet", 500, "")], remote=True)) == [None]
        counts.clear()
        for footer in source.footers:
            assert read_unit(footer.object.uri).num_rows
        assert units < counts["GET"] + counts["HEAD"] <= units * GETS_PER_INPUT

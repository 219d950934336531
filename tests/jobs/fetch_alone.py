"""`fetch source=urls` in one process without Ray: `python -m tests.jobs.fetch_alone JSON`, to kill or to measure."""

import json
import sys
from typing import Any

from actors.fetching.http_connection import Bounds
from actors.fetching.net_safety import Rules
from actors.url_fetcher import UrlFetcherSettings
from jobs.corpora.records import open_records
from jobs.runtime.board import Reporter
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.writer import UnitWriter
from jobs.workers.fetch_urls import FetchUnit, RunFiles
from tests.https_server import ADDRESS
from tests.picture_site import LocalLimiter


def fetch_alone(
    records: str,
    out: str,
    *,
    port: int,
    ca_file: str,
    threads: int = 1,
    unit_rows: int | None = None,
    **changed: Any,
) -> dict[str, Any]:
    """Fetch the pictures of a table of records from `https://localhost:port` and nowhere else; the manifest."""
    units = open_records(records, unit_rows, {}).units
    plan = TablePlan(out, "images", {"test": "alone"}, units, {}, {}, derived=True)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    settings = UrlFetcherSettings(
        agent="remine/0 (tests@remine.dev) aiohttp/0",
        rules=Rules(("localhost", f"localhost:{port}"), frozenset({ADDRESS, "::1"}), (("localhost", ADDRESS, port),)),
        credits=False,
        bounds=Bounds(10_000_000),
        **changed,
    )
    unit = FetchUnit(
        settings=settings,
        run_files=RunFiles(run.target.out, None, None),
        threads=threads,
        ca_file=ca_file,
        limiter=LocalLimiter(),
    )
    for task in run.todo:
        with UnitWriter(run.target, task) as writer:
            unit(task, writer, Reporter(None, "fetch"))
    return run.finish()


if __name__ == "__main__":
    fetch_alone(**json.loads(sys.argv[1]))

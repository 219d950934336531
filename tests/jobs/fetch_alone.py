"""`fetch source=urls` in one process without Ray: `python -m tests.jobs.fetch_alone JSON`, to kill or to measure."""

import json
import sys
from typing import Any

from actors.http_line import Bounds
from actors.limits import LocalLimiter
from actors.net_safety import Rules
from actors.url_fetcher import Settings
from jobs.progress import Reporter
from jobs.sources.urls import FetchUnit, Known
from jobs.store.reading import open_table
from jobs.store.run import Plan, open_run
from jobs.store.writer import UnitWriter
from tests.https_server import ADDRESS


def fetch_alone(records: str, out: str, *, port: int, ca_file: str, threads: int = 1, **changed: Any) -> dict[str, Any]:
    """Fetch the pictures of a table of records from `https://localhost:port` and nowhere else; the manifest."""
    table = open_table(records, "records")
    plan = Plan(out, "images", {"test": "alone"}, table.units(), {}, {}, derived=True)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    settings = Settings(
        agent="remine/0 (tests@remine.dev) aiohttp/0",
        rules=Rules(("localhost", f"localhost:{port}"), frozenset({ADDRESS, "::1"}), (("localhost", ADDRESS, port),)),
        credits=False,
        bounds=Bounds(10_000_000),
        **changed,
    )
    unit = FetchUnit(
        settings=settings,
        known=Known(run.target.out, None, None),
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

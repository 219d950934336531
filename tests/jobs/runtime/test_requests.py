"""The requests to S3 that a plan announces are those that a unit makes, counted in front of a real server."""

import os
import re
import socket
import socketserver
import threading
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
from tests.jobs.store.small_runs import begin, plan, write

REQUEST = re.compile(rb"(?:^|\r?\n)(GET|HEAD|PUT|POST|DELETE) \S+ HTTP/1\.1\r\n")
NAME = "AWS_ENDPOINT_URL"


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Within the context, requests go through a server of this process, which counts them by method."""
    counts, before = Counter[str](), dict(os.environ)
    name = next(key for key in (f"{NAME}_S3", NAME) if key in before)
    parts = urlsplit(before[name])

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((str(parts.hostname), int(parts.port or 80))) as server:
                answers = threading.Thread(target=self._copy, args=(server, self.request))
                answers.start()
                while data := self.request.recv(1 << 20):
                    counts.update(match.decode() for match in REQUEST.findall(data))
                    server.sendall(data)
                server.shutdown(socket.SHUT_WR)
                answers.join()

        @staticmethod
        def _copy(source: socket.socket, target: socket.socket) -> None:
            while data := source.recv(1 << 20):
                target.sendall(data)

    class Proxy(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Proxy(("127.0.0.1", 0), Forward) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        os.environ[name] = f"http://127.0.0.1:{proxy.server_address[1]}"
        forget_settings()
        try:
            yield counts
        finally:
            os.environ.clear()
            os.environ.update(before)
            forget_settings()
            proxy.shutdown()


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

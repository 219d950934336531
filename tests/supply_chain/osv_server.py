"""The query of OSV's API (https://google.github.io/osv.dev/post-v1-query) on loopback, from an export."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.supply_chain.advisories import Advisories

ADDRESS = "127.0.0.1"


@contextlib.contextmanager
def serving(advisories: Advisories) -> Iterator[str]:
    """Serve `advisories` on a free port; the URL of the query."""

    class Query(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            affecting = advisories.of(query["package"]["name"], query["version"])
            body = json.dumps({"vulns": affecting} if affecting else {}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: the audit reports."""

    with ThreadingHTTPServer((ADDRESS, 0), Query) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{ADDRESS}:{server.server_port}/v1/query"
        finally:
            server.shutdown()
            thread.join()

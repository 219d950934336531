"""An S3 endpoint on 127.0.0.1 that answers every request alike: what clients make of a status and an error code."""

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from jobs.store.files.s3 import forget_settings


@contextlib.contextmanager
def answering(
    status: int, code: str = "", message: str = "", headers: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Yield the URL of a server that answers with `status`, `headers` and, if there is a code, S3's XML of it."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>" if code else ""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # botocore waits for a 100 Continue

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 (names that http.server looks for)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def in_environment(endpoint: str) -> Iterator[None]:
    """This process's S3 is the one at `endpoint`, with some credentials."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(
        AWS_ENDPOINT_URL=endpoint,
        AWS_ACCESS_KEY_ID="key",
        AWS_SECRET_ACCESS_KEY="secret",
        AWS_REGION="us-east-1",
        AWS_DEFAULT_REGION="us-east-1",
    )
    forget_settings()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        forget_settings()

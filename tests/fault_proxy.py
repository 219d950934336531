"""A proxy in front of an S3 server that gives scripted requests a fault, and hands on all others unchanged.

Requests keep their `Host`, which their signature covers. The proxy uses credentials only to sign requests without their
conditions.
"""

import contextlib
import http.client
import os
import random
import re
import socket
import struct
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from urllib.parse import parse_qs, urlsplit

from jobs.store.files.s3 import forget_settings

XML = "{http://s3.amazonaws.com/doc/2006-03-01/}"
HOP = ("connection", "transfer-encoding", "content-length", "keep-alive")  # headers of one connection
SIGNATURE = ("authorization", "x-amz-date")
CONDITIONS = ("if-none-match", "if-match")
SLOW_PIECE, SLOW_PAUSE_S = 64 << 10, 0.02


@dataclass(frozen=True)
class Request:
    """A request: its method, the path with bucket and key, the query, and the number of requests before it."""

    method: str
    path: str
    query: str
    number: int

    @property
    def is_listing(self) -> bool:
        return "list-type=2" in self.query

    @property
    def completes_upload(self) -> bool:
        return self.method == "POST" and "uploadId=" in self.query


Matches = Callable[[Request], bool]


@dataclass
class Fault:
    """The fault that the proxy applies to a request.

    Attributes:
        kind: `answer` (with `status` and S3's `code`, nothing is handed on), `cut answer` (half of the body, then a
            reset), `cut request` (a reset while the body is read, nothing is handed on), `lost answer` (handed on, then
            a reset instead of the answer), `error in 200` (nothing is handed on, status 200 with an error as its body,
            as S3 completes uploads), `slow`, `short answer` (half of the body with its length, as if that were all),
            `flipped answer` (one byte of the body is another).
        matches: which requests; all by default.
        times: of how many requests.
        each: `times` counts for each path by itself.
    """

    kind: str
    matches: Matches = lambda request: True
    times: int = 1 << 30
    each: bool = False
    status: int = 503
    code: str = "SlowDown"
    seen: Counter[str] = field(default_factory=Counter)

    def takes(self, request: Request) -> bool:
        """Return whether the fault applies to this request, which is then counted."""
        key = f"{request.method} {request.path}" if self.each else ""
        if self.seen[key] >= self.times or not self.matches(request):
            return False
        self.seen[key] += 1
        return True


class FaultProxy:
    """The proxy: `faults` are those of the following requests, the first that matches counts.

    Attributes:
        endpoint: its url.
        ignores_conditions: `If-None-Match` and `If-Match` are not handed on, as by a store that ignores them.
        upstream: the server's, which may change.
        pages: sizes of pages of listings, over and over; empty: the server's own.
        affected: kinds of faults -> requests that met one.
        requests: methods -> requests.
    """

    def __init__(self, endpoint: str) -> None:
        self.upstream = endpoint
        self.faults: Sequence[Fault] = ()
        self.pages: Sequence[int] = ()
        self.ignores_conditions = False
        self.affected: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self._numbers, self._lock = count(), threading.Lock()
        self._listings: dict[str, list[bytes]] = {}  # token -> the rest of a listing
        self._sizes = 0
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    @contextlib.contextmanager
    def between(self, *faults: Fault, pages: Sequence[int] = ()) -> Iterator[None]:
        """Within the context, these faults befall requests."""
        self.faults, self.pages = faults, pages
        self.affected.clear()
        self.requests.clear()
        try:
            yield
        finally:
            self.faults, self.pages = (), ()

    def fault(self, method: str, target: str) -> Fault | None:
        """Return the fault that applies to a request, which is counted."""
        parts = urlsplit(target)
        with self._lock:
            request = Request(method, parts.path, parts.query, next(self._numbers))
            self.requests[method] += 1
            fault = next((fault for fault in self.faults if fault.takes(request)), None)
            if fault is not None:
                self.affected[fault.kind] += 1
        return fault

    def ask(self, method: str, target: str, headers: dict[str, str], body: bytes) -> "_Reply":
        """Return the server's answer; listings are cut into pages of the sizes `pages`."""
        request = urlsplit(target)
        if self.pages and "list-type=2" in request.query:
            token = parse_qs(request.query).get("continuation-token", [""])[0]
            if token in self._listings:
                return self._page(self._listings.pop(token))
            reply = self._ask(method, target, headers, body)
            if reply.status != 200 or b"<IsTruncated>true" in reply.body:
                return reply  # the server's own page; only the last one is cut
            entries = re.findall(rb"<Contents>.*?</Contents>", reply.body, re.DOTALL)
            return self._page(entries)
        return self._ask(method, target, headers, body)

    def _page(self, entries: list[bytes]) -> "_Reply":
        with self._lock:
            size = self.pages[self._sizes % len(self.pages)] if self.pages else len(entries)
            self._sizes += 1
            page, rest = entries[:size], entries[size:]
            token = f"page-{self._sizes}" if rest else ""
            if token:
                self._listings[token] = rest
        end = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
        text = b"".join(page).decode()
        body = (
            f'<?xml version="1.0"?><ListBucketResult xmlns="{XML[1:-1]}"><IsTruncated>{str(bool(token)).lower()}'
            f"</IsTruncated><KeyCount>{len(page)}</KeyCount>{text}{end}</ListBucketResult>"
        ).encode()
        ET.fromstring(body)  # what the server sent is as this proxy expects it
        return _Reply(200, [("Content-Type", "application/xml")], body)

    def _ask(self, method: str, target: str, headers: dict[str, str], body: bytes) -> "_Reply":
        connection = http.client.HTTPConnection(urlsplit(self.upstream).netloc, timeout=60)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in HOP]
            length = answer.getheader("Content-Length") if method == "HEAD" else None
            return _Reply(answer.status, kept, answer.read(), length)
        finally:
            connection.close()

    def __enter__(self) -> "FaultProxy":
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class _Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    length: str | None = None  # of a HEAD


def _unconditional(method: str, target: str, headers: dict[str, str]) -> dict[str, str]:
    """Return the headers without conditions, signed again with this process's credentials."""
    if not any(name.lower() in CONDITIONS for name in headers):
        return headers
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.session import get_session

    kept = {name: value for name, value in headers.items() if name.lower() not in (*CONDITIONS, *SIGNATURE)}
    request = AWSRequest(method, f"http://{headers['Host']}{target}", headers=kept)
    signer = S3SigV4Auth(get_session().get_credentials(), "s3", get_session().get_config_variable("region"))
    hashed = next(value for name, value in headers.items() if name.lower() == "x-amz-content-sha256")
    signer.payload = lambda request: hashed
    signer.add_auth(request)
    return dict(request.headers.items())


class _Server(ThreadingHTTPServer):
    proxy: FaultProxy
    daemon_threads = True
    block_on_close = False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # botocore waits for a 100 Continue
    server: _Server

    def _answer(self) -> None:
        fault = self.server.proxy.fault(self.command, self.path)
        length = int(self.headers.get("Content-Length") or 0)
        if fault is not None and fault.kind == "cut request":
            self.rfile.read(length // 2)
            return self._reset()
        chunked = "chunked" in (self.headers.get("Transfer-Encoding") or "").lower()
        body = self._chunks() if chunked else self.rfile.read(length)
        if fault is not None and fault.kind in ("answer", "error in 200"):
            status = 200 if fault.kind == "error in 200" else fault.status
            text = f'<?xml version="1.0"?><Error><Code>{fault.code}</Code><Message>a fault</Message></Error>'
            return self._send(_Reply(status, [("Content-Type", "application/xml")], text.encode()))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in (*HOP, "expect")}
        if self.server.proxy.ignores_conditions:
            headers = _unconditional(self.command, self.path, headers)
        reply = self.server.proxy.ask(self.command, self.path, headers, body)
        if fault is not None and fault.kind == "lost answer":
            return self._reset()
        return self._send(reply, fault.kind if fault is not None else "")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 (names that http.server looks for)

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, reply: _Reply, fault: str = "") -> None:
        if fault == "short answer":
            reply.body = reply.body[: len(reply.body) // 2]
        if fault == "flipped answer" and reply.body:
            place = random.randrange(len(reply.body))
            reply.body = reply.body[:place] + bytes([reply.body[place] ^ 4]) + reply.body[place + 1 :]
        self.send_response_only(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", reply.length or str(len(reply.body)))
        self.end_headers()
        if self.command == "HEAD":
            return None
        if fault == "cut answer":
            self.wfile.write(reply.body[: len(reply.body) // 2])
            return self._reset()
        if fault == "slow":
            for at in range(0, len(reply.body), SLOW_PIECE):
                self.wfile.write(reply.body[at : at + SLOW_PIECE])
                time.sleep(SLOW_PAUSE_S)
            return None
        self.wfile.write(reply.body)
        return None

    def _reset(self) -> None:
        """Close the connection with an RST, as a machine does that was lost."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def handle(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the client left, or the connection was reset
            super().handle()

    def finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().finish()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def through(proxy: FaultProxy) -> Iterator[None]:
    """This process's S3 requests, and those of processes that it starts, go through `proxy`."""
    names = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, proxy.endpoint))
    forget_settings()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value
        forget_settings()

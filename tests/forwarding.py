"""Servers on the loopback interface that pass connections on: in front of another server, or as a proxy."""

import os
import re
import select
import socket
import socketserver
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from jobs.store.files.s3 import forget_settings

REQUEST = re.compile(rb"(?:^|\r?\n)(GET|HEAD|PUT|POST|DELETE) \S+ HTTP/1\.1\r\n")
HOST = "127.0.0.1"
ENDPOINT = "AWS_ENDPOINT_URL"


class Forwarding:
    """The traffic that a server has forwarded: requests by method (of plain HTTP), bytes of answers, targets.

    Args:
        delay_s: how long it keeps a request.
    """

    def __init__(self, delay_s: float = 0.0) -> None:
        self.port, self.delay_s = 0, delay_s
        self.requests: Counter[str] = Counter()
        self.answered = 0
        self.targets: Counter[tuple[str, int]] = Counter()


@contextmanager
def forwarding(
    target: tuple[str, int], *, tls: ssl.SSLContext | None = None, delay_s: float = 0.0
) -> Iterator[Forwarding]:
    """Pass connections on to `target`; with `tls` they are encrypted up to this server."""
    with _server(lambda _: target, tls=tls, delay_s=delay_s) as seen:
        yield seen


@contextmanager
def counted_s3(*, delay_s: float = 0.0) -> Iterator[Forwarding]:
    """Within the context, what this process asks the S3 server of its environment for goes through a server."""
    before = dict(os.environ)
    name = next(key for key in (f"{ENDPOINT}_S3", ENDPOINT) if key in before)
    parts = urlsplit(before[name])
    with forwarding((str(parts.hostname), int(parts.port or 80)), delay_s=delay_s) as front:
        os.environ[name] = f"http://{HOST}:{front.port}"
        forget_settings()
        try:
            yield front
        finally:
            os.environ.clear()
            os.environ.update(before)
            forget_settings()


@contextmanager
def connect_proxy() -> Iterator[Forwarding]:
    """Start a proxy that only supports CONNECT, as for HTTPS."""
    with _server(_target_of_connect, tls=None) as seen:
        yield seen


def _target_of_connect(client: socket.socket) -> tuple[str, int]:
    head = b""
    while b"\r\n\r\n" not in head and (data := client.recv(4096)):
        head += data
    host, _, port = head.split(b" ", 2)[1].decode().rpartition(":")
    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    return host, int(port)


@contextmanager
def _server(
    target_of: Callable[[socket.socket], tuple[str, int]], *, tls: ssl.SSLContext | None, delay_s: float = 0.0
) -> Iterator[Forwarding]:
    seen = Forwarding(delay_s)

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # either side may close at any time
                client = tls.wrap_socket(self.request, server_side=True) if tls else self.request
                target = target_of(client)
                seen.targets[target] += 1
                with client, socket.create_connection(target) as server:
                    _pass_on(client, server, seen)

    class Threads(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Threads((HOST, 0), Connection) as server:
        seen.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield seen
        finally:
            server.shutdown()


def _pass_on(client: socket.socket, server: socket.socket, seen: Forwarding) -> None:
    while True:
        ready = [client] if isinstance(client, ssl.SSLSocket) and client.pending() else []
        for source in ready or select.select([client, server], [], [])[0]:
            if not (data := source.recv(1 << 16)):
                return
            if source is client:
                requests = REQUEST.findall(data)
                seen.requests.update(match.decode() for match in requests)
                if requests:
                    time.sleep(seen.delay_s)
            else:
                seen.answered += len(data)
            (server if source is client else client).sendall(data)

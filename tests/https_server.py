"""An HTTPS server on loopback with its own certificate authority, which misbehaves by the path and counts."""

import asyncio
import ssl
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import unquote

import trustme

ADDRESS = "127.0.0.1"
NAMES = ("localhost", "upload.wikimedia.org", "thumb.wikimedia.org", "commons.wikimedia.org", "pictures.example.com")


@dataclass
class Seen:
    """One request as the server saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float


@dataclass
class Answer:
    """A reply; `headers` are in addition to Connection and to Content-Length, which is the body's unless set."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    stream: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None  # writes the body instead


Handler = Callable[[Seen], Answer | Awaitable[Answer]]


@dataclass
class HttpsServer:
    """`with HttpsServer(folder, handler) as server:`; `handler` is called in the server's thread."""

    folder: Path
    handler: Handler
    seen: list[Seen] = field(default_factory=list)
    sent: list[tuple[float, int]] = field(default_factory=list)  # when, bytes of bodies
    connections: int = 0
    most_connections: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        authority = trustme.CA()
        self.ca_file = self.folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca_file))
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*NAMES, ADDRESS).configure_cert(self.tls)

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        starting = asyncio.start_server(self._serve, ADDRESS, 0, ssl=self.tls)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        async def stop() -> None:
            self._server.close()
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def url(self, path: str, host: str = "localhost") -> str:
        return f"https://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        """Of the requests, in order, decoded."""
        return [unquote(one.path) for one in self.seen]

    def counted(self) -> Counter[str]:
        return Counter(self.paths())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.most_connections = max(self.most_connections, self.connections)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            self.connections -= 1
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        seen = Seen(method, path, headers, body, time.monotonic())
        self.seen.append(seen)
        answer = self.handler(seen)
        if not isinstance(answer, Answer):
            answer = await answer
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in answer.headers)]
        if answer.stream is None and not any(name.lower() == "content-length" for name, _ in answer.headers):
            lines.append(f"Content-Length: {len(answer.body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        if answer.stream is not None:
            await answer.stream(writer)
            return False
        if method != "HEAD":
            for first in range(0, len(answer.body), 16384):
                writer.write(answer.body[first : first + 16384])
                await writer.drain()
                self.sent.append((time.monotonic(), len(answer.body[first : first + 16384])))
        await writer.drain()
        # Only a body of another length ends the connection: the client would use it again for its next request.
        return method == "HEAD" or not any(name.lower() == "content-length" for name, _ in answer.headers)

"""A small HTTPS server that costs next to nothing: `python -m tests.benchmarks.picture_server FOLDER`, tells its port.

FOLDER holds server.pem and the pictures; `/<n>.jpg` is the n-th of them, counted round. It ends with its input.
"""

import asyncio
import ssl
import sys
from pathlib import Path


class Pictures(asyncio.Protocol):
    """Answers each request with a whole answer made before; requests have no bodies."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers, self._left = answers, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self._left = (self._left + data).split(b"\r\n\r\n")
        for request in requests:
            number = int(request.split(b" ", 2)[1].strip(b"/").split(b".")[0])
            self._transport.write(self._answers[number % len(self._answers)])


async def serve(folder: Path) -> None:
    """Serve until standard input ends."""
    pictures = [path.read_bytes() for path in sorted(folder.glob("*.jpg"))]
    answers = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data) for data in pictures]
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "server.pem")
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Pictures(answers), "127.0.0.1", 0, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))

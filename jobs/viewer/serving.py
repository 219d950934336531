"""A server of the viewer on the loopback interface."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from jobs.errors import InputError

ADDRESS = "127.0.0.1"


@contextlib.contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens on the loopback interface.

    Args:
        port: 0 for any free one.

    Raises:
        InputError: the port is not allowed or in use.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, port))
            listener.listen()  # already now, so that a browser faster than the server waits instead of failing
        except (OSError, OverflowError) as error:
            raise InputError(f"port={port}: cannot listen there ({error}); use another one, or 0 for any") from error
        yield listener


def server(application: Any) -> Any:
    """Return a uvicorn server, which logs no addresses: they contain the token."""
    import uvicorn

    config = uvicorn.Config(
        application,
        access_log=False,
        log_level="warning",
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)

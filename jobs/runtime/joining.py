"""What can be said of a Ray cluster's address before it is joined, and of why it could not be joined."""

import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from jobs.errors import InputError

CONNECT_S = 10.0
TOKEN_FILE = "~/.ray/auth_token"
# In the order in which Ray looks for a token.
TOKEN_SOURCES = f"RAY_AUTH_TOKEN, the file that RAY_AUTH_TOKEN_PATH names, or {TOKEN_FILE}"


def named(address: str, configured: str | None) -> str:
    """The address with where it comes from: the key `ray.address` or the environment variable."""
    return f"ray.address={address}" if configured else f"RAY_ADDRESS={address}"


def endpoint(address: str) -> tuple[str, int] | None:
    """Host and port of `HOST:PORT` or `ray://HOST:PORT`; None for what names neither (auto)."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (host, port) if host and port else None


def check_reachable(address: str, *, name: str) -> None:
    """Refuse an address at which nothing listens; Ray itself tries for minutes.

    Args:
        name: of the address in the message.

    Raises:
        InputError: no connection within `CONNECT_S` seconds.
    """
    if (place := endpoint(address)) is None:
        return
    try:
        socket.create_connection(place, timeout=CONNECT_S).close()
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise InputError(f"{name}: no Ray cluster at this address ({reason})") from error


def refusal(error: BaseException, *, name: str, environment: Mapping[str, str]) -> str:
    """Why `ray.init` could not join the cluster at `name`, with what to do about it.

    Args:
        error: what it raised; its causes are read as well.
        environment: of this process, which decides whether Ray sends a token.
    """
    said = [str(each).strip() or type(each).__name__ for each in _chain(error)]
    kinds = [type(each).__name__ for each in _chain(error)]
    # Ray raises ConnectionError for a refused token, and has the reason in a cause's text.
    if "AuthenticationError" not in kinds and not any("AuthenticationError" in text for text in said):
        return f"{name}: the Ray cluster could not be joined ({said[0].splitlines()[0]})"
    if environment.get("RAY_AUTH_MODE", "").lower() != "token":
        return (
            f"{name}: the Ray cluster requires an authentication token; set RAY_AUTH_MODE=token "
            f"(the token is read from {TOKEN_SOURCES})"
        )
    if source := _token_source(environment):
        return f"{name}: the Ray cluster did not accept the token of {source}; use the token that its head has"
    return f"{name}: RAY_AUTH_MODE=token is set and there is no token; Ray reads it from {TOKEN_SOURCES}"


def _token_source(environment: Mapping[str, str]) -> str | None:
    if environment.get("RAY_AUTH_TOKEN"):
        return "RAY_AUTH_TOKEN"
    if path := environment.get("RAY_AUTH_TOKEN_PATH"):
        return f"RAY_AUTH_TOKEN_PATH={path}"
    home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises without one
    return TOKEN_FILE if (Path(home) / ".ray" / "auth_token").is_file() else None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

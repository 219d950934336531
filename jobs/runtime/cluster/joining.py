"""Checks of a Ray cluster's address before joining the cluster, and the reason if joining fails."""

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


def address_setting(address: str, configured: str | None) -> str:
    """Return the setting that the address comes from, for messages: `ray.address=…` or `RAY_ADDRESS=…`."""
    return f"ray.address={address}" if configured else f"RAY_ADDRESS={address}"


def endpoint(address: str) -> tuple[str, int] | None:
    """Return host and port of `HOST:PORT` or `ray://HOST:PORT`; None for any other address (auto)."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (host, port) if host and port else None


def check_reachable(address: str, *, name: str) -> None:
    """Check that something listens at the address; Ray itself would try for minutes.

    Args:
        name: how the message names the address (`address_setting`).

    Raises:
        InputError: no connection within `CONNECT_S` seconds.
    """
    if (host_and_port := endpoint(address)) is None:
        return
    try:
        socket.create_connection(host_and_port, timeout=CONNECT_S).close()
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise InputError(
            f"{name}: no Ray cluster at this address ({reason}); correct it, or unset it to start Ray on this machine"
        ) from error


def refusal(error: BaseException, *, name: str, environment: Mapping[str, str]) -> str:
    """Return a message with the reason why `ray.init` could not join the cluster at `name`, and what to do.

    Args:
        error: the error of `ray.init`; its causes are read too.
        environment: this process's variables, which decide whether Ray sends a token.
    """
    texts = [str(cause).strip() or type(cause).__name__ for cause in _chain(error)]
    kinds = [type(cause).__name__ for cause in _chain(error)]
    # For a refused token, Ray raises ConnectionError and gives the reason in the text of a cause.
    if "AuthenticationError" not in kinds and not any("AuthenticationError" in text for text in texts):
        return f"{name}: the Ray cluster could not be joined ({texts[0].splitlines()[0]})"
    if environment.get("RAY_AUTH_MODE", "").lower() != "token":
        return (
            f"{name}: the Ray cluster requires an authentication token; set RAY_AUTH_MODE=token "
            f"(the token is read from {TOKEN_SOURCES})"
        )
    if source := _token_source(environment):
        return f"{name}: the Ray cluster rejected the token of {source}; use the token of its head node"
    return f"{name}: RAY_AUTH_MODE=token is set, and there is no token; Ray reads it from {TOKEN_SOURCES}"


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

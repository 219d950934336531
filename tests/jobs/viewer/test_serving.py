"""Where the viewer listens, what its server logs, and what `view` prints."""

import socket
from pathlib import Path
from typing import Any

import pytest

from jobs import view
from jobs.errors import InputError
from jobs.viewer import serving
from jobs.viewer.serving import listening, server
from tests.jobs.viewer.small_study import URLS, write_study


def test_only_this_machine_can_reach_a_free_port() -> None:
    with listening(0) as listener:
        address, port = listener.getsockname()
        assert (address, port > 0) == ("127.0.0.1", True)
        with socket.create_connection((address, port), timeout=5):  # before a server runs
            pass
        with pytest.raises(InputError, match=rf"^port={port}: cannot listen there \(.*\); use another one, or 0"):
            listening(port).__enter__()
    assert listener.fileno() == -1
    with pytest.raises(InputError, match=r"^port=70000: cannot listen there"):
        listening(70_000).__enter__()


def test_addresses_with_the_token_are_not_logged() -> None:
    config = server(None).config
    assert (config.access_log, config.server_header, config.log_level) == (False, False, "warning")


def test_the_address_is_printed_before_it_is_served_and_everything_is_closed_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[tuple[Any, str]] = []

    class Server:
        def __init__(self, application: Any) -> None:
            assert application

        def run(self, sockets: list[socket.socket]) -> None:
            (listener,) = sockets
            served.append((listener.getsockname()[1], capsys.readouterr().out))

    monkeypatch.setattr(serving, "server", Server)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "gone.txt").write_text(f"{URLS[0]}\n")
    view.execute(view.ViewConfig([write_study(tmp_path)], exclusions=str(tmp_path / "gone.txt")))
    ((port, printed),) = served
    *_, excluded, address, hint = printed.splitlines()
    assert "1 of 1 entries match" in excluded
    assert address.startswith(f"view: http://127.0.0.1:{port}/")
    assert len(address.rstrip("/").rpartition("/")[2]) >= 43  # 32 random bytes
    assert hint == "  Ctrl-C ends it"
    assert list((tmp_path / "tmp").iterdir()) == []

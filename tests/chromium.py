"""Chromium driven over a pipe by the DevTools protocol: pages of a server are opened, clicked and measured.

`tests.browser` suffices for a page in a file; this is for pages with forms, and for scripts that the page's policy
would refuse.
"""

import base64
import fcntl
import itertools
import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser import CHROMIUM, FLAGS

_TO_BROWSER, _FROM_BROWSER = 3, 4  # file descriptors of --remote-debugging-pipe
PATIENCE_S = 120
_ABOVE = 20  # the pipes get other numbers first


class Chromium:
    """One page of a browser."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._held = b""
        self._events: list[str] = []
        self._ids = itertools.count(1)
        self._session: dict[str, str] = {}
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        self._send("Page.enable")

    def open(self, url: str) -> None:
        """Go to an address, and wait until it has loaded."""
        self._send("Page.navigate", url=url)
        self._wait("Page.loadEventFired")

    def follow(self, script: str) -> None:
        """Run a script that leads to another page, and wait until that has loaded."""
        self._send("Runtime.evaluate", expression=script)
        self._wait("Page.loadEventFired")

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression, or what its promise resolves to; the page's policy does not apply."""
        reply = self._send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def show(self, width: int, height: int, *, dark: bool = False, printed: bool = False) -> None:
        """Set the size of the window in CSS pixels, the colours that the reader prefers, and whether it is a print."""
        self._send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", media="print" if printed else "", features=[scheme])

    def shoot(self, file: Path) -> None:
        """Write a picture of the window as PNG."""
        file.write_bytes(base64.b64decode(self._send("Page.captureScreenshot")["data"]))

    def pages(self) -> int:
        """Return the number of A4 pages that a print has."""
        size = {"paperWidth": 8.27, "paperHeight": 11.69}  # inches
        return base64.b64decode(self._send("Page.printToPDF", **size)["data"]).count(b"/Type /Page\n")

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._events.clear()
        message = {"id": number, "method": method, "params": parameters, **self._session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (reply := self._receive()).get("id") != number:
            self._events.append(reply.get("method", ""))
        assert "error" not in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    def _wait(self, event: str) -> None:
        """Wait for an event that the last command causes, and that may have come before its reply."""
        while event not in self._events:
            self._events.append(self._receive().get("method", ""))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            ready, _, _ = select.select([self._read], [], [], PATIENCE_S)
            assert ready, "the browser does not answer"
            received = os.read(self._read, 1 << 16)
            assert received, "the browser ended"
            self._held += received
        message, _, self._held = self._held.partition(b"\0")
        reply: dict[str, Any] = json.loads(message)
        return reply


@contextmanager
def chromium(profile: Path) -> Iterator[Chromium]:
    """Start Chromium with an empty profile in the folder `profile`, and end it afterwards."""
    assert CHROMIUM is not None
    (from_us, to_browser), (from_browser, to_us) = os.pipe(), os.pipe()

    reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD, _ABOVE) for end in (from_us, to_us))
    place_pipes = f'exec "$0" "$@" {_TO_BROWSER}<&{reading} {_FROM_BROWSER}>&{writing}'
    options = ["--remote-debugging-pipe", f"--user-data-dir={profile}"]
    browser = subprocess.Popen(
        ["bash", "-c", place_pipes, CHROMIUM, *FLAGS, *options],
        pass_fds=(reading, writing),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    for end in (reading, writing):
        os.close(end)
    os.close(from_us)
    os.close(to_us)
    try:
        yield Chromium(to_browser, from_browser)
    finally:
        os.close(to_browser)  # Chromium ends with its pipe
        browser.terminate()
        browser.wait(timeout=30)
        os.close(from_browser)

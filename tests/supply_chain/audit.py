"""Known vulnerabilities of pinned packages, found by pip-audit in an OSV service."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


class AuditError(RuntimeError):
    """The service did not answer, or pip-audit failed for another reason."""


@dataclass(frozen=True)
class Vulnerability:
    """A known vulnerability of a pin; `ids` begins with the advisory's own, its aliases follow."""

    package: str
    version: str
    ids: tuple[str, ...]
    fixed_in: tuple[str, ...]

    def __str__(self) -> str:
        remedy = f"fixed in {', '.join(self.fixed_in)}" if self.fixed_in else "no version is known to be fixed"
        return f"{self.package} {self.version}: {', '.join(self.ids)}: {remedy}"


def packages_of(pins: Path) -> set[str]:
    """Return the normalised names of the packages of a file with one `name==version` per line."""
    lines = (line.strip() for line in pins.read_text(encoding="utf-8").splitlines())
    return {canonicalize_name(Requirement(line).name) for line in lines if line and not line.startswith("#")}


def audit(pins: Path, url: str, ignored: list[str], *, timeout_s: int = 15) -> list[Vulnerability]:
    """Ask the OSV service at `url` about each pin of a file with one `name==version` per line.

    Args:
        ignored: ids of advisories to leave out.

    Raises:
        AuditError: not every pin could be asked about.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip_audit", "-r", str(pins), "--no-deps", "--disable-pip", "--strict"]
        command += ["--vulnerability-service", "osv", "--osv-url", url, "--timeout", str(timeout_s)]
        command += ["--format", "json", "--output", str(report), "--desc", "off", "--progress-spinner", "off"]
        command += [word for one in ignored for word in ("--ignore-vuln", one)]
        loopback = {"NO_PROXY": ",".join(filter(None, ["127.0.0.1", os.environ.get("NO_PROXY")]))}
        ended = subprocess.run(command, env={**os.environ, **loopback}, capture_output=True, text=True, check=False)
        if not report.exists():  # it ends with 1 for vulnerabilities too
            raise AuditError((ended.stderr.splitlines() or [f"exit code {ended.returncode}"])[-1])
        dependencies = json.loads(report.read_text(encoding="utf-8"))["dependencies"]
    return [
        Vulnerability(one["name"], one["version"], (entry["id"], *entry["aliases"]), tuple(entry["fix_versions"]))
        for one in dependencies
        for entry in one["vulns"]
    ]

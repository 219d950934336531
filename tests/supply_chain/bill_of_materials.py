"""The software bill of materials: the installed packages that remine depends on, in CycloneDX JSON."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Collection
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

DEVELOPMENT = {"bench", "docs", "test"}  # extras for work on remine itself


class BillError(RuntimeError):
    """The bill could not be made, or is not valid."""


def extras_in_use(pyproject: Path) -> list[str]:
    """Return the extras of a project except those for development."""
    extras = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return sorted(extras.keys() - DEVELOPMENT)


def dependencies(package: str, extras: Collection[str], python: str) -> set[NormalizedName]:
    """Return the normalised names of `package` and of its dependencies with `extras` in the environment of `python`."""
    path = subprocess.run(
        [python, "-c", "import json, sys; print(json.dumps(sys.path))"], stdout=subprocess.PIPE, check=True
    ).stdout
    installed = {canonicalize_name(dist.name): dist for dist in metadata.distributions(path=json.loads(path))}
    todo = [(canonicalize_name(package), extra) for extra in ("", *extras)]
    seen = set(todo)
    for name, extra in todo:  # which grows
        for line in (installed[name].requires or ()) if name in installed else ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                wanted = {(canonicalize_name(requirement.name), one) for one in ("", *requirement.extras)} - seen
                todo += sorted(wanted)
                seen |= wanted
    return {name for name, _ in seen} & installed.keys()


def make_bill(pyproject: Path, python: str) -> dict[str, Any]:
    """Return the bill of the project's dependencies in the environment of the interpreter `python`.

    cyclonedx-py describes all packages of the environment; those that remine does not need are left out.

    Raises:
        BillError: cyclonedx-py failed.
    """
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", str(pyproject), "--no-validate"]
    command += ["--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON", "-o", "-", python]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise BillError(f"cyclonedx-py failed ({(ended.stderr.splitlines() or ['no message'])[-1]})")
    bill: dict[str, Any] = json.loads(ended.stdout)
    root = bill["metadata"]["component"]
    needed = dependencies(root["name"], extras_in_use(pyproject), python)
    bill["components"] = [one for one in bill["components"] if canonicalize_name(one["name"]) in needed]
    kept = {one["bom-ref"] for one in (root, *bill["components"])}
    links = ((link["ref"], [ref for ref in link.get("dependsOn", []) if ref in kept]) for link in bill["dependencies"])
    bill["dependencies"] = [{"ref": ref} | ({"dependsOn": on} if on else {}) for ref, on in links if ref in kept]
    return bill


def write_bill(bill: dict[str, Any], out: Path) -> None:
    """Check a bill against CycloneDX's schema and write it.

    Raises:
        BillError: it does not fit.
    """
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = json.dumps(bill, indent=2) + "\n"
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise BillError(f"it does not fit the schema of CycloneDX 1.6: {str(error).splitlines()[0]}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")

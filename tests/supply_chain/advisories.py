"""Advisories of OSV's export for PyPI (https://ossf.github.io/osv-schema), and the versions that they affect."""

import json
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

Advisory = Mapping[str, Any]


class ExportError(ValueError):
    """The export cannot be used."""


@dataclass
class Advisories:
    """The advisories of an export about some packages.

    Attributes:
        by_package: normalised name -> its advisories.
        total: advisories in the export, about any package.
        newest: the day on which the latest of them was modified.
    """

    by_package: dict[str, list[Advisory]] = field(default_factory=dict)
    total: int = 0
    newest: str = ""

    def of(self, name: str, version: str) -> list[Advisory]:
        """Return the advisories that affect a version of a package, withdrawn ones included."""
        package = canonicalize_name(name)
        return [one for one in self.by_package.get(package, []) if _is_affected(one, package, version)]


def read_export(place: Path, packages: Collection[str]) -> Advisories:
    """Read the advisories about `packages` (normalised names) from a zip or a folder of JSON files.

    Raises:
        ExportError: the export is missing or damaged, or has no advisory about a package of PyPI.
    """
    advisories = Advisories()
    for name, content in _files(place):
        try:
            advisory = json.loads(content)
            about = {canonicalize_name(entry["package"]["name"]) for entry in _of_pypi(advisory)}
            advisories.newest = max(advisories.newest, advisory["modified"][:10])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ExportError(
                f"{name} is not an advisory in the OSV schema ({type(error).__name__}: {error})"
            ) from None
        advisories.total += bool(about)
        for package in about.intersection(packages):
            advisories.by_package.setdefault(package, []).append(advisory)
    if not advisories.total:
        raise ExportError("no advisory about a package of PyPI is in it")
    return advisories


def _files(place: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the JSON files of an export."""
    try:
        if place.is_dir():
            for path in sorted(place.rglob("*.json")):
                yield str(path.relative_to(place)), path.read_bytes()
        else:
            with zipfile.ZipFile(place) as archive:
                for name in archive.namelist():
                    if name.endswith(".json"):
                        yield name, archive.read(name)
    except (OSError, zipfile.BadZipFile, RuntimeError) as error:  # RuntimeError: it has a password
        raise ExportError(f"it cannot be read as a zip or a folder ({error})") from None


def _of_pypi(advisory: Advisory) -> list[Mapping[str, Any]]:
    """Return its entries about packages of PyPI; advisories about repositories have entries without a package."""
    entries = advisory.get("affected", [])
    return [entry for entry in entries if entry.get("package", {}).get("ecosystem", "").partition(":")[0] == "PyPI"]


def _is_affected(advisory: Advisory, package: str, version: str) -> bool:
    """Return whether the version is listed or in a range, as the schema's section "Evaluation" has it."""
    entries = [entry for entry in _of_pypi(advisory) if canonicalize_name(entry["package"]["name"]) == package]
    return any(_is_listed(version, entry) or _is_in_a_range(version, entry) for entry in entries)


def _is_listed(version: str, entry: Mapping[str, Any]) -> bool:
    return any(_same(version, listed) for listed in entry.get("versions", []))


def _same(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def _is_in_a_range(version: str, entry: Mapping[str, Any]) -> bool:
    ranges = [one["events"] for one in entry.get("ranges", []) if one["type"] == "ECOSYSTEM"]
    try:
        return any(_contains(events, Version(version)) for events in ranges)
    except (
        InvalidVersion
    ):  # of a range with versions from before PEP 440: the list decides, or caution where there is none
        return not entry.get("versions")


def _contains(events: list[dict[str, str]], version: Version) -> bool:
    """Return whether the last event up to the version begins a range; nothing from the lowest `limit` on does."""
    steps = sorted((_position(where), kind) for event in events for kind, where in event.items())
    limits = [where for where, kind in steps if kind == "limit"]
    affected = False
    for where, kind in steps:
        match kind:
            case "introduced" if version >= where:
                affected = True
            case "fixed" if version >= where:
                affected = False
            case "last_affected" if version > where:
                affected = False
    return affected and (not limits or version < max(limits))


def _position(where: str) -> Version:
    return Version("0.dev0" if where == "0" else where)  # "0" is before every version, pre-releases included

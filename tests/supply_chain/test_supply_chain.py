"""The bill of a made environment, and pip-audit's answers about a made set of advisories."""

import json
import socket
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.supply_chain import __main__ as command
from tests.supply_chain.advisories import ExportError, read_export
from tests.supply_chain.audit import packages_of
from tests.supply_chain.bill_of_materials import BillError, make_bill, write_bill

for tool in command.TOOLS:
    pytest.importorskip(tool, reason=f"{tool} is not installed here; make check runs these tests")

FIXED_IN_2 = [{"introduced": "0"}, {"fixed": "2.0"}]
TWICE = [{"introduced": "3.0"}, {"fixed": "3.1"}, {"introduced": "0"}, {"fixed": "1.1"}]
PINS = {
    "vulnerable": "1.9.1",
    "fixed": "2.0",
    "withdrawn": "1.0",
    "listed": "1.0",
    "odd_Name": "1.0",
    "namesake": "1.0",
    "ignored": "1.0",
}


def advisory(name: str, package: str, **more: Any) -> dict[str, Any]:
    affected = {"package": {"name": package, "ecosystem": more.pop("ecosystem", "PyPI")}, **more.pop("affected", {})}
    dates = {"modified": "2026-11-20T00:00:00Z", "published": "2026-11-19T00:00:00Z"}
    return {"schema_version": "1.7.0", "id": name, **dates, "affected": [affected], **more}


def within(events: list[dict[str, str]]) -> dict[str, Any]:
    return {"ranges": [{"type": "ECOSYSTEM", "events": events}]}


ADVISORIES = [
    advisory("PYSEC-1", "vulnerable", affected=within(FIXED_IN_2), aliases=["CVE-2026-1"]),
    advisory("PYSEC-2", "fixed", affected=within(FIXED_IN_2)),
    advisory("PYSEC-3", "withdrawn", affected=within(FIXED_IN_2), withdrawn="2026-11-20T00:00:00Z"),
    advisory("PYSEC-4", "listed", affected={"versions": ["0.9", "1.0.0"]}),
    advisory("PYSEC-5", "odd-name", affected=within([{"introduced": "0"}])),
    advisory("MAL-9", "namesake", affected=within(FIXED_IN_2), ecosystem="npm"),
    advisory("PYSEC-6", "ignored", affected=within(FIXED_IN_2), aliases=["CVE-2026-9"]),
    advisory("PYSEC-7", "somebody-elses", affected=within(FIXED_IN_2)),
    {"id": "OSV-8", "modified": "2026-11-18T00:00:00Z", "affected": [{"ranges": [{"type": "GIT", "events": []}]}]},
]
FOUND = [
    "listed 1.0: PYSEC-4: no version is known to be fixed",
    "odd-name 1.0: PYSEC-5: no version is known to be fixed",
    "vulnerable 1.9.1: PYSEC-1, CVE-2026-1: fixed in 2.0",
]


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A folder of advisories."""
    folder = tmp_path / "advisories"
    folder.mkdir()
    for one in ADVISORIES:
        (folder / f"{one['id']}.json").write_text(json.dumps(one))
    return folder


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    """The command on `PINS`."""
    pins = tmp_path / "pins.txt"
    pins.write_text("# of this test\n" + "".join(f"{name}=={version}\n" for name, version in PINS.items()))
    return [f"--pins={pins}", f"--bill={tmp_path}/out/bill.json"]


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of an environment of six packages; its interpreter does what the tools ask of it: it prints its path."""
    environment = tmp_path_factory.mktemp("environment")
    requires = {
        "remine": ["one>=1", "mined; extra == 'mining'", "remine[mining]; extra == 'all'", "pytest; extra == 'test'"],
        "one": ["Two.Words[x]; python_version >= '3'", "never; python_version < '3'"],
        "two-words": ["absent", "one"],
        "mined": [],
        "pytest": ["never"],
        "never": [],
    }
    for name, lines in requires.items():
        folder = environment / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        fields = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", "License-Expression: MIT"]
        (folder / "METADATA").write_text("\n".join([*fields, *(f"Requires-Dist: {line}" for line in lines)]) + "\n")
    python = environment / "python"
    python.write_text(f"#!{sys.executable}\nprint({json.dumps([str(environment)])!r})\n")
    python.chmod(0o755)
    return make_bill(command.ROOT / "pyproject.toml", str(python))


@pytest.fixture
def small_bill(bill: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command makes the bill of the small environment."""
    monkeypatch.setattr(command, "make_bill", lambda *_: bill)


@pytest.fixture
def unwritten(small_bill: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bill is not written, which takes seconds because of the schema."""
    monkeypatch.setattr(command, "write_bill", lambda *_: None)


def test_a_bill_has_what_remine_needs_and_no_tools(bill: dict[str, Any], tmp_path: Path) -> None:
    write_bill(bill, tmp_path / "bill.json")
    written = json.loads((tmp_path / "bill.json").read_text())
    packages = {one["name"]: one for one in written["components"]}
    assert packages.keys() == {"one", "two-words", "mined"}
    assert packages["one"]["purl"] == "pkg:pypi/one@1.0"
    assert packages["one"]["licenses"][0]["license"]["id"] == "MIT"
    links = {link["ref"]: link.get("dependsOn", []) for link in written["dependencies"]}
    root = written["metadata"]["component"]
    assert links == {
        root["bom-ref"]: [],
        "one==1.0": ["two-words==1.0"],
        "two-words==1.0": ["one==1.0"],
        "mined==1.0": [],
    }
    assert root["name"] == "remine"
    wrong = {**bill, "components": [packages["one"] | {"type": "book"}]}
    with pytest.raises(BillError, match="book"):
        write_bill(wrong, tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


@pytest.mark.usefixtures("unwritten")
def test_vulnerable_pins_are_reported(export: Path, keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """By name and id; not fixed versions, withdrawn or ignored advisories, and those of other ecosystems."""
    assert command.main([*keys, f"--advisories={export}", "--ignore", "CVE-2026-9"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[2:-1]) == FOUND
    assert "7 about packages of PyPI, the newest of 2026-11-20" in lines[1]


@pytest.mark.usefixtures("small_bill")
def test_without_a_service_the_bill_is_written_and_one_line_says_what_to_do(
    keys: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        code = command.main([*keys, f"--osv-url=http://127.0.0.1:{closed.getsockname()[1]}/v1/query"])
    errors = capsys.readouterr().err
    assert code == 2
    assert errors.startswith("error: pins.txt is not audited: http://127.0.0.1:")
    assert "ADVISORIES=" in errors
    assert len(errors.splitlines()) == 1
    assert (tmp_path / "out" / "bill.json").exists()


@pytest.mark.usefixtures("unwritten")
def test_an_export_that_cannot_be_used_is_refused(
    export: Path, keys: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.zip").write_bytes(b"PK\3\4")
    (export / "PYSEC-9.json").write_text('{"id": "PYSEC-9", "affec')
    for place in ("absent.zip", "cut.zip", "empty", "advisories"):
        assert command.main([*keys, f"--advisories={tmp_path / place}"]) == 2
        assert capsys.readouterr().err.startswith(f"error: ADVISORIES={tmp_path / place}: ")
    with pytest.raises(ExportError, match=r"^PYSEC-9\.json "):
        read_export(export, set())


def test_a_zip_is_read_like_a_folder(export: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(export.iterdir()):
            archive.write(path, path.name)
    assert read_export(tmp_path / "all.zip", PINS.keys()) == read_export(export, PINS.keys())


@pytest.mark.parametrize(
    ("events", "affected"),
    [
        (FIXED_IN_2, "0.dev1 1.0 1.1 1.9 2.0rc1"),
        (TWICE, "0.dev1 1.0 3.0"),
        ([{"introduced": "1.0"}, {"last_affected": "1.9"}], "1.0 1.1 1.9"),
        ([{"introduced": "1.0"}, {"limit": "2.0"}], "1.0 1.1 1.9 2.0rc1"),
        ([{"introduced": "0"}, {"fixed": "2004d"}], "0.dev1 1.0 1.1 1.9 2.0 2.0rc1 3.0 3.1"),  # no version of PEP 440
    ],
)
def test_ranges(export: Path, events: list[dict[str, str]], affected: str) -> None:
    (export / "PYSEC-9.json").write_text(json.dumps(advisory("PYSEC-9", "ranged", affected=within(events))))
    versions = "0.dev1 1.0 1.1 1.9 2.0 2.0rc1 3.0 3.1".split()
    advisories = read_export(export, {"ranged"})
    assert [version for version in versions if advisories.of("ranged", version)] == affected.split()


def test_the_pins_are_those_that_are_installed() -> None:
    assert {"torch", "ray"} <= packages_of(command.ROOT / "constraints.txt")

"""The command: `python -m tests.supply_chain [--python PATH] [--advisories FILE_OR_FOLDER] [--ignore ID …]`.

`make check` runs it with the tools' own environment and describes that of remine.

Writes the software bill of materials, then audits the pinned versions. The exit code is 0, 1 if there are known
vulnerabilities, or 2 if the audit failed.
"""

import argparse
import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.supply_chain.advisories import ExportError, read_export
from tests.supply_chain.audit import AuditError, audit, packages_of
from tests.supply_chain.bill_of_materials import BillError, make_bill, write_bill
from tests.supply_chain.osv_server import serving

ROOT = Path(__file__).parents[2]
PUBLIC = "https://api.osv.dev/v1/query"
EXPORT = "https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip"
TOOLS = ("pip_audit", "cyclonedx_py")


@contextlib.contextmanager
def service(advisories: Path | None, url: str, pins: Path) -> Iterator[str]:
    """Yield the URL to query: `url`, or that of a loopback server of the export `advisories`."""
    if advisories is None:
        yield url
        return
    export = read_export(advisories, packages_of(pins))
    print(
        f"advisories={advisories}: {export.total:,} about packages of PyPI, the newest of {export.newest}", flush=True
    )
    with serving(export) as query:
        yield query


def main(argv: Sequence[str] | None = None) -> int:
    """Write the bill, print the vulnerabilities, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.supply_chain", description=__doc__)
    parser.add_argument("--advisories", type=Path, help=f"an export of OSV, a zip or a folder ({EXPORT})")
    parser.add_argument("--osv-url", default=PUBLIC, help="the service to ask without --advisories")
    parser.add_argument("--ignore", nargs="+", default=[], metavar="ID", help="advisories to leave out")
    parser.add_argument("--pins", type=Path, default=ROOT / "constraints.txt", help="a file of name==version lines")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the environment to describe")
    parser.add_argument("--bill", type=Path, default=ROOT / "build" / "remine.cdx.json", help="where the bill goes")
    options = parser.parse_args(argv)
    if missing := [tool for tool in TOOLS if importlib.util.find_spec(tool) is None]:
        return failed(f"{', '.join(missing)}: not installed; use make check, which installs them")
    try:
        bill = make_bill(ROOT / "pyproject.toml", options.python)
        write_bill(bill, options.bill)
    except BillError as error:
        return failed(f"{options.bill}: {error}")
    print(f"{options.bill}: {len(bill['components'])} packages, CycloneDX 1.6", flush=True)
    try:
        with service(options.advisories, options.osv_url, options.pins) as url:
            vulnerabilities = audit(options.pins, url, options.ignore)
    except ExportError as error:
        return failed(f"ADVISORIES={options.advisories}: {error}; give the export of OSV for PyPI, {EXPORT}")
    except AuditError as error:
        remedy = f"where the service cannot be reached, give ADVISORIES=FILE, the file of {EXPORT}"
        return failed(f"{options.pins.name} is not audited: {url} gave no answer ({error}); {remedy}")
    for one in vulnerabilities:
        print(one)
    print(f"{options.pins.name}: {len(packages_of(options.pins))} pins, known vulnerabilities: {len(vulnerabilities)}")
    return 1 if vulnerabilities else 0


def failed(sentence: str) -> int:
    """Print the error and return the exit code."""
    print(f"error: {sentence}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())

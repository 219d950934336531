"""Check a table: units, footers, counts, schema, rejects, and that all keys are unique.

    python -m jobs.verify input=R/records

Reads footers, keys and statuses and writes nothing; exits 1 and lists the faults if there are any. The job finds
duplicate keys by 64-bit hashes, in bounded memory, and then compares the keys themselves.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omegaconf import MISSING

from jobs.errors import InputError, RunError
from jobs.judging.kept_rubric import FILE, HASH, read_kept
from jobs.runtime import cli, summary
from jobs.runtime.console import say
from jobs.store import locations, table_faults
from jobs.store.reading import TableSource, open_table

FAULTS_SHOWN = 20


@dataclass
class VerifyConfig:
    """Keys of `verify`."""

    input: str = MISSING  # a table: a folder or s3://bucket/prefix


def execute(cfg: VerifyConfig) -> dict[str, int]:
    """Run the job; see the module's docstring. Returns the number of units and rows.

    Raises:
        RunError: the table has a fault.
    """
    uri = locations.absolute(cfg.input)
    _refuse(uri, list(table_faults.damage(uri)))
    source = open_table(uri)
    checks = (table_faults.footer_faults, table_faults.run_faults, rubric_faults, table_faults.row_faults)
    _refuse(uri, [fault for check in checks for fault in check(source)])
    say(f"verify: {source.uri}: table {source.name}, {len(source.footers):,} units, {source.rows:,} rows, no faults")
    say(summary.reconciliation(source.counts().to_json()))
    return {"units": len(source.footers), "rows": source.rows}


def _refuse(uri: str, faults: Sequence[str]) -> None:
    """Print the first faults and raise RunError, if there are any."""
    for fault in faults[:FAULTS_SHOWN]:
        say(f"  fault: {fault}", err=True)
    if len(faults) > FAULTS_SHOWN:
        say(f"  … and {len(faults) - FAULTS_SHOWN:,} more", err=True)
    if faults:
        raise RunError(f"{uri}: {len(faults):,} fault{'s' * (len(faults) > 1)}")


def rubric_faults(source: TableSource) -> Iterator[str]:
    """Yield a fault if the footers name a rubric and `_run/` lacks it or has it with other content."""
    try:
        kept = read_kept(source)
    except InputError as error:
        yield str(error)
        return
    if kept is None and f"remine.{HASH}" in source.metadata:
        yield f"{source.uri}: no _run/{FILE}, though its footers name the rubric"


JOB = cli.Job("verify", VerifyConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("verify"))

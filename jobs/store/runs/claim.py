"""The claim of a place by a run: its identity is written once, and a place with another identity is refused."""

import json
import logging
from collections.abc import Iterable
from typing import Any

from jobs.errors import InputError
from jobs.store import run_files
from jobs.store.files import locations, s3
from jobs.store.files.objects import Object
from jobs.store.footers import data_objects, read_footers
from jobs.store.identity import EXCLUSIONS, TABLE, identity_hash
from jobs.store.run_files import CONFIG, IDENTITY, run_uri
from jobs.store.runs import lease
from jobs.store.runs.identity_changes import describe, differing_keys
from jobs.store.table_plan import TablePlan

_warned: set[str] = set()  # buckets about which a warning was logged
log = logging.getLogger(__name__)


def claim(out: str, plan: TablePlan, listed: Iterable[Object]) -> None:
    """Write `identity.json` if it is not in `listed`, and refuse a place that another run claimed."""
    uri = run_uri(out, IDENTITY)
    with locations.named_errors(out):
        if not any(file.uri == uri for file in listed):
            if any(listed):
                _check_footers(out, plan)
            locations.create(uri, run_files.to_json({TABLE: plan.table, **plan.identity}))
            if not locations.creates_once(out):
                lease.settle()
                _check_footers(out, plan)  # in case the new file replaced the identity of a run
    # Read it back even if it was created: some stores ignore the condition, and then the last of several drivers wins.
    check_identity(out, plan)


def check_identity(out: str, plan: TablePlan) -> None:
    """Refuse a table that was written with another configuration."""
    planned = json.loads(run_files.to_json({TABLE: plan.table, **plan.identity}))
    with locations.named_errors(out):
        try:
            written = run_files.read_json(run_uri(out, IDENTITY))
        except FileNotFoundError:  # the file was lost, but the footers have its hash
            _check_footers(out, plan)
            return
    differing = differing_keys(written, planned)
    if TABLE in differing:
        raise InputError(
            f"out={out}: a table {written.get(TABLE)!r} exists, and this job writes {plan.table!r}; use another out="
        )
    if differing == [EXCLUSIONS]:
        raise InputError(
            f"out={out}: written with another configuration: exclusions= names another list of pictures than that of "
            "this table; use its list, or first apply a longer one to the existing tables: "
            "remine purge input=TABLE_OR_FOLDER exclusions=FILE"
        )
    if differing:
        change = describe(
            written,
            planned,
            written_config=_written_config(out),
            planned_config=json.loads(run_files.to_json(plan.config)),
        )
        raise InputError(f"out={out}: written with another configuration: {change}; use another out= or overwrite=true")


def _written_config(out: str) -> dict[str, Any] | None:
    """Return the configuration of the command that began the table at `out`; None if it was lost."""
    try:
        config: dict[str, Any] = run_files.read_json(run_uri(out, CONFIG))
    except (FileNotFoundError, InputError):
        return None
    return config


def _check_footers(out: str, plan: TablePlan) -> None:
    """Refuse a table without `identity.json` whose data objects were written with another configuration."""
    objects = data_objects(out, locations.listing(out))
    footers = read_footers(objects, remote=locations.is_s3(out))
    identities = {record["identity"] for footer in footers if footer is not None and (record := footer.record)}
    if identities - {identity_hash(plan.identity)}:
        raise InputError(
            f"out={out}: _run/{IDENTITY} is missing, and the units were written with another configuration; "
            "run the command that wrote the table, or use another out= or overwrite=true"
        )


def warn_of_store(out: str) -> None:
    """Warn, once per bucket, about a store on which two runs of different configurations could claim the same table.

    Raises:
        InputError: nothing can be written at `out`.
    """
    with locations.named_errors(out):
        creates_once = locations.creates_once(out)
    if not creates_once and (bucket := s3.bucket_of(out)) not in _warned:
        _warned.add(bucket)
        log.warning(
            "out=%s: the store ignores conditional writes (If-None-Match), which let only one of several runs claim a "
            "table; start only one run per table",
            out,
        )

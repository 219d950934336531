"""A table whose rows depend on all of the input: after a purge its command keeps it rather than make it anew."""

import json
from typing import Any

from jobs.purging.rewriting import PURGED
from jobs.store import run_files
from jobs.store.identity import TABLE
from jobs.store.identity_changes import RUN_KEYS, differing_keys
from jobs.store.run import TablePlan
from jobs.store.run_files import IDENTITY, MANIFEST, run_uri


def purged_table(plan: TablePlan, key: str) -> dict[str, Any] | None:
    """Return the manifest of a table that was purged and differs from the plan in nothing else; None without one.

    Args:
        key: of the identity, with a hash of the rows that the job would write without the purged pictures.
    """
    try:
        written, manifest = (run_files.read_json(run_uri(plan.out, name)) for name in (IDENTITY, MANIFEST))
    except FileNotFoundError:
        return None
    planned = json.loads(run_files.to_json({TABLE: plan.table, **plan.identity}))
    config = json.loads(run_files.to_json(plan.config))
    changed = {name.split(".")[0] for name in differing_keys(manifest["config"], config)} - set(RUN_KEYS)
    is_purged = PURGED in manifest["counts"]["filtered"]
    return manifest if is_purged and not changed and differing_keys(written, planned) == [key] else None

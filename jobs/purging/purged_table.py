"""A table whose rows depend on all of the input: after a purge its command keeps it rather than make it anew."""

import json
from collections.abc import Collection
from typing import Any

from jobs.store import run_files
from jobs.store.counts import PURGED
from jobs.store.identity import RUN_KEYS, TABLE, differing_keys
from jobs.store.run_files import IDENTITY, MANIFEST, run_uri
from jobs.store.table_plan import TablePlan


def purged_table(plan: TablePlan, keys: Collection[str]) -> dict[str, Any] | None:
    """Return the manifest of a whole table that was purged and differs from the plan in nothing else; None without one.

    Args:
        keys: of the identity, which change with the rows that purge removed from the input.
    """
    try:
        written, manifest = (run_files.read_json(run_uri(plan.out, name)) for name in (IDENTITY, MANIFEST))
    except FileNotFoundError:
        return None
    planned = json.loads(run_files.to_json({TABLE: plan.table, **plan.identity}))
    config = json.loads(run_files.to_json(plan.config))
    changed = {name.split(".")[0] for name in differing_keys(manifest["config"], config)} - set(RUN_KEYS)
    is_whole = manifest.get("complete") and PURGED in manifest["counts"]["filtered"]
    differing = {name.split(".")[0] for name in differing_keys(written, planned)}
    return manifest if is_whole and not changed and differing and differing <= set(keys) else None

"""Pair the items of each prompt, for comparing their pictures -> tables `items` and `texts`.

    remine pairs input=R/rome/items texts=R/rome/texts by=prompt out=R/pairs
    remine judge input=R/pairs/items texts=R/pairs/texts images=R/images rubric=image_comparison \\
        model=qwen2.5-vl-7b out=R/comparisons/qwen

Items with the same value of `by` (an attribute, or the texts of a role) are paired with each other: n(n-1)/2 pairs of n
pictures, each in both orders, so that a preference for a position is not mistaken for a preference for a picture.
Writes OUT/items, whose pictures are the two of the pair in the order in which they are shown, and OUT/texts.
"""

import sys
from dataclasses import dataclass, replace

from actors.settings import RuntimeOnly
from jobs.errors import check_choice, check_least
from jobs.items_from import items_output, pair_items
from jobs.items_from.items_config import UNIT_ROWS
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import Writing
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.selection import exclusions
from jobs.store import run_files, table_plan
from jobs.store.files import locations
from jobs.store.identity import identity_of
from jobs.store.runs.run_units import rows_of_units


@dataclass
class PairsConfig(Writing):
    """Keys of `pairs`."""

    input: str = MISSING  # a table of items with one picture each
    texts: str | None = None  # the texts of the items
    by: str = "prompt"  # an attribute or the role of texts; items with the same value are paired
    orders: str = pair_items.BOTH  # both: each pair in both orders; one: in one order, drawn by a hash of its items
    limit: RuntimeOnly[int | None] = None  # only the first pairs, for a trial run in separate tables; null: all
    unit_rows: int = UNIT_ROWS  # rarely: pairs per unit, the granularity of resuming in the jobs that follow


def execute(cfg: PairsConfig) -> Plan | Manifest:
    """Run the job and return the manifests by table, or the plan with plan=true; see the module's docstring.

    Raises:
        InputError: the value of a key is not allowed, or there is nothing to pair; nothing was written.
    """
    check_choice("orders", cfg.orders, pair_items.ORDERS)
    check_least("unit_rows", cfg.unit_rows, 1)
    table_plan.check_limit(cfg.limit)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    sources = pair_items.open_sources(cfg.input, cfg.texts)
    items = locations.join(cfg.out, items_output.ITEMS)
    begun = [] if cfg.overwrite else list(run_files.begun_units(items))
    with pair_items.pair_plan(
        sources,
        by=cfg.by,
        orders=cfg.orders,
        unit_rows=cfg.unit_rows,
        excluded=excluded,
        begun=begun,
        rows_of=rows_of_units(items) if begun else {},
        limit=cfg.limit,
    ) as plan:
        identity = identity_of(cfg, plan.identity, instead_of=["input", "texts"])
        return items_output.write(cfg, replace(plan, identity=identity), excluded, job="pairs")


JOB = cli.Job("pairs", PairsConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("pairs"))

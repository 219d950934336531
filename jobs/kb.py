"""Read a knowledge base -> tables `nodes`, `texts` (four of them) and `node_images` below one folder.

    remine kb knowledge_base=wordnet knowledge_base.path=wordnet.parquet out=R/kb
    remine kb knowledge_base=babelnet knowledge_base.path='babelnet/*.tsv' out=R/kb

Writes R/kb/nodes, R/kb/lemmas, R/kb/glosses, R/kb/windows, R/kb/articles and R/kb/node_images. Lemmas, glosses and
windows are embedded (remine embed) and searched (remine retrieve) separately: CAIRE's three indices (A.3). A window is
a part of an article that a text tower can read; `articles` has whole articles, from which remine items takes the
context of linked pictures. The column `source` of a text is its node. Pictures on the list `exclusions=` are not in
`node_images`.
"""

import sys
from dataclasses import dataclass

from actors.settings import RuntimeOnly
from jobs.corpora.knowledge_base import KnowledgeBaseConfig, find_files, node_units
from jobs.errors import check_least
from jobs.runtime import lifecycle, outcomes
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import ReadingRows, check_plan
from jobs.runtime.configuration.key_types import conf_group
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.planning.prospects import describe_all, prospect
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.table_plan import limited
from jobs.store.units import unit_of_file
from jobs.workers.kb import PARTS, KnowledgeBaseUnit


@dataclass
class KbConfig(ReadingRows):
    """Keys of `kb`."""

    knowledge_base: KnowledgeBaseConfig = conf_group("table", KnowledgeBaseConfig)
    # rarely: rows per unit of a Parquet file whose rows are sorted by node; other files are one unit
    unit_rows: RuntimeOnly[int] = 20_000


def execute(cfg: KbConfig) -> Plan | Manifest:
    """Run the job and return the manifests by part, or the plan with plan=true; see the module's docstring."""
    check_plan(cfg.plan, calibrates=False)
    check_least("unit_rows", cfg.unit_rows, 1)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    files = find_files(cfg.knowledge_base)
    # With a limit a file is one unit, so that the limit applies to the whole file.
    whole = cfg.limit is not None
    node = cfg.knowledge_base.columns.node
    units = list(map(unit_of_file, files) if whole else node_units(files, node=node, unit_rows=cfg.unit_rows))
    plans = {
        part: plan_table(
            cfg,
            table,
            units,
            {"part": part},
            excluded=excluded if part == "node_images" else None,
            out=locations.join(locations.absolute(cfg.out), part),
            metadata={"knowledge_base": cfg.knowledge_base.name},
            derived=False,
        )
        for part, table in PARTS.items()
    }
    plans = {part: limited(plan, cfg.limit) for part, plan in plans.items()}
    prospects = {
        part: prospect("kb", cfg, plan, pools=["kb"], streamed=False, calibrates=False, part=part)
        for part, plan in plans.items()
    }
    if cfg.plan:
        return describe_all(list(prospects.values()))
    lifecycle.ready(cfg, list(prospects.values()))
    from jobs.runtime import stages

    manifest = Manifest({})
    for part, table in prospects.items():
        run = table.open()
        kept = exclusions.keep(run, excluded) if part == "node_images" else None
        stage = stages.Stage("kb", KnowledgeBaseUnit, {"part": part, "config": cfg.knowledge_base, "excluded": kept})
        stages.process(run, name=f"kb {part}", stage=stage, resources=cfg.resources, total=None, counted="rows")
        manifest[part] = summary.closed(f"kb {part}", run)
        outcomes.show(manifest[part])
    matched = manifest["node_images"]["counts"]["tallies"].get(exclusions.TALLY, {})
    rows = ", ".join(
        f"{of_part['counts']['rows_out']:,} {part.replace('_', ' ')}" for part, of_part in manifest.items()
    )
    manifest.lines = [*summary.exclusion_lines(excluded, matched), f"kb: {rows}"]
    return manifest


JOB = cli.Job("kb", KbConfig, execute, pools=("kb",))

if __name__ == "__main__":
    sys.exit(cli.main("kb"))

"""Turn the pictures that a search found into records, to fetch and choose among -> tables `records`, `neighbors`.

    remine candidates neighbors=R/neighbors corpus.path='s3://b/datacomp/*.parquet' k=8 out=R/candidates
    remine fetch source=urls input=R/candidates/records source.contact=you@example.org out=R/images
    remine choose neighbors=R/candidates/neighbors prompts=R/prompts images=R/images out=R/choose

A search in published vectors (remine retrieve corpus=datacomp) returns ids of the corpus; the corpus' Parquet files
have their URLs. OUT/records has each distinct picture once, with the corpus' id as record_id; OUT/neighbors has the
same queries, ranks and scores as the search, with the image_id that remine fetch gives to the picture.
"""

import sys
from dataclasses import asdict, dataclass, field

import pyarrow.compute as pc

from jobs.errors import InputError
from jobs.retrieval.candidate_rows import (
    ABSENT,
    MetadataConfig,
    best_neighbors,
    candidates,
    find_metadata,
    read_metadata,
)
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import write_rows
from jobs.runtime.outcomes import Manifest
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.store import table_plan
from jobs.store.files import locations
from jobs.store.reading import open_table


@dataclass
class CandidatesConfig:
    """Keys of `candidates`."""

    out: str = MISSING  # folder or s3://bucket/prefix of the tables `records` and `neighbors`
    neighbors: str = MISSING  # a table of neighbors (remine retrieve)
    corpus: MetadataConfig = field(default_factory=MetadataConfig)
    k: int | None = None  # number of best neighbours per query; null: all
    limit: int | None = None  # the neighbours of the first queries only, for a trial run in separate tables; null: all
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.selection.exclusions)


def execute(cfg: CandidatesConfig) -> Manifest:
    """Run the job and return the manifests by table; see the module's docstring.

    Raises:
        InputError: a table or file cannot be read, or no neighbour is in the corpus; nothing was written.
    """
    if cfg.k is not None and cfg.k < 1:
        raise InputError("must be at least 1, or null for all", key="k", value=cfg.k)
    table_plan.check_limit(cfg.limit)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    source = open_table(cfg.neighbors, "neighbors", key="neighbors")
    neighbors = best_neighbors(source, cfg.k, queries=cfg.limit)
    limit = None
    if cfg.limit is not None:
        queries = pc.count_distinct(neighbors["query_id"]).as_py()
        limit = table_plan.RowLimit(cfg.limit, queries, None, per_input=False, noun="queries")
    ids = pc.unique(neighbors["item_id"])
    described = read_metadata(find_metadata(cfg.corpus), cfg.corpus, ids)
    if len(ids) and not described:
        why = (
            f"column {cfg.corpus.id} has none of the {len(ids):,} pictures of neighbors={cfg.neighbors}, "
            f"such as {ids[0]}; name the files of the corpus that was searched"
        )
        raise InputError(why, key="corpus.path", value=cfg.corpus.path)
    chosen = candidates(neighbors, described, exclusion_filter)
    identity = {"neighbors": source.identity, "k": cfg.k, "corpus": asdict(cfg.corpus)}
    manifests = {}
    for name, rows in (("records", chosen.records), ("neighbors", chosen.neighbors)):
        manifests[name] = write_rows(
            cfg, name, rows, identity, excluded=excluded, below=name, inputs=(source.whole(),), limit=limit
        )
    kept = [f"{len(chosen.neighbors):,} kept", *(f"{n:,} {reason}" for reason, n in sorted(chosen.left_out.items()))]
    lines = [
        f"candidates: {locations.absolute(cfg.out)}\n  {neighbors.num_rows:,} neighbors = {' + '.join(kept)}",
        f"  {len(chosen.records):,} distinct pictures",
    ]
    if limit:
        lines.append(f"  {limit}; the tables have no more")
    if chosen.left_out[ABSENT]:
        lines.append(
            f"  corpus.path={cfg.corpus.path} does not have all pictures of the search; set it to all of the files"
        )
    return Manifest(manifests, [*lines, *summary.exclusion_lines(excluded, exclusion_filter.matched)])


JOB = cli.Job("candidates", CandidatesConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("candidates"))

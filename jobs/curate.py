"""Choose among matched records: what needs the whole set -> table `records`.

    python -m jobs.curate input=R/matches out=R/records
    python -m jobs.curate input=R/matches images=R/images size=1500 out=R/century
    python -m jobs.curate input=R/century select=starter 'ratings=[R/ratings/*,R/people]' out=R/starter

In the paper's order (Century, appendix E.1), each method's records alone: main images; pages with one image URL;
pictures that are not gone (`images=`); https; URLs that Wikimedia can resize. Then the methods together: one record
an image URL; excluded pictures; near-duplicates (`near_duplicates=`); down-sampling (`size=`); the starter set
(`select=starter`). Decisions rest on compact arrays (`jobs.curation`); the rows themselves are then copied a unit at
a time, in their parent's order.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import MISSING

from actors.ids import content_id
from jobs.curation import statistics
from jobs.curation.apply_rules import (
    KNOWLEDGE_GRAPH,
    LANGUAGE_MODEL,
    MANUAL,
    NEAR_MODES,
    Chosen,
    CurationTables,
    choose,
)
from jobs.curation.near import MAX_DISTANCE
from jobs.curation.rows import THUMBNAILS
from jobs.curation.starter import StarterConfig
from jobs.errors import InputError
from jobs.judging.rating_tables import open_ratings
from jobs.runtime import cli, exclusions, summary
from jobs.runtime.config import Writing, plain
from jobs.runtime.console import say
from jobs.runtime.exclusions import Exclusions
from jobs.store import locations
from jobs.store.counts import Counts
from jobs.store.keys import duplicate_keys
from jobs.store.reading import TableSource, open_table, reading_rows
from jobs.store.run import TablePlan, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter

ROWS_AT_A_TIME = 1000  # rows that stay, held before they are written: a few MB of article text
SELECTIONS = ("all", "starter")
NEAR_FILE = "near_duplicates.jsonl"  # beside the manifest


@dataclass
class CurateConfig(Writing):
    """Keys of `curate`."""

    input: str = MISSING  # a table of records (jobs.mine, or an earlier curate)
    unit_rows: int = 256  # rows of a unit: what is fetched, embedded or judged as one piece after a crash
    images: str | None = None  # a table of images (jobs.fetch): which pictures are gone, and their perceptual hashes
    thumbnails: str = "wikimedia"  # URLs that must have a resized form: any (none must), wikimedia (those there), all
    precedence: list[str] = field(  # which method an image found by several is credited to; unnamed ones follow
        default_factory=lambda: [KNOWLEDGE_GRAPH, LANGUAGE_MODEL, MANUAL]
    )
    near_duplicates: str = "keep"  # keep, report (list them beside the manifest) or drop; needs images=
    near_distance: int = 4  # bits of 64 in which perceptual hashes may differ
    size: int | None = None  # records in total; null: all
    downsample: str = KNOWLEDGE_GRAPH  # the one method whose records make room for the others'
    select: str = "all"  # all, or starter: sensitive on average, few of each sub-region (section 5.1); needs ratings=
    ratings: list[str] = field(default_factory=list)  # tables of ratings, or globs of tables
    starter: StarterConfig = field(default_factory=StarterConfig)
    seed: int = 0  # of both draws: down-sampling, and the starter set's choice within a sub-region


def execute(cfg: CurateConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    check(cfg)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    sources = open_sources(cfg)
    if twice := duplicate_keys(sources.records, ("record_id",)):
        raise InputError(
            f"{sources.records.uri}: {sum(twice.values()) - len(twice):,} record_ids occur twice, so that a rule "
            "could not tell them apart"
        )
    barred = exclusions.Barred(excluded.marks)
    chosen = choose(cfg, sources, barred)
    plan = TablePlan(
        out=cfg.out,
        table="records",
        identity=identity(cfg, sources, chosen, excluded),
        units=list(pieces(sources.records, chosen, cfg.unit_rows)),
        config=plain(cfg),
        metadata={},
        derived=True,
    )
    if cfg.plan:
        summary.show_plan("curate", plan)
        show(counts_of(chosen, 0, len(chosen.rows)).to_json(), chosen)
        summary.show_exclusions(excluded, barred.matched)
        return None
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    if chosen.near is not None:
        kept = run.keep(NEAR_FILE, chosen.near)
        chosen.notes.append(f"near-duplicates are listed in {kept}")
    stays = chosen.decision.rule == 0
    with closing(Parent()) as parent:
        for task in run.todo:
            first, last, offset = (task.unit.extra[key] for key in ("from", "to", "offset"))
            with UnitWriter(run.target, task) as writer:
                counts = counts_of(chosen, offset + first, offset + last)
                writer.counts.rows_in, writer.counts.filtered = counts.rows_in, counts.filtered
                writer.counts.tallies = counts.tallies
                for rows in parent.rows(task.unit.inputs[0].uri, first, stays[offset + first : offset + last]):
                    writer.write(rows)
    manifest = run.finish()
    show(manifest["counts"], chosen)
    summary.show_result("curate", manifest, run)
    summary.show_exclusions(excluded, barred.matched)
    return manifest


def check(cfg: CurateConfig) -> None:
    """Refuse values that cannot be meant; nothing is read.

    Raises:
        InputError: naming the key and what is allowed.
    """
    if cfg.unit_rows < 1:
        raise InputError(f"unit_rows={cfg.unit_rows}: at least 1")
    if cfg.size is not None and cfg.size < 1:
        raise InputError(f"size={cfg.size}: at least 1 (null: all)")
    if not 0 <= cfg.near_distance <= MAX_DISTANCE:
        raise InputError(f"near_distance={cfg.near_distance}: from 0 to {MAX_DISTANCE} of the 64 bits")
    for key, allowed in (("thumbnails", THUMBNAILS), ("near_duplicates", NEAR_MODES), ("select", SELECTIONS)):
        if (value := getattr(cfg, key)) not in allowed:
            raise InputError(f"{key}={value}: one of {', '.join(allowed)}")
    if twice := [name for name, n in Counter(cfg.precedence).items() if n > 1]:
        raise InputError(f"precedence: {twice[0]} stands twice")
    if cfg.near_duplicates != "keep" and cfg.images is None:
        raise InputError(f"near_duplicates={cfg.near_duplicates}: needs images=, a table of images with their phash")
    if cfg.select == "starter" and not cfg.ratings:
        raise InputError("select=starter: needs ratings=[…], tables with the pictures' sensitivity and sub-region")
    if cfg.select != "starter" and cfg.ratings:
        raise InputError("ratings= is read for select=starter only")
    cfg.starter.check()


def open_sources(cfg: CurateConfig) -> CurationTables:
    """The tables that are read.

    Raises:
        InputError: as `open_table` and `open_ratings`.
    """
    records = open_table(cfg.input, "records")
    images = open_table(cfg.images, "images") if cfg.images is not None else None
    return CurationTables(records, images, sorted(open_ratings(cfg.ratings), key=lambda source: source.uri))


def identity(cfg: CurateConfig, sources: CurationTables, chosen: Chosen, excluded: Exclusions) -> dict[str, Any]:
    """What the output depends on; what was not asked for is left out."""
    found: dict[str, Any] = {
        "input": sources.records.identity,
        "rules": list(chosen.decision.applied),
        "unit_rows": cfg.unit_rows,
        "thumbnails": cfg.thumbnails,
        "precedence": list(cfg.precedence),
        **exclusions.identity(excluded),
    }
    if sources.images is not None:
        found["images"] = sources.images.identity
    if cfg.near_duplicates != "keep":
        found["near_duplicates"] = {"mode": cfg.near_duplicates, "distance": cfg.near_distance}
    if cfg.size is not None:
        found["size"] = {"records": cfg.size, "downsample": cfg.downsample, "seed": cfg.seed}
    if cfg.select == "starter":
        ratings = [source.identity for source in sources.ratings]
        found["starter"] = {**vars(cfg.starter), "seed": cfg.seed, "ratings": ratings}
    return found


def counts_of(chosen: Chosen, first: int, last: int) -> Counts:
    """The counts of the rows [first, last)."""
    decision = chosen.decision
    tallies = {statistics.TALLY: statistics.steps(chosen.rows, decision, first, last)}
    if chosen.region is not None:
        tallies |= statistics.by_region(chosen.region, chosen.regions, decision, first, last)
    fallen = statistics.filtered(decision, first, last)
    return Counts(last - first, last - first - fallen.total(), fallen, tallies=tallies)


def show(counts: Mapping[str, Any], chosen: Chosen) -> None:
    """The counts after each step by method, and what else there is to know about the choice."""
    for line in (*statistics.lines(counts), *statistics.region_lines(counts)):
        say(line)
    for note in chosen.notes:
        say(f"  {note}")


def pieces(source: TableSource, chosen: Chosen, unit_rows: int) -> Iterator[Unit]:
    """Each parent unit cut, in its order, where `unit_rows` of its rows survive; at least one piece each.

    A piece's version covers what was decided about its rows: if another unit of the parent, the images or the
    ratings change, the pieces whose rows fare otherwise are done again.
    """
    offset = 0
    stays = chosen.decision.rule == 0
    for parent in source.units():
        rows = parent.rows or 0
        kept = np.flatnonzero(stays[offset : offset + rows])
        ends = [int(place) + 1 for place in kept[unit_rows - 1 :: unit_rows]]
        if not ends or ends[-1] < rows:
            ends.append(rows)
        for first, last in zip([0, *ends], ends, strict=False):
            piece = f"rows {first}-{last}"
            fate = chosen.fingerprint(offset + first, offset + last)
            yield replace(
                parent,
                name=content_id(parent.name, piece),
                piece=f"{piece}, {fate}",
                rows=last - first,
                extra={"from": first, "to": last, "offset": offset},
            )
        offset += rows


class Parent:
    """Reads rows of the parent's objects, a row group at a time; pieces that follow each other share what is read."""

    def __init__(self) -> None:
        self._uri, self._group = "", -1
        self._file: pq.ParquetFile | None = None
        self._rows = pa.table({})

    def rows(self, uri: str, first: int, stays: np.ndarray) -> Iterator[pa.Table]:
        """Those of the rows from `first` on that stay (bool [rows]); groups without any are not read."""
        file = self._open(uri)
        held: list[pa.Table] = []
        begin = 0
        for group in range(file.num_row_groups):
            end = begin + file.metadata.row_group(group).num_rows
            low, high = max(begin, first), min(end, first + len(stays))
            if low < high and (wanted := stays[low - first : high - first]).any():
                held.append(self._read(group).slice(low - begin, high - low).filter(pa.array(wanted)))
            if sum(rows.num_rows for rows in held) >= ROWS_AT_A_TIME:
                yield pa.concat_tables(held)
                held = []
            begin = end
        if held:
            yield pa.concat_tables(held)

    def close(self) -> None:
        """Let go of the file that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, uri: str) -> pq.ParquetFile:
        if uri != self._uri or self._file is None:
            self.close()
            fs, path = locations.filesystem(uri)
            with reading_rows(uri):
                self._file, self._uri, self._group = pq.ParquetFile(fs.open_input_file(path)), uri, -1
        return self._file

    def _read(self, group: int) -> pa.Table:
        if group != self._group:
            assert self._file is not None
            with reading_rows(self._uri):
                self._rows, self._group = self._file.read_row_group(group).replace_schema_metadata(None), group
        return self._rows


JOB = cli.Job("curate", CurateConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("curate"))

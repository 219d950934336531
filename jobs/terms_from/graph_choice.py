"""Step from `entities` to `terms`: choose among all entities, then write the terms of each of their units.

The driver does this because the choice of a concept's entities depends on all of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from actors import schemas
from jobs.errors import InputError
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.planning.prospects import prospect
from jobs.store.files import locations
from jobs.store.object_rows import reading_rows
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import TableRun
from jobs.store.table_plan import limited
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES
from jobs.terms_from import graph_terms
from jobs.terms_from.dump import SPAN
from jobs.terms_from.graph_passes import ENTITIES, TERMS, GraphInput
from jobs.terms_from.graph_terms import (
    COLUMNS,
    PERIODS,
    Choice,
    Concepts,
    UnitTerms,
    count_lines,
    keep_counts,
)
from jobs.terms_from.terms_config import PREFER, REQUIRE, GraphKeys, TermSourcesConfig

ROWS_AT_A_TIME = 5_000


def write_terms(cfg: TermSourcesConfig, graph: GraphInput) -> Plan | Manifest:
    """Write the table `terms` below `out=`; return its manifest, or with plan=true its plan.

    Raises:
        InputError: the table of entities or the location cannot be used.
    """
    entities = open_table(cfg.entities or locations.join(cfg.out, ENTITIES), ENTITIES)
    _check_same(entities, graph)
    plan = plan_table(
        cfg,
        TERMS,
        entities.units(),
        {"source": cfg.source.name, "entities": entities.identity},
        base=GraphKeys,
        instead_of=["graph", "concepts", "subclass_depth"],  # of the entities
        out=locations.join(locations.absolute(cfg.out), TERMS),
    )
    if cfg.entities:  # a limited dump's entities are those of its first lines
        plan, entities = limited(plan, cfg.limit, noun="entities"), entities.first(cfg.limit)
    expected = prospect("terms", cfg, plan, pools=[], calibrates=False, part=TERMS)
    if cfg.plan:
        return expected.describe()
    run = expected.open()
    names = [concept.name for concept in graph.concepts.concepts]
    concepts = Concepts(names, graph.graph, entities.batches(COLUMNS))
    choice = graph_terms.choose(cfg, concepts, entities.batches(COLUMNS), _places(entities))
    _write(run, entities, cfg, graph, concepts=concepts, choice=choice)
    manifest = summary.closed("terms", run)
    manifest.lines += [f"  {rule(cfg, choice)}", *count_lines(keep_counts(run, manifest))]
    return manifest


def rule(cfg: TermSourcesConfig, choice: Choice) -> str:
    """Return a line about the rule for dates and its effect on the entities."""
    first, last = cfg.period.first, cfg.period.last
    counts = ", ".join(f"{choice.periods[name]:,} {name}" for name in PERIODS)
    entities = f"period {first} to {last}: {counts}"
    limit = cfg.entities_per_concept
    if cfg.dates == REQUIRE:
        return f"{entities}; dates=require takes only those inside" + (f", {limit:,} per concept" if limit else "")
    if limit is None:
        return f"{entities}; all are taken, because entities_per_concept= sets no limit"
    order = f"in this order ({', '.join(PERIODS)}), then" if cfg.dates == PREFER else "whatever their dates,"
    return f"{entities}; at most {limit:,} of each concept are taken, {order} those with more articles first"


def _check_same(entities: TableSource, graph: GraphInput) -> None:
    """Raise InputError if the entities were collected with another list of concepts or description of the graph."""
    names = {"concepts": graph.concepts.name, "graph": graph.graph.name}
    for key, value in graph.hashes.items():
        if entities.metadata.get(f"remine.{key}") != value:
            why = f"{entities.uri} was collected with other {key}"
            raise InputError(
                why, key=key, value=names[key], remedy="give those, or collect again from the dump (source.path=)"
            )


def _places(entities: TableSource) -> NDArray[np.int64]:
    """Return int64[rows], numbers that ascend in the order of the dump, unlike the units."""
    units = [
        (footer.unit.inputs[0].uri, footer.unit.extra[SPAN][0], unit.rows or 0)
        for footer, unit in zip(entities.footers, entities.units(), strict=False)  # with a limit, only the first units
    ]
    order = sorted(range(len(units)), key=lambda index: units[index][:2])
    rank = np.empty(len(units), np.int64)
    rank[order] = np.arange(len(units))
    return np.repeat(rank, [rows for *_, rows in units])


def _write(
    run: TableRun,
    entities: TableSource,
    cfg: TermSourcesConfig,
    graph: GraphInput,
    *,
    concepts: Concepts,
    choice: Choice,
) -> None:
    """Write the units that are not finished."""
    firsts, first = {}, 0
    for unit in entities.units():
        firsts[unit.name] = first
        first += unit.rows or 0
    schema = TABLES[TERMS].schema()
    for task in run.todo:
        unit_terms, row = UnitTerms(cfg, concepts, graph.concepts, choice), firsts[task.unit.name]
        with UnitWriter(run.target, task) as writer:
            for rows in _batches(task.unit.inputs[0].uri, task.unit.limit):
                writer.write(schemas.to_table(unit_terms.rows(rows, row), schema))
                row += len(rows)
            counts = writer.counts
            counts.filtered.update(unit_terms.filtered)
            counts.tallies = {name: dict(tally) for name, tally in unit_terms.tallies.items() if tally}
            counts.rows_in = counts.rows_out + counts.filtered.total()


def _batches(uri: str, limit: int | None) -> Iterator[Sequence[dict[str, Any]]]:
    """Yield the first rows of a unit, several thousand at a time, since a dump in one gzip member is one unit."""
    fs, path = locations.filesystem(uri)
    with reading_rows(uri), fs.open_input_file(path) as stream, pq.ParquetFile(stream) as file:
        for number, batch in enumerate(file.iter_batches(ROWS_AT_A_TIME)):
            left = None if limit is None else max(limit - number * ROWS_AT_A_TIME, 0)
            if left == 0:
                return
            yield batch.slice(0, left).to_pylist()

"""Which entities of a knowledge graph become terms, and their rows of the table `terms`, with counts.

The driver does this, because the choice of a concept's entities depends on all of them. The choice is made on compact
arrays. Memory: for each entity its number, and 12 B for each of its concepts; for each entity that is an instance of a
class below a concept, and for each redirect, a dict entry (about 100 B), through which entities that are part of it are
linked. The counts are those of the paper's tables 6 and 7.
"""

import json
import string
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from actors import schemas
from actors.quantities import quantity
from actors.titles import LONGEST_TERM
from jobs.errors import InputError
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.planning.prospects import prospect
from jobs.store.files import locations
from jobs.store.hashing import hash_texts
from jobs.store.object_rows import reading_rows
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import TableRun
from jobs.store.table_plan import limited
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES
from jobs.terms_from.class_tree import REDIRECT
from jobs.terms_from.descriptions import ConceptList, Graph, item_number
from jobs.terms_from.dump import SPAN
from jobs.terms_from.entity import EQUALS
from jobs.terms_from.graph_passes import ENTITIES, TERMS, GraphInput
from jobs.terms_from.terms_config import (
    ALIAS,
    IGNORE,
    LABEL,
    PREFER,
    REQUIRE,
    STRIP,
    TITLE,
    GraphKeys,
    PeriodConfig,
    TermSourcesConfig,
)

INSIDE, UNDATED, OUTSIDE = "inside", "undated", "outside"
PERIODS = (INSIDE, UNDATED, OUTSIDE)  # in order of preference
COLUMNS = ["entity_id", "entity_type", "links", "neighbors", "first_year", "last_year", "sites"]
ROWS_AT_A_TIME = 5_000
_LINKED = ("entity_id", "links", "neighbors")
_REDIRECT = f"{REDIRECT}{EQUALS}"
Row = Mapping[str, Any]


class Concepts:
    """The concepts of entities, from their own classes and from the entities that they are linked to.

    Args:
        names: the concepts, in the order of their list.
        batches: all rows of the table `entities`, with `COLUMNS`.
    """

    def __init__(self, names: Sequence[str], graph: Graph, batches: Iterable[pa.Table]) -> None:
        self.names = list(names)
        self._number = {name: number for number, name in enumerate(names)}
        self._property = {linking.id: linking.name for linking in graph.properties}
        self._of_instance: dict[int, tuple[int, ...]] = {}
        self._redirect: dict[int, int] = {}
        shared: dict[tuple[int, ...], tuple[int, ...]] = {}  # stores equal tuples once
        for batch in batches:
            for entity_id, links, neighbors in zip(*(batch[name].to_pylist() for name in _LINKED), strict=True):
                pairs = (link.split(EQUALS, 1) for link in links)
                concepts = tuple(sorted({self._number[name] for id_, name in pairs if id_ == graph.instance_property}))
                if concepts:
                    self._of_instance[_number(entity_id)] = shared.setdefault(concepts, concepts)
                if neighbors and neighbors[0].startswith(_REDIRECT):
                    self._redirect[_number(entity_id)] = _number(neighbors[0].removeprefix(_REDIRECT))

    def of(self, row: Row) -> dict[int, list[str]]:
        """Return the concepts of an entity, ascending, with the properties that link it to each.

        An entity without a type has none: it only passes its concepts on.
        """
        if row["entity_type"] is None:
            return {}
        linked: dict[int, dict[str, None]] = {}
        for link in row["links"]:
            property_id, name = link.split(EQUALS, 1)
            if property_id in self._property:
                linked.setdefault(self._number[name], {})[self._property[property_id]] = None
        for neighbor in row["neighbors"]:
            property_id, entity_id = neighbor.split(EQUALS, 1)
            for concept in self._of_instance.get(self._target(_number(entity_id)), ()):
                linked.setdefault(concept, {})[self._property[property_id]] = None
        return {concept: list(linked[concept]) for concept in sorted(linked)}

    def _target(self, number: int) -> int:
        """Return the entity to which redirects lead from `number`, itself without one; circles end anywhere."""
        passed = set[int]()
        while number in self._redirect and number not in passed:
            passed.add(number)
            number = self._redirect[number]
        return number


@dataclass(frozen=True)
class Choice:
    """The pairs of entity and concept that become terms.

    Attributes:
        row: int64[pairs], the entity's row in the table, ascending.
        concept: int16[pairs], index of the concept.
        kept: bool[pairs], whether the pair becomes terms.
        duplicate: bool[rows], whether an earlier row has the same entity.
        periods: number of entities with a concept, by period.
    """

    row: NDArray[np.int64]
    concept: NDArray[np.int16]
    kept: NDArray[np.bool_]
    duplicate: NDArray[np.bool_]
    periods: Counter[str]

    def concepts(self, row: int) -> set[int]:
        """Return the concepts for which a row's entity was chosen."""
        span = slice(*np.searchsorted(self.row, [row, row + 1]))
        return set(self.concept[span][self.kept[span]].tolist())


def period_of(row: Row, period: PeriodConfig) -> str:
    """Return whether the years of an entity overlap the period: inside, outside or undated."""
    if row["first_year"] is None:
        return UNDATED
    return INSIDE if row["first_year"] <= period.last and row["last_year"] >= period.first else OUTSIDE


def choose(settings: GraphKeys, concepts: Concepts, batches: Iterable[pa.Table], place: NDArray[np.int64]) -> Choice:
    """Choose at most `entities_per_concept` entities for each concept.

    Entities within the period come first, then undated ones, then others (unless `dates=ignore`); among equals, those
    with more articles, then those with the smaller id, which is the older entry. `dates=require` keeps only the first
    group.

    Args:
        batches: all rows of the table `entities`, with `COLUMNS`.
        place: int64[rows], ascending in the dump's order; if an entity has several rows, the first is taken.
    """
    ids, row, concept, rank, sites = array("q"), array("q"), array("h"), array("b"), array("i")
    periods = Counter[str]()
    for batch in batches:
        for entity in batch.to_pylist():
            linked = concepts.of(entity)
            period = period_of(entity, settings.period)
            periods[period] += bool(linked)
            for number in linked:
                row.append(len(ids))
                concept.append(number)
                rank.append(PERIODS.index(period))
                sites.append(entity["sites"] or 0)
            ids.append(_number(entity["entity_id"]))
    numbers, rows = np.frombuffer(ids, np.int64), np.frombuffer(row, np.int64)
    by_concept, ranks = np.frombuffer(concept, np.int16), np.frombuffer(rank, np.int8)
    duplicate = np.ones(len(numbers), bool)
    in_order = np.lexsort((place, numbers))
    duplicate[in_order[np.unique(numbers[in_order], return_index=True)[1]]] = False
    kept = ~duplicate[rows]
    if settings.dates == REQUIRE:
        kept &= ranks == PERIODS.index(INSIDE)
    if settings.dates == IGNORE:
        ranks = np.zeros_like(ranks)
    if settings.entities_per_concept is not None:
        order = np.lexsort((numbers[rows], -np.frombuffer(sites, np.int32), ranks, by_concept))
        order = order[kept[order]]
        groups = by_concept[order]
        place = np.arange(len(order)) - np.searchsorted(groups, groups, "left")
        kept[order[place >= settings.entities_per_concept]] = False
    return Choice(rows, by_concept, kept, duplicate, periods)


def _number(entity_id: str) -> int:
    return item_number(entity_id) or 0


SOURCE = "knowledge_graph"
TALLIES = ("concept", "type", "theme", "period", "linked_by", "name_kind", "total")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def term_text(name: str, punctuation: str) -> str:
    """Return a name as a term, with runs of white space as one space and, for `strip`, without ASCII punctuation.

    Stripped characters are not replaced: `Sit-in` becomes `Sitin`, as in the paper's released terms.
    """
    if punctuation == STRIP:
        name = name.translate(_NO_PUNCTUATION)
    return " ".join(name.split())


@dataclass
class UnitTerms:
    """Maker of the terms of one unit of entities.

    Attributes:
        filtered: number of entities or names that each rule removed.
        tallies: number of entities by name and key; `name_kind` counts terms, `total` entities and changed terms.
    """

    settings: GraphKeys
    concepts: Concepts
    concept_list: ConceptList
    choice: Choice
    filtered: Counter[str] = field(default_factory=Counter)
    tallies: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in TALLIES})

    def rows(self, entities: Sequence[Mapping[str, Any]], first: int) -> Iterator[dict[str, Any]]:
        """Yield the terms of entities, the first of which is row `first` of its table."""
        for row, entity in enumerate(entities, first):
            linked, chosen = self.concepts.of(entity), self.choice.concepts(row)
            if not chosen:
                self.filtered[self._reason(row, linked, entity)] += 1
                continue
            names = self._names(entity)
            if not names:
                self.filtered["empty_term"] += 1
                continue
            self._count(entity, {number: linked[number] for number in chosen}, names)
            for number in sorted(chosen):
                for term, kinds in names.items():
                    yield self._row(entity, number, linked[number], term, kinds)

    def _reason(self, row: int, linked: Mapping[int, Any], entity: Mapping[str, Any]) -> str:
        if self.choice.duplicate[row]:
            return "duplicate_entity"
        if entity["entity_type"] is None:
            return self._reason_without_type(entity)
        if not linked:
            return "no_concept"
        if self.settings.dates == REQUIRE and period_of(entity, self.settings.period) != INSIDE:
            return "outside_period"
        return "entities_per_concept"

    @staticmethod
    def _reason_without_type(entity: Mapping[str, Any]) -> str:
        """Return why an entity is in its table only to pass its concepts on."""
        if any(neighbor.startswith(REDIRECT) for neighbor in entity["neighbors"]):
            return "redirect"
        return "no_type" if entity["label"] or entity["aliases"] or entity["title"] else "no_name"

    def _names(self, entity: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the terms of an entity, with the kinds of names that each term is."""
        by_kind = {LABEL: [entity["label"]], ALIAS: entity["aliases"], TITLE: [entity["title"]]}
        terms: dict[str, list[str]] = {}
        for kind in self.settings.names:
            for name in by_kind[kind]:
                if name and (term := term_text(name, self.settings.punctuation)):
                    if len(term) > LONGEST_TERM:
                        self.filtered["long_term"] += 1
                        continue
                    kinds = terms.setdefault(term, [])
                    if kind not in kinds:
                        kinds.append(kind)
                    self.tallies["total"]["names_changed"] += term != name
        return terms

    def _count(
        self, entity: Mapping[str, Any], linked: Mapping[int, Sequence[str]], names: Mapping[str, Sequence[str]]
    ) -> None:
        listed = self.concept_list.concepts
        tallies = self.tallies
        tallies["total"]["entities"] += 1
        tallies["type"][entity["entity_type"]] += 1
        tallies["period"][period_of(entity, self.settings.period)] += 1
        tallies["concept"].update(listed[number].name for number in linked)
        tallies["theme"].update({listed[number].theme for number in linked})
        tallies["linked_by"].update({name for properties in linked.values() for name in properties})
        tallies["name_kind"].update(kind for kinds in names.values() for kind in kinds)

    def _row(
        self, entity: Mapping[str, Any], number: int, linked_by: Sequence[str], term: str, kinds: Sequence[str]
    ) -> dict[str, Any]:
        concept = self.concept_list.concepts[number]
        return {
            "term": term,
            "source": SOURCE,
            "concept": concept.name,
            "entity_id": entity["entity_id"],
            "response_id": "",
            "theme": concept.theme,
            "name_kinds": list(kinds),
            "linked_by": list(linked_by),
            "entity_type": entity["entity_type"],
            "entity_date": entity["entity_date"],
            "period": period_of(entity, self.settings.period),
        }


COUNTS = "term_counts.json"


def keep_counts(run: TableRun, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of a finished run, and keep them in its `_run/term_counts.json`.

    `entities_by_concept` is table 6 and `entities_by_type` table 7; an entity with several concepts counts for each.
    `distinct_terms` regards case as terms do when they are searched.
    """
    tallies = manifest["counts"]["tallies"]
    total = tallies.get("total", {})
    counts = {
        "entities": total.get("entities", 0),
        "rows": manifest["counts"]["rows_out"],
        "distinct_terms": distinct_terms(run.target.out),
        "names_changed_by_punctuation_or_space": total.get("names_changed", 0),
        "entities_by_concept": _sorted(tallies.get("concept", {})),
        "entities_by_type": _sorted(tallies.get("type", {})),
        "entities_by_theme": _sorted(tallies.get("theme", {})),
        "entities_by_period": _sorted(tallies.get("period", {})),
        "entities_by_property": _sorted(tallies.get("linked_by", {})),
        "terms_by_kind_of_name": _sorted(tallies.get("name_kind", {})),
    }
    run.keep(COUNTS, json.dumps(counts, indent=1, ensure_ascii=False).encode())
    return counts


def distinct_terms(uri: str) -> int:
    """Return the number of terms of a table that differ in lower case, of `str.lower` as in a search; 8 B per term."""
    hashes = np.zeros(0, np.uint64)
    for batch in open_table(uri, "terms").batches(["term"]):
        terms = {term.lower() for term in batch["term"].unique().to_pylist()}
        hashes = np.union1d(hashes, hash_texts(list(terms)))
    return len(hashes)


def count_lines(counts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the counts as lines."""
    changed = counts["names_changed_by_punctuation_or_space"]
    terms = quantity(counts["distinct_terms"], "distinct term")
    yield f"  {quantity(counts['entities'], 'entity')}, {terms}; {quantity(changed, 'name')} changed"
    for title, key in (
        ("entities by concept (table 6)", "entities_by_concept"),
        ("entities by type (table 7)", "entities_by_type"),
        ("entities by theme", "entities_by_theme"),
        ("entities by property", "entities_by_property"),
        ("terms by kind of name", "terms_by_kind_of_name"),
    ):
        yield from summary.tally_lines(title, counts[key])


def _sorted(tally: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(tally.items(), key=lambda entry: (-entry[1], entry[0])))


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
    choice = choose(cfg, concepts, entities.batches(COLUMNS), _places(entities))
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

"""The two passes over a dump, `class_edges` and then `entities`, which workers write unit by unit of the dump.

1. Which class is below which, and which entities have the concepts' titles. This gives all classes below the concepts.
2. The entities that are linked to a class below a concept, or may be linked to such an entity.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Any

from actors.ids import content_id
from actors.quantities import quantity
from jobs.errors import InputError, RunError, as_input_error
from jobs.runtime import lifecycle, outcomes
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Plan
from jobs.runtime.planning import summary
from jobs.runtime.planning.prospects import describe_all, prospect
from jobs.runtime.process.console import say
from jobs.store.files import locations, read_ahead
from jobs.store.reading import open_table
from jobs.store.runs.table_run import TableRun
from jobs.store.table_plan import TablePlan, limited
from jobs.store.units import Unit
from jobs.terms_from import dump
from jobs.terms_from.class_tree import ClassEdges, ClassTree
from jobs.terms_from.descriptions import ConceptList, Graph
from jobs.terms_from.entity import EntityParser, entity_text, kind_of
from jobs.terms_from.terms_config import GraphKeys, TermSourcesConfig

POOL = "mine"
EDGES, ENTITIES, TERMS = "class_edges", "entities", "terms"  # tables below out=
CLASSES, CONCEPTS = "classes.npz", "concepts.json"  # run files of `entities`
SHOWN = 10
LOOKED_AT, SHOWN_BYTES = 20, 60  # lines of a file checked before the run, and bytes of the first for the message


@dataclass(frozen=True)
class GraphInput:
    """The checked description of the graph and the concepts."""

    graph: Graph
    concepts: ConceptList

    @classmethod
    def of(cls, cfg: TermSourcesConfig) -> "GraphInput":
        """Return the checked descriptions in a configuration.

        Raises:
            InputError: the description of the graph or the list of concepts is invalid.
        """
        try:
            return cls(Graph.from_dict(cfg.graph), ConceptList.from_dict(cfg.concepts))
        except ValueError as error:
            raise as_input_error(error) from error

    @property
    def hashes(self) -> dict[str, str]:
        """Hashes of the graph's description and of the concepts, for the metadata of `entities`."""
        return {"graph": _hash(asdict(self.graph)), "concepts": _hash(asdict(self.concepts)["concepts"])}


def write_entities(cfg: TermSourcesConfig, graph: GraphInput, *, class_unit: type, entity_unit: type) -> Plan | None:
    """Write the tables `class_edges` and `entities` below `out=`; with plan=true, return the plan.

    Args:
        class_unit: the worker of the first pass.
        entity_unit: the worker of the second pass.

    Raises:
        InputError: the dump or the location cannot be used.
        RunError: a worker failed, or the dump has none of the concepts.
    """
    # With a limit, each file is one unit, so that the limit applies to the file.
    units = dump.units(cfg.source, whole=cfg.limit is not None)
    _check_entities(units)
    edges, entities = (
        limited(plan, cfg.limit, noun="lines")
        for plan in (_edges_plan(cfg, graph, units), _entities_plan(cfg, graph, units))
    )
    kind: dict[str, Any] = {"pools": [POOL], "streamed": False, "calibrates": False, "get_bytes": read_ahead.BLOCK}
    passes = [prospect("terms", cfg, plan, part=plan.table, **kind) for plan in (edges, entities)]
    if cfg.plan:
        return describe_all(
            passes, lines=[f"the driver then writes {TERMS}; entities= on the table entities plans that"]
        )
    lifecycle.ready(cfg, passes)
    step = _step(units)
    run = passes[0].open()
    kwargs: dict[str, Any] = {"graph": cfg.graph, "titles": graph.concepts.titles, "step": step}
    _process(run, cfg, "terms classes", class_unit, kwargs)
    tree = _tree(cfg, graph)
    run = passes[1].open()
    names = [concept.name for concept in graph.concepts.concepts]
    run.keep(CONCEPTS, json.dumps(tree.sizes(graph.concepts), indent=1, ensure_ascii=False).encode())
    kwargs = {"graph": cfg.graph, "concepts": names, "classes": run.keep(CLASSES, tree.to_bytes()), "step": step}
    _process(run, cfg, "terms entities", entity_unit, kwargs)
    return None


def _check_entities(units: Sequence[Unit]) -> None:
    """Raise InputError if none of a file's first `LOOKED_AT` lines is an entity."""
    parser = EntityParser()
    for unit in units:
        if unit.extra[dump.SPAN][0]:
            continue
        texts = (entity_text(line.text) for line in dump.lines(unit) if isinstance(line, dump.Line))
        first = list(islice((text for text in texts if text), LOOKED_AT))
        if first and not any(_is_entity(parser, text) for text in first):
            raise InputError(
                f"none of its first {len(first)} lines is an entity (the first is "
                f"{first[0][:SHOWN_BYTES].decode('utf-8', 'replace')!r}); use a JSON dump with one entity per line",
                key="source.path",
                place=unit.inputs[0].uri,
            )


def _is_entity(parser: EntityParser, text: bytes) -> bool:
    try:
        return bool(kind_of(parser.parse(text)))
    except ValueError:
        return False


def _edges_plan(cfg: TermSourcesConfig, graph_input: GraphInput, units: Sequence[Unit]) -> TablePlan:
    graph = graph_input.graph
    wanted = [graph.subclass_property, graph.site, *sorted(graph_input.concepts.titles)]
    return plan_table(
        cfg,
        EDGES,
        units,
        {"graph": graph.name, "wanted": _hash(wanted)},
        instead_of=[field.name for field in fields(cfg)],  # `wanted` is all that this pass reads of the keys
        out=locations.join(locations.absolute(cfg.out), EDGES),
        derived=False,
    )


def _entities_plan(cfg: TermSourcesConfig, graph: GraphInput, units: Sequence[Unit]) -> TablePlan:
    return plan_table(
        cfg,
        ENTITIES,
        units,
        graph.hashes,
        base=GraphKeys,
        instead_of=["names", "punctuation", "dates", "period", "entities_per_concept"],  # of the terms
        out=locations.join(locations.absolute(cfg.out), ENTITIES),
        metadata=graph.hashes,
        derived=False,
    )


def _process(run: TableRun, cfg: TermSourcesConfig, name: str, worker: type, kwargs: Mapping[str, Any]) -> None:
    from jobs.runtime import stages

    stage = stages.Stage(POOL, worker, dict(kwargs))
    step, size = kwargs["step"], sum(_span(task.unit) for task in run.todo)
    counted = "MB" if step == 10**6 else "kB"
    total = None if cfg.limit else size // step
    stages.process(run, name=name, stage=stage, resources=cfg.resources, total=total, counted=counted)
    outcomes.show(summary.closed(name, run))


def _span(unit: Unit) -> int:
    first, last = unit.extra[dump.SPAN]
    return int(last - first)


def _step(units: Sequence[Unit]) -> int:
    """Return how many compressed bytes make one unit of progress."""
    return 10**6 if sum(map(_span, units)) > 10**7 else 10**3


def _tree(cfg: TermSourcesConfig, graph: GraphInput) -> ClassTree:
    """Return the classes below the concepts, and print the concepts without any.

    Raises:
        RunError: no concept has a class or a root in the dump.
    """
    edges = ClassEdges(open_table(locations.join(cfg.out, EDGES), EDGES).batches())
    tree = ClassTree.of(edges, graph.concepts, graph.graph, depth=cfg.subclass_depth)
    sizes = tree.sizes(graph.concepts)
    without = [name for name, size in sizes.items() if not size]
    say(f"  {len(edges):,} subclass statements; {quantity(len(tree.number), 'class')} below concepts and types")
    if len(without) == len(sizes):
        roots = ", ".join(sorted(graph.concepts.titles)[:SHOWN])
        where = f"the first {cfg.limit:,} lines of the dump" if cfg.limit else "the dump"
        use = "a larger limit=" if cfg.limit else "another dump"
        raise RunError(
            f"none of its titles is in {where} ({roots}, …); use {use}, graph.site= or concepts=", key="concepts"
        )
    if without:
        say(f"  concepts without an entity of their title or id in the dump: {', '.join(without)}")
    return tree


def _hash(value: Any) -> str:
    return content_id(json.dumps(value, sort_keys=True, ensure_ascii=False))

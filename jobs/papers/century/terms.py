"""Tables 6 and 7: entities of the knowledge graph by concept and type."""

from collections.abc import Iterator

from jobs.metrics.descriptive import KNOWLEDGE_GRAPH, no_entities
from jobs.papers.century.words import titled
from jobs.papers.model import PaperCell, PaperRow, PaperTable
from jobs.papers.study import Study

MOST_CONCEPTS = 20  # of this report; the paper's concepts are always shown


def arrange(study: Study) -> Iterator[PaperTable]:
    """Yield tables 6 and 7, if the report has terms of a knowledge graph."""
    if not study.metrics.find("entities"):
        return
    by_count = sorted(
        (metric for metric in study.metrics.find("entities") if "concept" in metric.dims),
        key=lambda metric: (-(metric.value or 0), metric.dims["concept"]),
    )
    concepts = [metric.dims["concept"] for metric in by_count[:MOST_CONCEPTS]]
    concepts += [row for row in study.printed("table_6").rows if row not in concepts]
    rows = _rows(study, "table_6", "concept", concepts)
    yield _table("table_6", "Concepts with the most entities", header="Concept", rows=rows)
    types = study.metrics.values("entity_type", "entities")
    types += [row for row in study.printed("table_7").rows if row not in types and row != "distinct terms"]
    distinct = study.cell(
        "distinct_terms", {"source": KNOWLEDGE_GRAPH}, unit="count",
        printed=study.printed("table_7").at("distinct terms", "entities"), reason="no term is of a knowledge graph",
    )  # fmt: skip
    rows = [*_rows(study, "table_7", "entity_type", types), PaperRow(("Distinct terms",), (distinct,))]
    yield _table("table_7", "Entities by type", header="Entity type", rows=rows)


def _rows(study: Study, table: str, dim: str, values: list[str]) -> list[PaperRow]:
    """Return one row per value of a dim with its number of entities: 0 if the tables of terms have none."""
    printed, counted = study.printed(table), study.metrics.values(dim, "entities")
    metrics = (study.metrics.get("entities", {dim: v}) if v in counted else no_entities(dim, v) for v in values)
    return [
        PaperRow((titled(value),), (PaperCell(metric, printed.at(value, "entities"), "count"),))
        for value, metric in zip(values, metrics, strict=True)
    ]


def _table(name: str, title: str, *, header: str, rows: list[PaperRow]) -> PaperTable:
    return PaperTable(
        name=name,
        title=title,
        citation=f"Century, {name.replace('_', ' ')}",
        row_headers=(header,),
        columns=(("Entities",),),
        rows=tuple(rows),
        notes=("An entity that is linked to several concepts counts for each.",),
    )

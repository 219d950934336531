"""Tables of entity linking, from the metrics of remine evaluate (tables 3 and 4)."""

import re
from collections.abc import Iterator

from jobs.analysis.metric_tables import TABLE
from jobs.metrics.metric import Metric
from jobs.papers.model import PaperCell, PaperRow, PaperTable
from jobs.papers.study import Study

METHODS = {
    "named": "A model names the entity",
    "lemma_vision": "Nodes of the nearest pictures, by lemma",
    "gloss_vision": "Nodes of the nearest pictures, by gloss",
    "frequency_vision": "Nodes of the nearest pictures, by frequency",
    "lemma": "All lemmas",
    "gloss": "All glosses",
    "article": "All articles",
}
_ACCURACY = re.compile(r"accuracy@(\d+)")


def tables(study: Study) -> Iterator[PaperTable]:
    """Yield the tables if the report has computed metrics of linking, in tables named after the methods."""
    metrics: dict[tuple[str, str, int], Metric] = {}
    categories: dict[str, Metric] = {}
    for metric in study.computed.all:
        dataset = " + ".join(value for name, value in metric.dims.items() if name != TABLE)
        if match := _ACCURACY.fullmatch(metric.name):
            metrics[metric.dims[TABLE], dataset, int(match[1])] = metric
        elif metric.name == "right_answers":
            categories[dataset] = metric
    if metrics:
        yield _accuracy(study, metrics)
        yield _sizes(study, categories)


def _accuracy(study: Study, metrics: dict[tuple[str, str, int], Metric]) -> PaperTable:
    methods = sorted(
        {method for method, _, _ in metrics}, key=lambda m: (list(METHODS).index(m) if m in METHODS else 99, m)
    )
    datasets = sorted({dataset for _, dataset, _ in metrics})
    columns = [(dataset, k) for dataset in datasets for k in sorted({k for _, d, k in metrics if d == dataset})]
    printed = study.printed("table_3")
    more = [name for name in printed.table.columns if name not in {f"{dataset} @{k}" for dataset, k in columns}]
    levels = [(dataset or "All queries", f"@{k}") for dataset, k in columns]
    levels += [(name.partition(" @")[0], f"@{name.partition(' @')[2]}") for name in more]
    rows = []
    for method in [*methods, *(row for row in printed.rows if row not in methods)]:
        cells = [
            PaperCell(metrics.get((method, dataset, k)), printed.at(method, f"{dataset} @{k}"))
            for dataset, k in columns
        ]
        cells += [PaperCell(printed=printed.at(method, name)) for name in more]
        rows.append(PaperRow((METHODS.get(method, method),), tuple(cells)))
    return PaperTable(
        name="table_3",
        title="Accuracy of linking at k",
        citation="CAIRE, table 3",
        row_headers=("Method",),
        columns=tuple(levels),
        rows=tuple(rows),
        notes=("Each row is a table of remine evaluate named after the method; n counts pictures.",),
    )


def _sizes(study: Study, categories: dict[str, Metric]) -> PaperTable:
    printed = study.printed("table_4")
    names = [*sorted(categories), *(name for name in printed.rows if name not in categories)]
    rows = [
        PaperRow((name or "All queries",), (PaperCell(categories.get(name), printed.at(name, "categories"), "count"),))
        for name in names
    ]
    return PaperTable(
        name="table_4",
        title="Entities that are right answers",
        citation="CAIRE, table 4",
        row_headers=("Dataset",),
        columns=(("Entities",),),
        rows=tuple(rows),
        notes=("n counts pictures; the paper has ten per entity.",),
    )

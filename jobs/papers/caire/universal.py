"""Tables of the universal set, which people rated: correlations and agreement (tables 2 and 14 to 17)."""

from collections.abc import Iterator, Mapping, Sequence

from jobs.metrics.intervals import no_interval
from jobs.metrics.metric import Metric, MetricKind, estimated, undefined
from jobs.metrics.question import PEOPLE
from jobs.papers.caire.raters import ShownRater, dims, with_printed
from jobs.papers.metric_index import ABSENT, MetricIndex
from jobs.papers.model import PaperCell, PaperRow, PaperTable
from jobs.papers.study import Study

SOURCE, COUNTRY, CONCEPT = "source", "country", "concept"  # attributes of items
BY_IMAGE = "pearson_by_image"
AGREEMENT = {  # printed row -> metric, its dims, label
    "alpha": ("alpha", {"level": "ordinal"}, "Krippendorff's alpha, ordinal"),
    "weighted alpha": ("alpha", {"level": "interval"}, "Krippendorff's alpha, interval"),
    "spearman": ("pairwise_spearman", {}, "Spearman, mean over pairs"),
    "pearson": ("pairwise_pearson", {}, "Pearson, mean over pairs"),
}
STATISTICS = {  # printed column -> metric, label
    "mean": ("rater_correlation_mean", "Mean"),
    "max": ("rater_correlation_max", "Maximum"),
    "min": ("rater_correlation_min", "Minimum"),
    "median": ("rater_correlation_median", "Median"),
    "sd": ("rater_correlation_sd", "SD"),
    "average": ("correlation_with_average", "With the average"),
}
AVERAGED = {  # printed column -> metric, header
    "concept": ("pearson_concept_average", "Averaged by concept"),
    "global": ("pearson_global_average", "Averaged over all"),
}
Part = tuple[dict[str, str], str, tuple[str, str]]  # dims of a subgroup, printed column, header


def tables(study: Study, judges: Sequence[ShownRater]) -> Iterator[PaperTable]:
    """Yield the tables if people rated relevance."""
    judged = [j for j in judges if study.metrics.under(j.condition).find(BY_IMAGE, rater=j.rater)]
    if judged:
        yield _by_country(study, judged)
    if study.raters(dims(study)["rubric"], kinds=("human",)):
        yield _agreement(study)
    if judged:
        yield _by_concept(study, judged)
        yield _averages(study, judged)
        yield _single_raters(study, judged)


def _index(study: Study, judge: ShownRater) -> MetricIndex:
    return study.metrics.under(judge.condition)


def _parts(study: Study, attribute: str, metric: str, **fixed: str) -> list[Part]:
    """Return the subgroups by source and an attribute, or by the attribute alone if the items have no source.

    Each has a header of two levels: the attribute's value and the source.
    """
    for name in (f"{SOURCE}+{attribute}", attribute):
        values = list(
            dict.fromkeys(v for i in _indexes(study) for v in i.values("part", metric, attribute=name, **fixed))
        )
        if values:
            split = [value.split(" + ", 1) if "+" in name else ["", value] for value in values]
            order = sorted(range(len(values)), key=lambda n: (split[n][1], split[n][0] == "generated", split[n][0]))
            return [({"attribute": name, "part": values[n]}, values[n], (split[n][1], split[n][0])) for n in order]
    return []


def _overall(study: Study) -> list[Part]:
    """Return the columns of averages: natural and generated pictures, or all pictures if the items have no source."""
    values = sorted({v for i in _indexes(study) for v in i.values("part", BY_IMAGE, attribute=SOURCE)}, key=_last)
    return [({"attribute": SOURCE, "part": value}, value, ("All", value)) for value in values] or [
        ({}, "", ("All", ""))
    ]


def _indexes(study: Study) -> list[MetricIndex]:
    return [study.metrics, *(study.metrics.under(c) for c in sorted(study.metrics.conditions))]


def _last(source: str) -> tuple[bool, str]:
    return source == "generated", source


def _by_country(study: Study, judges: Sequence[ShownRater]) -> PaperTable:
    """Return table 2: the correlation over raters' countries, averaged over the pictures of each country."""
    parts = [*_parts(study, COUNTRY, BY_IMAGE), *_overall(study)]
    columns = [(BY_IMAGE, subgroup, column) for subgroup, column, _ in parts]
    rows = [_of_judge(study, judge, "table_2", columns) for judge in judges]
    return PaperTable(
        name="table_2",
        title="Correlation with people by country of the prompt",
        citation="CAIRE, table 2",
        row_headers=("Model", "Shown"),
        columns=tuple(header for _, _, header in parts),
        rows=with_printed(study, "table_2", rows, [column for _, _, column in columns], unit="number"),
        notes=(
            "Pearson correlation over the countries of the raters within a picture, averaged over the pictures whose "
            "prompt names the country; n counts pictures.",
        ),
    )


def _of_judge(
    study: Study, judge: ShownRater, table: str, columns: Sequence[tuple[str, dict[str, str], str]]
) -> tuple[str, PaperRow]:
    """Return the name of a judge's printed row, and its row.

    Args:
        columns: metric, dims of the subgroup, and printed column of each cell.
    """
    printed, of_row, index = study.printed(table), judge.in_paper(study), _index(study, judge)
    cells = (
        PaperCell(
            index.get(metric, _with_people(study, judge) | subgroup, reason=_not_rated(judge, subgroup)),
            printed.at(of_row, column),
            "number",
        )
        for metric, subgroup, column in columns
    )
    return of_row, PaperRow((judge.rater, judge.label), tuple(cells))


def _not_rated(judge: ShownRater, subgroup: Mapping[str, str]) -> str:
    """Return why a judge has no correlation with people on the pictures of a subgroup."""
    return f"{judge.rater} and people rated no common picture of {subgroup.get('part', 'any concept')}"


def _agreement(study: Study) -> PaperTable:
    """Return table 14: agreement among the raters of each country."""
    parts = _parts(study, "target", "alpha", group=PEOPLE)
    sources = list(dict.fromkeys(header[1] for _, _, header in parts))
    columns = [*(column for _, column, _ in parts), *sources]
    printed, rows = study.printed("table_14"), []
    for of_row, (metric, more, label) in AGREEMENT.items():
        values = [_first(study, metric, dims(study, group=PEOPLE, **more, **subgroup)) for subgroup, _, _ in parts]
        for source in sources:
            values.append(_mean([m for m, part in zip(values, parts, strict=False) if part[2][1] == source]))
        cells = (PaperCell(m, printed.at(of_row, column), "number") for m, column in zip(values, columns, strict=True))
        rows.append((of_row, PaperRow((label,), tuple(cells))))
    return PaperTable(
        name="table_14",
        title="Agreement among people by their country",
        citation="CAIRE, table 14",
        row_headers=("Measure",),
        columns=(*(header for _, _, header in parts), *(("Avg.", source) for source in sources)),
        rows=with_printed(study, "table_14", rows, columns, unit="number"),
        notes=(
            "The paper names neither the level of its alpha nor the weights of its weighted alpha; its numbers are "
            "shown next to the ordinal and the interval alpha. Avg. is the mean over countries, which n counts.",
        ),
    )


def _mean(values: Sequence[Metric]) -> Metric:
    """Return the mean of the metrics of several countries."""
    defined = [metric.value for metric in values if metric.value is not None]
    kind = MetricKind("country_average").defined_as(
        f"Mean over countries: {values[0].definition.partition(';')[0]}; n counts countries with a value."
    )
    coverage = len(defined) / len(values)
    if not defined:
        return undefined(kind, "no country has a value", coverage=coverage)
    interval = no_interval("the countries are all of the study")
    value = sum(defined) / len(defined)
    return estimated(kind, value, len(defined), coverage=coverage, interval=interval)


def _first(study: Study, metric: str, wanted: dict[str, str]) -> Metric:
    """Return a metric of people, which is the same under every condition."""
    reason = f"people rated no picture of {wanted.get('part', 'any country')}"
    metrics = [index.get(metric, wanted, reason=reason) for index in _indexes(study)]
    return next((m for m in metrics if m.definition != ABSENT), metrics[0])


def _by_concept(study: Study, judges: Sequence[ShownRater]) -> PaperTable:
    """Return table 15: the columns of table 2 for each concept, for raters that were shown the linked article."""
    chosen = [j for j in judges if j.role == "article"] or list(judges)
    parts = _parts(study, CONCEPT, BY_IMAGE)
    concepts = list(dict.fromkeys(header[0] for _, _, header in parts))
    sources = list(dict.fromkeys(header[1] for _, _, header in parts))
    by_header = {header: subgroup for subgroup, _, header in parts}
    printed, rows = study.printed("table_15"), []
    for concept in concepts:
        cells = []
        for judge in chosen:
            for source in sources:
                column = f"{study.name_in_paper(judge.rater) or judge.rater} / {source}"
                number = printed.at(concept, column) if judge.role == "article" else None
                subgroup = by_header.get((concept, source))
                metric = None
                if subgroup:
                    dims_of_cell, reason = _with_people(study, judge) | subgroup, _not_rated(judge, subgroup)
                    metric = _index(study, judge).get(BY_IMAGE, dims_of_cell, reason=reason)
                cells.append(PaperCell(metric, number, "number"))
        rows.append((concept, PaperRow((concept,), tuple(cells))))
    columns = tuple((f"{judge.rater}, {judge.label}", source) for judge in chosen for source in sources)
    return PaperTable(
        name="table_15",
        title="Correlation with people by concept",
        citation="CAIRE, table 15",
        row_headers=("Concept",),
        columns=columns,
        rows=tuple(row for _, row in rows),
        notes=(
            "Pearson correlation over the countries of the raters within a picture, averaged over the concept's "
            "pictures; n counts pictures.",
        ),
    )


def _averages(study: Study, judges: Sequence[ShownRater]) -> PaperTable:
    """Return table 16: correlations of scores averaged over a concept's pictures, and over all pictures."""
    readings = [(name, subgroup, source) for name in AVERAGED for subgroup, source, _ in _overall(study)]
    columns = [(AVERAGED[name][0], subgroup, f"{name} {source}") for name, subgroup, source in readings]
    rows = [_of_judge(study, judge, "table_16", columns) for judge in judges]
    return PaperTable(
        name="table_16",
        title="Correlation with people of averaged scores",
        citation="CAIRE, table 16",
        row_headers=("Model", "Shown"),
        columns=tuple((AVERAGED[name][1], source) for name, _, source in readings),
        rows=with_printed(study, "table_16", rows, [column for _, _, column in columns], unit="number"),
        notes=("The paper prints these numbers times 100.",),
    )


def _single_raters(study: Study, judges: Sequence[ShownRater]) -> PaperTable:
    """Return table 17: one model against the single raters of each country."""
    judge = _best(study, judges)
    index, overall = _index(study, judge), _overall(study)
    columns = [(name, subgroup, source) for name in STATISTICS for subgroup, source, _ in overall]
    at = _with_people(study, judge)
    countries = sorted({t for name, _ in STATISTICS.values() for t in index.values("target", name, **at)})
    printed, rows = study.printed("table_17"), []
    for country in countries:
        cells = tuple(
            PaperCell(
                index.get(STATISTICS[name][0], at | subgroup | {"target": country}, reason=_not_rated(judge, subgroup)),
                printed.at(country, f"{name} {source}"),
                "number",
            )
            for name, subgroup, source in columns
        )
        rows.append((country, PaperRow((country,), cells)))
    return PaperTable(
        name="table_17",
        title=f"Correlation of {judge.rater}, {judge.label}, with single raters by their country",
        citation="CAIRE, table 17",
        row_headers=("Country",),
        columns=tuple((STATISTICS[name][1], source) for name, _, source in columns),
        rows=tuple(row for _, row in rows),
        notes=("The paper prints these numbers, of Qwen2.5-VL-7B with the linked article, times 100.",),
    )


def _best(study: Study, judges: Sequence[ShownRater]) -> ShownRater:
    """Return the judge with linked articles that correlates most with people, of the rater set in the options if any.

    Without one that was shown linked articles, return the one of all that correlates most.
    """
    name = study.settings.options.get("rater")
    among = [j for j in judges if name and name in (j.rater, study.name_in_paper(j.rater))] or judges

    def correlation(judge: ShownRater) -> float:
        value = _index(study, judge).get(BY_IMAGE, _with_people(study, judge)).value
        return -2.0 if value is None else value

    linked = [j for j in among if j.role in ("article", "titles")]
    return max(linked or among, key=correlation)


def _with_people(study: Study, judge: ShownRater) -> dict[str, str]:
    return dims(study, rater=judge.rater, group=PEOPLE)

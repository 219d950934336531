"""The tables of CAIRE (Yayavaram et al., 2025), in the order of the paper.

Of the specific set, whose right labels are known, F1 (tables 1, 8, 10 and 11); of entity linking, the metrics of remine
evaluate (tables 3 and 4); of the universal set, which people rated, correlations and agreement (tables 2 and 14 to 17).

Options (`paper.options`): `none`, `article`, `titles` and `gold`, the conditions of the ratings with these contexts;
`average` and `reading` for F1; `rater` for table 17.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobs.analysis.conditions import LIKELIHOOD, reference_for
from jobs.analysis.metrics_output import TABLE
from jobs.metrics.intervals import no_interval
from jobs.metrics.metric import Metric, MetricKind, estimated, undefined
from jobs.metrics.rated_question import PEOPLE
from jobs.papers.paper_tables import PaperCell, PaperPart, PaperRow, PaperTable
from jobs.papers.study import ABSENT, ColumnSpec, MetricIndex, RowSpec, Study
from jobs.tables import CONDITION

CALIBRATED = "log-likelihood"  # suffix of the condition of ratings by remine calibrate
ROLE, QUESTION = "relevance", "relevance"
SHOWN = {
    "encoder": "encoder",
    "none": "no context",
    "article": "linked article",
    "titles": "titles of linked articles",
    "gold": "right article",
    "likelihood": "linked article, likelihood of labels",
    "gold likelihood": "right article, likelihood of labels",
}  # role of a condition in the paper -> label, in the order of table 1
ROW_HEADERS = ("Model", "Shown")
F1_TABLES = {  # name -> roles of its rows, title
    "table_1": (("encoder", "none", "article", "titles"), "F1 against the right labels"),
    "table_8": (("likelihood",), "F1 by the likelihood of labels"),
    "table_10": (("gold", "gold likelihood"), "F1 with the right article"),
}
METHODS = {  # of linking
    "named": "A model names the entity",
    "lemma_vision": "Nodes of the nearest pictures, by lemma",
    "gloss_vision": "Nodes of the nearest pictures, by gloss",
    "frequency_vision": "Nodes of the nearest pictures, by frequency",
    "lemma": "All lemmas",
    "gloss": "All glosses",
    "article": "All articles",
}
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
_ACCURACY = re.compile(r"accuracy@(\d+)")


def arrange(study: Study) -> Iterator[PaperPart]:
    """Yield the tables that the report's ratings and computed metrics allow."""
    judges = asked(study)
    parts = [*of_right_labels(study, judges), *of_linking(study), *of_people(study, judges)]
    yield from sorted(parts, key=lambda part: int(part.name.removeprefix("table_")))


@dataclass(frozen=True)
class ShownRater:
    """A rater under one condition.

    Attributes:
        role: the paper's name of the condition (a key of `SHOWN`), or the name of any other condition.
    """

    rater: str
    condition: str
    role: str

    @property
    def headers(self) -> tuple[str, str]:
        """The rater, and the context that it was shown."""
        return self.rater, SHOWN.get(self.role, self.role or "no condition")

    def in_paper(self, study: Study) -> str:
        """Return the name of the printed row."""
        return f"{study.name_in_paper(self.rater) or self.rater} / {self.role}"


def asked(study: Study) -> list[ShownRater]:
    """Return the models and encoders that rated relevance, with their conditions, in the order of table 1."""
    rubric = study.rubric(ROLE)
    role_of = {condition: role for role, condition in study.settings.options.items() if role in SHOWN}
    judges = []
    for key in study.reduction.keys:
        if key[:2] != (rubric, QUESTION):
            continue
        condition = dict(zip(study.reduction.by, key[2:], strict=True))[CONDITION]
        for rater, methods in study.reduction.methods_of(key).items():
            kind = study.summary.raters.kinds.get(rater, "model")
            context, _, calibration = condition.rpartition("; ") if CALIBRATED in condition else (condition, "", "")
            role = role_of.get(context, condition)
            if kind == "encoder":
                role = "encoder"
            elif LIKELIHOOD in methods or calibration == CALIBRATED:
                role = "gold likelihood" if role == "gold" else "likelihood"
            if kind in ("model", "encoder"):
                judges.append(ShownRater(rater, condition, role))
    places = {role: place for place, role in enumerate(SHOWN)}
    return sorted(set(judges), key=lambda j: (places.get(j.role, len(places)), j.rater, j.condition))


def _dims(study: Study, **more: str) -> dict[str, str]:
    """Return the dims of a metric of relevance."""
    return {"rubric": study.rubric(ROLE), "question": QUESTION, **more}


def _of_paper(printed: str) -> tuple[str, ...]:
    """Return the headers of a row that only the paper has."""
    rater, _, role = printed.partition(" / ")
    return (rater, SHOWN.get(role, role)) if role else (rater,)


def of_right_labels(study: Study, judges: Sequence[ShownRater]) -> Iterator[PaperTable]:
    """Yield tables 1, 8, 10 and 11 if the items of the ratings have right labels."""
    if not study.metrics.find("f1") and not any(study.metrics.under(j.condition).find("f1") for j in judges):
        return
    roles_of_tables = {role for roles, _ in F1_TABLES.values() for role in roles}
    for name, (roles, title) in F1_TABLES.items():
        rows = [j for j in judges if j.role in roles or (name == "table_1" and j.role not in roles_of_tables)]
        yield _f1_table(study, name, title, rows)
    yield _ratios(study, [j for j in judges if j.role not in ("gold", "gold likelihood", "encoder", "none")])


def _f1_table(study: Study, name: str, title: str, judges: Sequence[ShownRater]) -> PaperTable:
    printed, baseline, columns = study.printed(name), study.metric_settings.baseline_condition, ["f1", "change"]
    if name == "table_10":
        columns = ["f1"]
    rows, used = [], set()
    for judge in judges:
        used.add(judge.in_paper(study))
        metrics, of_judge = study.metrics.under(judge.condition), _dims(study, group=judge.rater)
        f1 = metrics.get("f1", of_judge | _reading(study), reason=_no_f1(judge, bool(metrics.find("f1", **of_judge))))
        cells = [PaperCell(f1, printed.at(judge.in_paper(study), "f1")), _change(study, judge, baseline)]
        rows.append(PaperRow(judge.headers, tuple(cells[: len(columns)])))
    label = f"Change from {baseline!r}" if baseline is not None else "Change"
    options = study.settings.options
    return PaperTable(
        name=name,
        title=title,
        citation=f"CAIRE, table {name.removeprefix('table_')}",
        row_headers=ROW_HEADERS,
        columns=(("F1",), (label,))[: len(columns)],
        rows=(*rows, *printed.rows_alone(columns, headers=_of_paper, without=used)),
        notes=(
            f"F1 is the {options.get('average', 'micro')} average; a label is predicted where the score is "
            f"{options.get('reading', '>=4')}.",
            "Changes are paired by item and label, of the same rater. A model without ratings under the baseline, such "
            "as a text model, is compared with the model that has the highest F1 there, as in the paper.",
        ),
    )


def _no_f1(judge: ShownRater, has_other: bool) -> str:
    """Return why a judge has no F1 of the average and reading in the options; `has_other`: it has one of others."""
    if has_other:
        return "paper.options.average or reading is none that was computed: see metrics.positive"
    if "likelihood" in judge.role and CALIBRATED not in judge.condition:
        return "likelihoods are no scores; calibrate them (remine calibrate)"
    return f"no right label of the items that {judge.rater} rated is known"


def _change(study: Study, judge: ShownRater, baseline: str | None) -> PaperCell:
    """Return the change of F1 from the baseline, for a model without ratings under it from the best one that has them.

    Encoders are shown no context, and have no change.
    """
    printed = study.printed("table_8" if "likelihood" in judge.role else "table_1").at(judge.in_paper(study), "change")
    if baseline is None or judge.condition == baseline or judge.role == "encoder":
        return PaperCell(printed=printed)
    at = _dims(study, group=judge.rater, first=baseline, second=judge.condition, **_reading(study))
    reason = f"{judge.rater} has no ratings under {baseline!r}, and no model has F1 there to compare it with"
    own_change = study.metrics.get("f1_change", at, reason=reason)
    return PaperCell(
        own_change if own_change.definition != ABSENT else study.metrics.first("f1_over_best", at, reason=reason),
        printed,
    )


def _ratios(study: Study, judges: Sequence[ShownRater]) -> PaperTable:
    """Return table 11: F1 with linked context, divided by F1 with the right article."""
    reference, rows = study.metric_settings.reference_condition, []
    for judge in judges:
        right = reference_for(judge.condition, reference or "", study.metrics.conditions)
        reason = f"{judge.rater} has no ratings under {right!r}, the condition with the right article"
        if not reference:
            reason = "no ratings have the condition with the right article (metrics.reference_condition)"
        of_judge = _dims(study, group=judge.rater, first=right, second=judge.condition, **_reading(study))
        rows.append(RowSpec(judge.headers, of_judge, judge.in_paper(study), reason))
    return study.table(
        "table_11",
        "F1 with linked context / F1 with the right article",
        "CAIRE, table 11",
        row_headers=ROW_HEADERS,
        rows=rows,
        columns=[ColumnSpec(("Ratio",), "f1_ratio", printed="ratio")],
        others=_of_paper,
        notes=(
            "Paired by item and label, of the same rater. Likelihoods are compared with likelihoods, if there are any "
            "with the right article.",
        ),
    )


def _reading(study: Study) -> dict[str, str]:
    options = study.settings.options
    return {"average": options.get("average", "micro"), "positive": options.get("reading", ">=4")}


def of_linking(study: Study) -> Iterator[PaperTable]:
    """Yield tables 3 and 4 if the report has computed metrics of linking, in tables named after the methods."""
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
    columns = sorted({(dataset, k) for _, dataset, k in metrics})
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
        notes=("Each row is a table of remine link evaluate named after the method; n counts pictures.",),
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


def of_people(study: Study, judges: Sequence[ShownRater]) -> Iterator[PaperTable]:
    """Yield tables 2 and 14 to 17 if people rated relevance."""
    judged = [j for j in judges if study.metrics.under(j.condition).find(BY_IMAGE, rater=j.rater)]
    if judged:
        yield _by_country(study, judged)
    if study.raters(study.rubric(ROLE), kinds=("human",)):
        yield _agreement(study)
    if judged:
        yield _by_concept(study, judged)
        yield _averages(study, judged)
        yield _single_raters(study, judged)


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
    values = {v for i in _indexes(study) for v in i.values("part", BY_IMAGE, attribute=SOURCE)}
    ordered = sorted(values, key=lambda source: (source == "generated", source))
    return [({"attribute": SOURCE, "part": value}, value, ("All", value)) for value in ordered] or [
        ({}, "", ("All", ""))
    ]


def _indexes(study: Study) -> list[MetricIndex]:
    return [study.metrics, *(study.metrics.under(c) for c in sorted(study.metrics.conditions))]


def _with_people(study: Study, judges: Sequence[ShownRater]) -> list[RowSpec]:
    """Return a row per judge of its correlations with people."""
    return [
        RowSpec(judge.headers, _dims(study, rater=judge.rater, group=PEOPLE), judge.in_paper(study),
                metrics=study.metrics.under(judge.condition))
        for judge in judges
    ]  # fmt: skip


def _not_rated(rater: str, subgroup: Mapping[str, str]) -> str:
    """Return why a judge has no correlation with people on the pictures of a subgroup."""
    return f"{rater} and people rated no common picture of {subgroup.get('part', 'any concept')}"


def _by_country(study: Study, judges: Sequence[ShownRater]) -> PaperTable:
    """Return table 2: the correlation over raters' countries, averaged over the pictures of each country."""
    return study.table(
        "table_2",
        "Correlation with people by country of the prompt",
        "CAIRE, table 2",
        row_headers=ROW_HEADERS,
        rows=_with_people(study, judges),
        columns=[
            ColumnSpec(header, BY_IMAGE, subgroup, column, "number")
            for subgroup, column, header in [*_parts(study, COUNTRY, BY_IMAGE), *_overall(study)]
        ],
        reason=lambda row, column: _not_rated(row.dims["rater"], column.dims),
        others=_of_paper,
        notes=(
            "Pearson correlation over the countries of the raters within a picture, averaged over the pictures whose "
            "prompt names the country; n counts pictures.",
        ),
    )


def _agreement(study: Study) -> PaperTable:
    """Return table 14: agreement among the raters of each country."""
    parts = _parts(study, "target", "alpha", group=PEOPLE)
    sources = list(dict.fromkeys(header[1] for _, _, header in parts))
    columns = [*(column for _, column, _ in parts), *sources]
    printed, rows = study.printed("table_14"), []
    for of_row, (metric, more, label) in AGREEMENT.items():
        values = [_first(study, metric, _dims(study, group=PEOPLE, **more, **subgroup)) for subgroup, _, _ in parts]
        for source in sources:
            values.append(_mean([m for m, part in zip(values, parts, strict=False) if part[2][1] == source]))
        cells = (PaperCell(m, printed.at(of_row, column), "number") for m, column in zip(values, columns, strict=True))
        rows.append(PaperRow((label,), tuple(cells)))
    return PaperTable(
        name="table_14",
        title="Agreement among people by their country",
        citation="CAIRE, table 14",
        row_headers=("Measure",),
        columns=(*(header for _, _, header in parts), *(("Avg.", source) for source in sources)),
        rows=(*rows, *printed.rows_alone(columns, headers=_of_paper, without=AGREEMENT, unit="number")),
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
    subgroup_of = {header: subgroup for subgroup, _, header in parts}
    columns = [(judge, source) for judge in chosen for source in dict.fromkeys(header[1] for _, _, header in parts)]
    printed, rows = study.printed("table_15"), []
    for concept in dict.fromkeys(header[0] for _, _, header in parts):
        cells = []
        for judge, source in columns:
            column = f"{study.name_in_paper(judge.rater) or judge.rater} / {source}"
            number = printed.at(concept, column) if judge.role == "article" else None
            metric = None
            if subgroup := subgroup_of.get((concept, source)):
                dims = _dims(study, rater=judge.rater, group=PEOPLE, **subgroup)
                reason = _not_rated(judge.rater, subgroup)
                metric = study.metrics.under(judge.condition).get(BY_IMAGE, dims, reason=reason)
            cells.append(PaperCell(metric, number, "number"))
        rows.append(PaperRow((concept,), tuple(cells)))
    return PaperTable(
        name="table_15",
        title="Correlation with people by concept",
        citation="CAIRE, table 15",
        row_headers=("Concept",),
        columns=tuple((", ".join(judge.headers), source) for judge, source in columns),
        rows=tuple(rows),
        notes=(
            "Pearson correlation over the countries of the raters within a picture, averaged over the concept's "
            "pictures; n counts pictures.",
        ),
    )


def _averages(study: Study, judges: Sequence[ShownRater]) -> PaperTable:
    """Return table 16: correlations of scores averaged over a concept's pictures, and over all pictures."""
    return study.table(
        "table_16",
        "Correlation with people of averaged scores",
        "CAIRE, table 16",
        row_headers=ROW_HEADERS,
        rows=_with_people(study, judges),
        columns=[
            ColumnSpec((header, source), metric, subgroup, f"{name} {source}", "number")
            for name, (metric, header) in AVERAGED.items()
            for subgroup, source, _ in _overall(study)
        ],
        reason=lambda row, column: _not_rated(row.dims["rater"], column.dims),
        others=_of_paper,
        notes=("The paper prints these numbers times 100.",),
    )


def _single_raters(study: Study, judges: Sequence[ShownRater]) -> PaperTable:
    """Return table 17: one model against the single raters of each country."""
    judge = _best(study, judges)
    (of_judge,) = _with_people(study, [judge])
    index = study.metrics.under(judge.condition)
    countries = {t for name, _ in STATISTICS.values() for t in index.values("target", name, **of_judge.dims)}
    return study.table(
        "table_17",
        f"Correlation of {', '.join(judge.headers)}, with single raters by their country",
        "CAIRE, table 17",
        row_headers=("Country",),
        rows=[
            RowSpec((country,), {**of_judge.dims, "target": country}, country, metrics=index)
            for country in sorted(countries)
        ],
        columns=[
            ColumnSpec((label, source), metric, subgroup, f"{name} {source}", "number")
            for name, (metric, label) in STATISTICS.items()
            for subgroup, source, _ in _overall(study)
        ],
        reason=lambda _, column: _not_rated(judge.rater, column.dims),
        notes=("The paper prints these numbers, of Qwen2.5-VL-7B with the linked article, times 100.",),
    )


def _best(study: Study, judges: Sequence[ShownRater]) -> ShownRater:
    """Return the judge with linked articles that correlates most with people, of the rater set in the options if any.

    Without one that was shown linked articles, return the one of all that correlates most.
    """
    name = study.settings.options.get("rater")
    among = [j for j in judges if name and name in (j.rater, study.name_in_paper(j.rater))] or judges

    def correlation(judge: ShownRater) -> float:
        of_judge = _dims(study, rater=judge.rater, group=PEOPLE)
        value = study.metrics.under(judge.condition).get(BY_IMAGE, of_judge).value
        return -2.0 if value is None else value

    linked = [j for j in among if j.role in ("article", "titles")]
    return max(linked or among, key=correlation)

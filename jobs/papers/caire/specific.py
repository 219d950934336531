"""Tables of the specific set, whose right labels are known: F1 (tables 1, 8, 10 and 11)."""

from collections.abc import Iterator, Sequence

from jobs.analysis.conditions import reference_for
from jobs.papers.caire.raters import CALIBRATED, ShownRater, dims, with_printed
from jobs.papers.metric_index import ABSENT
from jobs.papers.model import PaperCell, PaperRow, PaperTable
from jobs.papers.study import Study

MODEL, SHOWN = "Model", "Shown"
TABLES = {  # name -> roles of its rows, title
    "table_1": (("encoder", "none", "article", "titles"), "F1 against the right labels"),
    "table_8": (("likelihood",), "F1 by the likelihood of labels"),
    "table_10": (("gold", "gold likelihood"), "F1 with the right article"),
}


def tables(study: Study, judges: Sequence[ShownRater]) -> Iterator[PaperTable]:
    """Yield the tables if the items of the ratings have right labels."""
    if not study.metrics.find("f1") and not any(study.metrics.under(j.condition).find("f1") for j in judges):
        return
    roles_of_tables = {role for roles, _ in TABLES.values() for role in roles}
    for name, (roles, title) in TABLES.items():
        rows = [j for j in judges if j.role in roles or (name == "table_1" and j.role not in roles_of_tables)]
        yield _f1_table(study, name, title, rows)
    yield _ratios(study, [j for j in judges if j.role not in ("gold", "gold likelihood", "encoder", "none")])


def _f1_table(study: Study, name: str, title: str, judges: Sequence[ShownRater]) -> PaperTable:
    printed, baseline = study.printed(name), study.metric_settings.baseline_condition
    changes = name != "table_10"
    rows: list[tuple[str, PaperRow]] = []
    for judge in judges:
        of_row, metrics = judge.in_paper(study), study.metrics.under(judge.condition)
        of_judge = dims(study, group=judge.rater)
        f1 = metrics.get("f1", of_judge | _reading(study), reason=_no_f1(judge, bool(metrics.find("f1", **of_judge))))
        cells = [PaperCell(f1, printed.at(of_row, "f1"))]
        if changes:
            cells.append(_change(study, judge, baseline))
        rows.append((of_row, PaperRow((judge.rater, judge.label), tuple(cells))))
    label = f"Change from {baseline!r}" if baseline is not None else "Change"
    options = study.settings.options
    return PaperTable(
        name=name,
        title=title,
        citation=f"CAIRE, table {name.removeprefix('table_')}",
        row_headers=(MODEL, SHOWN),
        columns=(("F1",), (label,)) if changes else (("F1",),),
        rows=with_printed(study, name, rows, ["f1", "change"] if changes else ["f1"]),
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
    at = dims(study, group=judge.rater, first=baseline, second=judge.condition, **_reading(study))
    reason = f"{judge.rater} has no ratings under {baseline!r}, and no model has F1 there to compare it with"
    own_change = study.metrics.get("f1_change", at, reason=reason)
    return PaperCell(
        own_change if own_change.definition != ABSENT else study.metrics.first("f1_over_best", at, reason=reason),
        printed,
    )


def _ratios(study: Study, judges: Sequence[ShownRater]) -> PaperTable:
    """Return table 11: F1 with linked context, divided by F1 with the right article."""
    printed, reference = study.printed("table_11"), study.metric_settings.reference_condition
    conditions = study.metrics.conditions
    rows: list[tuple[str, PaperRow]] = []
    for judge in judges:
        of_row = judge.in_paper(study)
        right = reference_for(judge.condition, reference or "", conditions)
        both = {"first": right, "second": judge.condition}
        reason = f"{judge.rater} has no ratings under {right!r}, the condition with the right article"
        if not reference:
            reason = "no ratings have the condition with the right article (metrics.reference_condition)"
        cell = study.cell(
            "f1_ratio", dims(study, group=judge.rater, **both, **_reading(study)),
            printed=printed.at(of_row, "ratio"), reason=reason,
        )  # fmt: skip
        rows.append((of_row, PaperRow((judge.rater, judge.label), (cell,))))
    return PaperTable(
        name="table_11",
        title="F1 with linked context / F1 with the right article",
        citation="CAIRE, table 11",
        row_headers=(MODEL, SHOWN),
        columns=(("Ratio",),),
        rows=with_printed(study, "table_11", rows, ["ratio"]),
        notes=(
            "Paired by item and label, of the same rater. Likelihoods are compared with likelihoods, if there are any "
            "with the right article.",
        ),
    )


def _reading(study: Study) -> dict[str, str]:
    options = study.settings.options
    return {"average": options.get("average", "micro"), "positive": options.get("reading", ">=4")}

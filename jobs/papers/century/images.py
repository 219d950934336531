"""Tables 1, 2 and 8 and figure 6: the contents and the sensitivity of the pictures."""

from collections.abc import Iterator, Sequence

from jobs.analysis.report_tables import ALL_PEOPLE
from jobs.metrics.majority import NO_MAJORITY, NONE
from jobs.metrics.question import PEOPLE
from jobs.papers.century.words import ALL_MODELS, DIVERSITY, PEOPLES, SCALES, short, titled
from jobs.papers.model import PaperCell, PaperFigure, PaperRow, PaperTable
from jobs.papers.study import Study
from jobs.plots.figures import small_multiples
from jobs.plots.panels import StackedBars

ROLE = "images"
SOMEWHAT = "3"  # the threshold of table 2
SHOWN = "share of pictures whose answer by majority is this one"


def table_1(study: Study) -> PaperTable:
    """Return the shares of pictures by people's majority answer."""
    return _diversity(study, "table_1", [(PEOPLE, PEOPLES)], "What the pictures show, by majority of people")


def table_8(study: Study) -> PaperTable:
    """Return the shares of pictures by majority answer, of each model and of people."""
    rubric = study.rubric(ROLE)
    groups = [(rater, short(rater)) for rater in study.raters(rubric)]
    groups += study.groups(rubric, people=PEOPLES, models=ALL_MODELS)
    return _diversity(study, "table_8", groups, "What the pictures show, by labeller")


def _diversity(study: Study, name: str, groups: list[tuple[str, str]], title: str) -> PaperTable:
    """Return a table of majority answers: a row per answer, a column per group, and the paper's other groups last."""
    printed, rubric = study.printed(name), study.rubric(ROLE)
    others = study.unmatched(printed.table.columns, [group for group, _ in groups])
    rows = []
    for question in DIVERSITY:
        for answer in _answers(study, question, [row.partition(" / ")[2] for row in printed.rows_of(question)]):
            row = f"{question} / {answer}"
            group_cells = [
                study.cell(
                    "majority_share",
                    {"rubric": rubric, "question": question, "group": group, "answer": answer},
                    printed=printed.at(row, study.name_in_paper(group) or ""),
                    reason=_no_majority(study, question, group),
                )
                for group, _ in groups
            ]
            cells = (*group_cells, *(PaperCell(printed=printed.at(row, other)) for other in others))
            rows.append(PaperRow((titled(question), titled(answer)), cells))
    return PaperTable(
        name=name,
        title=title,
        citation=f"Century, table {name[-1]}",
        row_headers=("Dimension", "Answer"),
        columns=(*((label,) for _, label in groups), *((other,) for other in others)),
        rows=tuple(rows),
        notes=_counted(study, DIVERSITY, "A single model’s answer is its majority."),
    )


def _counted(study: Study, questions: Sequence[str], more: str = "") -> tuple[str, ...]:
    """Return the notes of a table about the pictures that it counts."""
    needed = study.people_needed(study.rubric(ROLE), questions, items="pictures")
    return tuple(filter(None, (f"n counts pictures rated by the labeller or group. {more}".strip(), needed)))


def _no_majority(study: Study, question: str, group: str) -> str:
    """Return why a group's answers to a question have no share of an answer."""
    rubric = study.rubric(ROLE)
    shares = study.metrics.find("majority_share", rubric=rubric, question=question, group=group)
    if any(share.value is not None for share in shares):
        return "nobody gave this answer"
    return str(shares[0].reason) if shares else study.no_rating(rubric, question, group)


def _answers(study: Study, question: str, printed: list[str]) -> list[str]:
    """Return the answers to a question in the rubric's order; those for none and for no majority come last."""
    answers = study.metrics.values("answer", "majority_share", rubric=study.rubric(ROLE), question=question)
    last = [answer for answer in (NONE, NO_MAJORITY) if answer in answers or answer in printed]
    return [*dict.fromkeys(a for a in [*answers, *printed] if a not in (NONE, NO_MAJORITY, "all")), *last]


def table_2(study: Study) -> PaperTable:
    """Return the shares of pictures that are not at all, or at least somewhat, sensitive and so on, by labeller."""
    rows = [row for question in SCALES for row in _labellers(study, question)]
    return PaperTable(
        name="table_2",
        title="Pictures that are sensitive, controversial and commemorative, by labeller",
        citation="Century, table 2",
        row_headers=("Dimension of quality", "Labelling method"),
        columns=(("“Not at all” (1)", "by mean"), ("“Somewhat” (3) or higher", "by mean"),
                 ("“Somewhat” (3) or higher", "by any rater")),
        rows=tuple(rows),
        notes=_counted(study, SCALES),
    )  # fmt: skip


def _labellers(study: Study, question: str) -> Iterator[PaperRow]:
    """Yield a row of table 2 for people, all models and each model, then for labellers that only the paper has."""
    printed, rubric = study.printed("table_2"), study.rubric(ROLE)
    used, groups = set(), study.groups(rubric, people=PEOPLES, models=ALL_MODELS)
    for group, label in (*groups, *((rater, short(rater)) for rater in study.raters(rubric))):
        in_paper = f"{question} / {study.name_in_paper(group) or ''}"
        used.add(in_paper)
        dims = {"rubric": rubric, "question": question, "group": group}
        at_least = {"threshold": SOMEWHAT, **dims}
        by_mean, by_any = at_least | {"rule": "mean"}, at_least | {"rule": "any"}
        absent = study.no_rating(rubric, question, group)
        if study.metrics.find("share_lowest", **dims):
            absent = f"metrics.at_least has no {SOMEWHAT} that is on the scale"
        of_mean = study.cell("share_at_least", by_mean, printed=printed.at(in_paper, "somewhat by mean"), reason=absent)
        single = "the group has one rater" if study.metrics.find("share_at_least", **by_mean) else absent
        of_any = study.cell("share_at_least", by_any, printed=printed.at(in_paper, "somewhat by any"), reason=single)
        cells = (
            study.cell("share_lowest", dims, printed=printed.at(in_paper, "lowest"), reason=absent),
            of_mean,
            of_any if (group, label) in groups else PaperCell(),
        )
        yield PaperRow((titled(question), label), cells)
    yield from printed.rows_alone(
        printed.table.columns,
        headers=lambda row: (titled(question), row.partition(" / ")[2]),
        part=question,
        without=used,
    )


def figure_6(study: Study) -> PaperFigure:
    """Return the distribution of scores by labeller, as stacked bars and as a table."""
    rubric = study.rubric(ROLE)
    raters = [(rater, short(rater)) for rater in study.raters(rubric)]
    if study.raters(rubric, kinds=("human",)):
        raters.append((ALL_PEOPLE, PEOPLES))
    levels = [f"{level}" for level in range(1, 6)]
    panels, rows = [], []
    for question in SCALES:
        cells = [
            [
                study.cell("share", {"rubric": rubric, "question": question, "rater": rater, "answer": level},
                           reason=_no_share(study, question, rater))
                for level in levels
            ]
            for rater, _ in raters
        ]  # fmt: skip
        shares = [[cell.metric.value if cell.metric else None for cell in line] for line in cells]
        bars = StackedBars(shares, [label for _, label in raters], levels, legend=question == SCALES[0])
        panels.append((titled(question), bars))
        rows += [
            PaperRow((titled(question), label), tuple(line)) for (_, label), line in zip(raters, cells, strict=True)
        ]
    title = "Distribution of the scores of pictures by labeller"
    text = "Stacked bars: share of ratings with each score from 1 (not at all) to 5 (very), one bar per labeller."
    svg = small_multiples(panels, title=title, description=text, columns=1)
    columns = tuple((level,) for level in levels)
    numbers = PaperTable("figure_6", title, "Century, figure 6", ("Dimension of quality", "Labeller"), columns,
                         tuple(rows), ("n counts ok ratings.",))  # fmt: skip
    return PaperFigure("figure_6", title, "Century, figure 6 (drawn without numbers in the paper)", svg, numbers)


def _no_share(study: Study, question: str, rater: str) -> str:
    """Return why a rater's answers to a question have no share of a score."""
    rubric = study.rubric(ROLE)
    if study.metrics.find("share", rubric=rubric, question=question, rater=rater):
        return "nobody gave this answer"
    return study.no_rating(rubric, question, PEOPLE if rater == ALL_PEOPLE else rater)

"""Table 2, the comparison of pictures, and the ranking of the models that drew them."""

from collections.abc import Iterator

from jobs.metrics.pairs import ANSWERS, PROBABILITIES
from jobs.metrics.question import PEOPLE
from jobs.papers.model import PaperCell, PaperFigure, PaperRow, PaperTable
from jobs.papers.rome.scenarios import dims_of, printed_only
from jobs.papers.study import Study
from jobs.plots.figures import plot
from jobs.plots.panels import Estimate, Intervals

ROLE = "comparison"
NO_PEOPLE = "no answers of people to pairs"


def table_2(study: Study) -> PaperTable:
    """Return each model's agreement with people, in one order as in the paper and over both, and its position bias."""
    dims, printed = dims_of(study, ROLE), study.printed("table_2")
    rows, used = [], set()
    for rater in study.raters(study.rubric(ROLE)):
        in_paper = study.name_in_paper(rater) or ""
        used.add(in_paper)
        of_rater = dims | {"rater": rater}
        agreement = [
            study.cell("preference_agreement", of_rater | {"group": PEOPLE}, reason=NO_PEOPLE,
                       printed=printed.at(in_paper, "agreement")),
            *(study.cell("pair_agreement", of_rater | {"by": by}, reason=NO_PEOPLE) for by in (ANSWERS, PROBABILITIES)),
        ]  # fmt: skip
        bias = [study.cell(name, of_rater) for name in ("position_bias", "first_position_share")]
        rows.append(PaperRow((rater,), (*agreement, *bias)))
    rows += printed_only(printed, 5, without=used)
    return PaperTable(
        name="table_2",
        title="Agreement of models with people on which of two pictures matches the prompt better",
        citation="Rome, table 2",
        row_headers=("Model",),
        columns=(("Agreement with people", "same order"), ("Agreement with people", "both orders, by answer"),
                 ("Agreement with people", "both orders, by probability"), ("Position", "bias"),
                 ("Position", "chose the first")),
        rows=tuple(rows),
        notes=("The paper asked in one order. A model that always chooses the first picture has a bias of 1 and, over "
               "both orders, an agreement of 0.5.",),
    )  # fmt: skip


def competitors(study: Study) -> Iterator[PaperFigure]:
    """Yield the Bradley-Terry strengths of the models that drew the pictures, if there are several."""
    dims = dims_of(study, ROLE)
    raters = study.metrics.values("rater", "bradley_terry", **dims)
    if not raters:
        return
    names = study.metrics.values("competitor", "bradley_terry", **dims)
    rows, estimates = [], []
    for name in names:
        cells: list[PaperCell] = []
        for rater in raters:
            of = dims | {"rater": rater, "competitor": name}
            cells += [study.cell("bradley_terry", of, unit="number"), study.cell("win_rate", of)]
            strength = study.metrics.get("bradley_terry", of)
            estimates.append(Estimate(name, strength.value, strength.low, strength.high, series=rater))
        rows.append(PaperRow((name,), tuple(cells)))
    title = "Strength of the models that drew the pictures"
    yield PaperFigure(
        name="bradley_terry",
        title=title,
        citation="not in the paper, whose pictures are all by one model",
        svg=plot(Intervals(estimates, "Bradley-Terry strength (log-odds)", reference=0.0), title=title,
                 description="One row per drawing model, one colour per rater."),
        numbers=PaperTable(
            name="bradley_terry",
            title=title,
            citation="",
            row_headers=("Drawing model",),
            columns=tuple((rater, measure) for rater in raters for measure in ("strength", "win rate")),
            rows=tuple(rows),
        ),
    )  # fmt: skip

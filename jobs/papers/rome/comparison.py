"""Table 2: the comparison of pictures."""

from jobs.metrics.pairs import ANSWERS, PROBABILITIES
from jobs.metrics.question import PEOPLE
from jobs.papers.model import PaperRow, PaperTable
from jobs.papers.rome.scenarios import COMPARISON, dims_of, of_paper
from jobs.papers.study import Study

NO_PEOPLE = "no answers of people to pairs"
NO_PAIRS = "the pairs are not known; add the items of remine pairs with items="
NO_PROBABILITIES = "the model's answers have no probabilities"


def table_2(study: Study) -> PaperTable:
    """Return each model's agreement with people, in one order as in the paper and over both, and its position bias."""
    dims, printed = dims_of(study, COMPARISON), study.printed("table_2")
    rows, used = [], set()
    for rater in study.raters(study.rubric(COMPARISON)):
        in_paper = study.name_in_paper(rater) or ""
        used.add(in_paper)
        of_rater = dims | {"rater": rater}
        no_pairs = "" if study.metrics.find("position_bias", **of_rater) else NO_PAIRS
        answered = study.metrics.find("pair_agreement", **of_rater, by=ANSWERS)
        reasons = {ANSWERS: NO_PEOPLE, PROBABILITIES: NO_PROBABILITIES if answered else NO_PEOPLE}
        agreement = [
            study.cell("preference_agreement", of_rater | {"group": PEOPLE}, reason=NO_PEOPLE,
                       printed=printed.at(in_paper, "agreement")),
            *(study.cell("pair_agreement", of_rater | {"by": by}, reason=no_pairs or reasons[by]) for by in reasons),
        ]  # fmt: skip
        bias = [study.cell(name, of_rater, reason=no_pairs) for name in ("position_bias", "first_position_share")]
        rows.append(PaperRow((rater,), (*agreement, *bias)))
    rows += printed.rows_alone(["agreement", *[None] * 4], headers=of_paper, without=used)
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

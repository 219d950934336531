"""Tables and figures about the pictures: the ratings with the rubric of images."""

from collections.abc import Iterator

from jobs.metrics.question import MODELS, PEOPLE
from jobs.papers.century.words import ALL_MODELS, PEOPLES, titled
from jobs.papers.model import PaperCell, PaperRow, PaperTable
from jobs.papers.study import Study

SCALES = ("sensitive", "controversial", "commemorative")
SOMEWHAT = "3"  # "somewhat": the threshold of table 2
ROLE = "images"


def table_2(study: Study) -> PaperTable:
    """Return the shares of pictures that are not at all, and at least somewhat, sensitive and so on, by labeller."""
    rows = [row for question in SCALES for row in _labellers(study, question)]
    return PaperTable(
        name="table_2",
        title="Pictures that are sensitive, controversial and commemorative, by labeller",
        citation="Century, table 2",
        row_headers=("Dimension of quality", "Labelling method"),
        columns=(("“Not at all” (1)", "by mean"), ("“Somewhat” (3) or higher", "by mean"),
                 ("“Somewhat” (3) or higher", "by any rater")),
        rows=tuple(rows),
        notes=("n counts pictures with enough ratings by the labeller or group.",),
    )  # fmt: skip


def _labellers(study: Study, question: str) -> Iterator[PaperRow]:
    """Yield a row of table 2 for people, all models and each model, then for the labellers of the paper alone."""
    printed, rubric = study.printed("table_2"), study.rubric(ROLE)
    used = set()
    for group, label in (
        *study.groups(rubric, people=PEOPLES, models=ALL_MODELS),
        *((rater, rater) for rater in study.raters(rubric)),
    ):
        in_paper = f"{question} / {study.name_in_paper(group) or ''}"
        used.add(in_paper)
        dims = {"rubric": rubric, "question": question, "group": group}
        at_least = {"threshold": SOMEWHAT, **dims}
        by_any = group in (PEOPLE, MODELS)
        cells = (
            study.cell("share_lowest", dims, printed=printed.at(in_paper, "lowest")),
            study.cell("share_at_least", at_least | {"rule": "mean"}, printed=printed.at(in_paper, "somewhat by mean")),
            study.cell(
                "share_at_least",
                at_least | {"rule": "any"},
                printed=printed.at(in_paper, "somewhat by any"),
                reason="one rater",
            )
            if by_any
            else PaperCell(),
        )
        yield PaperRow((titled(question), label), cells)
    yield from study.printed_rows("table_2", question, header=titled(question), without=used)

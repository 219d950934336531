"""The tables and figures of Bringing Rome to Life, in the order of the paper.

Options (`paper.options`): `scenario`, the attribute that divides the items into scenarios, `scenario` by default.
"""

from collections.abc import Iterator

from jobs.papers.model import PaperPart
from jobs.papers.rome import comparison, examples, image_models, question_answers, rating
from jobs.papers.rome.scenarios import COMPARISON, RATING, SCORES
from jobs.papers.study import Study


def arrange(study: Study) -> Iterator[PaperPart]:
    """Yield the tables and figures that the report's ratings allow."""
    rated, compared = (study.has_ratings(study.rubric(role)) for role in (RATING, COMPARISON))
    if rated or compared:
        yield rating.table_1(study)
    if compared:
        yield comparison.table_2(study)
    if rated:
        yield from rating.figure_3(study)
        yield rating.table_3(study)
        yield rating.table_4(study)
    if study.has_ratings(study.rubric(SCORES)):
        yield from question_answers.figure_4(study)
        yield question_answers.by_scenario(study)
        yield from examples.figure_5(study)
    yield from image_models.scores(study)
    yield from image_models.competitors(study)

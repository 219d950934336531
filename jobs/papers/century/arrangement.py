"""The tables and figures of Century, in the order of the paper."""

from collections.abc import Iterator

from jobs.papers.century import images, people, response_figures, responses, terms
from jobs.papers.model import PaperPart
from jobs.papers.study import Study


def arrange(study: Study) -> Iterator[PaperPart]:
    """Yield the tables and figures that the report's tables allow."""
    rates_images, rates_responses = (study.has_ratings(study.rubric(role)) for role in ("images", "responses"))
    if rates_images:
        yield from (images.table_1(study), images.table_2(study))
    if rates_responses:
        yield responses.table_3(study)
    yield from terms.arrange(study)
    if rates_images:
        yield from (images.figure_6(study), images.table_8(study))
        yield from people.reliability(study, "images")
        yield from people.rater_agreement(study)
    if rates_responses:
        yield from response_figures.figure_9(study)
        yield from responses.table_12(study)
        yield from response_figures.figure_11(study)
        yield from response_figures.figure_12(study)
        yield from responses.self_preference(study)
        yield from people.reliability(study, "responses")
        yield from response_figures.figure_13(study)
    yield from people.participation(study)

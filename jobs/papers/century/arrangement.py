"""The tables and figures of Century, in the order of the paper."""

from collections.abc import Iterator

from jobs.papers.century import images
from jobs.papers.model import PaperPart
from jobs.papers.study import Study


def arrange(study: Study) -> Iterator[PaperPart]:
    """Yield the tables and figures that the report's ratings allow."""
    if study.has_ratings(study.rubric("images")):
        yield images.table_2(study)

"""The tables of CAIRE, in the order of the paper.

Options (`paper.options`): `none`, `article`, `titles` and `gold`, the conditions of the ratings with these contexts;
`average` and `reading` for F1; `rater` for table 17.
"""

from collections.abc import Iterator

from jobs.papers.caire import linking, specific, universal
from jobs.papers.caire.raters import asked
from jobs.papers.model import PaperPart
from jobs.papers.study import Study


def arrange(study: Study) -> Iterator[PaperPart]:
    """Yield the tables that the report's ratings and computed metrics allow."""
    judges = asked(study)
    parts = [*specific.tables(study, judges), *linking.tables(study), *universal.tables(study, judges)]
    yield from sorted(parts, key=lambda part: int(part.name.removeprefix("table_")))

"""The arrangements of papers: `arrange(study)` yields their tables and figures."""

import importlib
from collections.abc import Callable, Iterator

from jobs.errors import InputError
from jobs.papers.model import PaperPart
from jobs.papers.settings import PaperSettings
from jobs.papers.study import Study

# name -> module with `arrange`, imported when it is used
ARRANGEMENTS = {"century": "jobs.papers.century.arrangement"}


def check(settings: PaperSettings) -> None:
    """Validate the settings without reading tables.

    Raises:
        InputError: no such arrangement, or a printed table whose rows do not fit its columns.
    """
    if settings.name is None:
        return
    if settings.name not in ARRANGEMENTS:
        raise InputError(f"paper.name={settings.name}: no such paper; allowed: {', '.join(ARRANGEMENTS)}")
    for name, table in settings.printed.items():
        for row, numbers in table.rows.items():
            if len(numbers) != len(table.columns):
                raise InputError(
                    f"paper.printed.{name}.rows.{row}: {len(numbers)} numbers for {len(table.columns)} columns; give "
                    "one per column, null where the paper has none"
                )


def arrange(study: Study) -> list[PaperPart]:
    """Return the tables and figures of the paper that the settings name, in the paper's order.

    Raises:
        ValueError: two parts have the same name.
    """
    if study.settings.name is None:
        return []
    arrangement: Callable[[Study], Iterator[PaperPart]]
    arrangement = importlib.import_module(ARRANGEMENTS[study.settings.name]).arrange
    parts = list(arrangement(study))
    names = [part.name for part in parts]
    if len(set(names)) < len(names):
        raise ValueError(f"{study.settings.name}: two tables or figures have the same name")
    return parts

"""The arrangements of papers: `arrange(study)` yields their tables and figures."""

import importlib
from collections.abc import Callable, Iterator

from jobs.errors import InputError
from jobs.papers.model import PaperPart
from jobs.papers.settings import PaperSettings
from jobs.papers.study import Study
from jobs.runtime.process.console import say

# name -> module with `arrange`, imported when it is used
ARRANGEMENTS = {
    "caire": "jobs.papers.caire.arrangement",
    "century": "jobs.papers.century.arrangement",
    "docent": "jobs.papers.docent.arrangement",
    "rome": "jobs.papers.rome.arrangement",
    "tric": "jobs.papers.tric.arrangement",
}


def check(settings: PaperSettings) -> None:
    """Validate the settings without reading tables.

    Raises:
        InputError: no such arrangement, a name that is not GLOB=NAME, or a printed table whose rows do not fit its
            columns or are not numbers.
    """
    if settings.name is None:
        return
    if settings.name not in ARRANGEMENTS:
        raise InputError(f"paper.name={settings.name}: no such paper; must be one of {', '.join(ARRANGEMENTS)}")
    if wrong := [entry for entry in settings.names if not all(entry.partition("="))]:
        raise InputError(f"paper.names: {wrong[0]!r}: must be GLOB=NAME, such as 'my-model*=GPT-4 Omni'")
    for name, table in settings.printed.items():
        for row, numbers in table.rows.items():
            if len(numbers) != len(table.columns):
                raise InputError(
                    f"paper.printed.{name}.rows.{row}: {len(numbers)} numbers for {len(table.columns)} columns; give "
                    "one per column, null where the paper has none"
                )
            if wrong := [n for n in numbers if n is not None and not isinstance(n, int | float)]:
                raise InputError(f"paper.printed.{name}.rows.{row}: {wrong[0]!r}: must be a number or null")


def arrange(study: Study) -> list[PaperPart]:
    """Return the tables and figures of the configured paper, in the paper's order.

    Raises:
        ValueError: two parts have the same name.
    """
    if study.settings.name is None:
        return []
    arrangement: Callable[[Study], Iterator[PaperPart]]
    arrangement = importlib.import_module(ARRANGEMENTS[study.settings.name]).arrange
    parts = list(arrangement(study))
    if not parts:
        rubrics = ", ".join(study.settings.rubrics.values()) or "of the paper"
        say(f"paper={study.settings.name}: no table or figure applies; they need ratings with the rubrics {rubrics}")
    names = [part.name for part in parts]
    if len(set(names)) < len(names):
        raise ValueError(f"{study.settings.name}: two tables or figures have the same name")
    return parts

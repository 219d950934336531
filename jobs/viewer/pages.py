"""The pages as HTML, from templates that escape every text."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from actors.quantities import quantity
from jobs.html.formats import in_words, link, number, percent, writable
from jobs.html.style import STYLE
from jobs.viewer.queries import RATING_SORTS, SIMILAR, SORTS

FOLDER = Path(__file__).parent
STYLES = (STYLE, FOLDER / "viewer.css")
SCRIPT = FOLDER / "viewer.js"


class Pages:
    """Renders templates.

    Args:
        base: the path that all addresses begin with, including the token, such as `/TOKEN/`.
        shared: values that every template may use.
    """

    def __init__(self, base: str, **shared: Any) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "n": number,
            "pct": percent,
            "link": link,
            "words": in_words,
            "quantity": quantity,
        }
        self._environment.globals |= {"base": base, "sorts": SORTS, "rating_sorts": RATING_SORTS, "similar": SIMILAR}
        self._environment.globals |= shared

    def render(self, template: str, **content: Any) -> str:
        """Return a page."""
        return writable(self._environment.get_template(template).render(**content))

"""Names on the page: letters, colours and short names of raters, shortened labels, and ids of places."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from jobs.metrics.rated_question import MODELS, PEOPLE
from jobs.plots.svg import ACCENT, INK, SOFT, of_hue

SEPARATOR = " · "  # between the name of a rater and what distinguishes its ratings
HUE_STEP = 137.5  # degrees: the colours of successive raters are far from one another
MAX_NAMED = 60  # plots that a note names
LONGEST = 28  # characters of a label in a plot


def short_names(raters: Iterable[str]) -> Mapping[str, str]:
    """Return the short name of each rater: without organisation and revision, unless another rater has the same."""
    listed = list(dict.fromkeys(raters))
    bare = {rater: rater.rsplit("/", 1)[-1].partition("@")[0] or rater for rater in listed}
    used = Counter(bare.values())
    cut = {rater: shortened(bare[rater] if used[bare[rater]] == 1 else rater) for rater in listed}
    again = Counter(cut.values())
    return {rater: name if again[name] == 1 else rater for rater, name in cut.items()}


def rater_letters(names: Iterable[str], further: Iterable[str] = ()) -> dict[str, str]:
    """Return the letters A, B, …, Z, AA, … of raters: `names` in alphabetical order, then `further` in the same way."""
    ordered = sorted(set(names))
    ordered += sorted(set(further) - set(ordered))
    return {name: _letter(position) for position, name in enumerate(ordered)}


def _letter(position: int) -> str:
    before, last = divmod(position, 26)
    return (_letter(before - 1) if before else "") + chr(ord("A") + last)


def rater_hues(raters: Iterable[str]) -> dict[str, str]:
    """Return the hue of each rater's colour on the page, in degrees, by its label and by its name.

    A rater has the same colour under each of its labels, such as `m · condition article`.
    """
    hues: dict[str, str] = {}
    positions: dict[str, int] = {}
    for label in raters:
        name = label.partition(SEPARATOR)[0]
        hue = f"{positions.setdefault(name, len(positions)) * HUE_STEP % 360:.0f}"
        hues |= {label: hue, name: hue}
    return hues


def rater_colour(rater: str, hues: Mapping[str, str]) -> str:
    """Return the colour of a rater in plots (#rrggbb): of people or models together that of text, else its hue's."""
    if rater in (PEOPLE, MODELS):
        return INK if rater == PEOPLE else SOFT
    return of_hue(float(hues[rater])) if rater in hues else ACCENT


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return the text shortened to `longest` characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def unique(texts: Sequence[str]) -> dict[str, str]:
    """Return the shortened form of each text, with a number if two would be the same."""
    names: dict[str, str] = {}
    for number, text in enumerate(texts, start=1):
        short = shortened(text)
        names[text] = short if short not in names.values() else f"{shortened(text, LONGEST - 4)} {number}"
    return names


def not_drawn(titles: Sequence[str]) -> list[str]:
    """Return a note that names the plots that a figure leaves out, or nothing."""
    more = f"; and {len(titles) - MAX_NAMED:,} more" if len(titles) > MAX_NAMED else ""
    return [f"Not drawn: {'; '.join(titles[:MAX_NAMED])}{more}."] if titles else []


def anchor(*parts: str) -> str:
    """Return an id for a place: readable words of the last part, and a hash of all parts."""
    words = re.sub(r"[^a-z0-9]+", "-", parts[-1].lower())[:40].strip("-")
    digest = hashlib.sha256("\x1f".join(parts).encode(errors="replace")).hexdigest()[:8]
    return "-".join(filter(None, (words, digest))) if words[:1].isalpha() else f"at-{digest}"

"""Names of raters and answers that fit the axes of plots."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

HUE_STEP = 137.5  # degrees: the colours of successive raters are far from one another
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


def rater_hues(letters: Iterable[str]) -> dict[str, str]:
    """Return the hue of each rater's colour on the page, in degrees."""
    return {rater: f"{position * HUE_STEP % 360:.0f}" for position, rater in enumerate(letters)}


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

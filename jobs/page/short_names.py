"""Names of raters and answers that fit the axes of plots."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

LONGEST = 28  # characters of a label in a plot


def short_names(raters: Iterable[str]) -> Mapping[str, str]:
    """Return rater -> its name without organisation and revision, if no other rater has the same, shortened."""
    listed = list(dict.fromkeys(raters))
    bare = {rater: rater.rsplit("/", 1)[-1].partition("@")[0] or rater for rater in listed}
    used = Counter(bare.values())
    cut = {rater: shortened(bare[rater] if used[bare[rater]] == 1 else rater) for rater in listed}
    again = Counter(cut.values())
    return {rater: name if again[name] == 1 else rater for rater, name in cut.items()}


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return a text of at most `longest` characters; matplotlib must not read it as a formula."""
    text = text.replace("$", r"\$")
    return text if len(text) <= longest else text[: longest - 1] + "…"


def unique(texts: Sequence[str]) -> dict[str, str]:
    """Return text -> its shortened form, with a number if two would be the same."""
    names: dict[str, str] = {}
    for number, text in enumerate(texts, start=1):
        short = shortened(text)
        names[text] = short if short not in names.values() else f"{shortened(text, LONGEST - 4)} {number}"
    return names

"""The overlap between the titles of several models.

Century (section 3.2) reports that 15.1 % of the titles of two models overlap but does not define the share, so both
usual definitions are given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class TitleOverlap:
    """The titles that two models have in common.

    common: number of titles that both models list.
    either: number of titles that at least one lists.
    smaller: number of titles of the model that lists fewer.
    """

    first: str
    second: str
    common: int
    either: int
    smaller: int

    @property
    def of_union(self) -> float | None:
        """`common / either` (Jaccard); None if neither lists a title."""
        return self.common / self.either if self.either else None

    @property
    def of_smaller(self) -> float | None:
        """`common / smaller` (overlap coefficient); None if one of them lists no title."""
        return self.common / self.smaller if self.smaller else None


def overlaps(titles: Mapping[str, set[str]]) -> Iterator[TitleOverlap]:
    """Yield the overlap of each pair of models, ordered by name.

    Args:
        titles: each model's titles, normalised for comparison.
    """
    for first, second in combinations(sorted(titles), 2):
        one, other = titles[first], titles[second]
        yield TitleOverlap(first, second, len(one & other), len(one | other), min(len(one), len(other)))

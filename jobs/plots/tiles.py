"""A tile map: one tile of the same size per region of the world, near its place on a map.

The regions are the sub-regions of the UN geoscheme (M49), as in Century; small ones are as visible as large ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from jobs.plots.panels import Numbers
from jobs.plots.svg import LINE, link_to, readable_on, shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

WIDTH, HEIGHT = 0.56, 0.5  # inches of a tile: two maps fit next to each other
PLACES = {  # region -> column and row
    "north america": (0, 0), "northern america": (0, 0), "central america": (0, 1), "caribbean": (1, 1),
    "south america": (1, 2), "northern europe": (3, 0), "eastern europe": (4, 0), "western europe": (3, 1),
    "southern europe": (4, 1), "northern africa": (4, 2), "western africa": (3, 3), "central africa": (4, 3),
    "middle africa": (4, 3), "eastern africa": (5, 3), "southern africa": (4, 4), "western asia": (5, 2),
    "central asia": (5, 1), "eastern asia": (6, 1), "southern asia": (6, 2), "south-eastern asia": (7, 2),
    "micronesia": (8, 2), "melanesia": (8, 3), "polynesia": (9, 3), "australia and new zealand": (8, 4),
}  # fmt: skip
_COLUMNS, _ROWS = 10, 5
_NO_REGION = frozenset({"unsure", "none", "other", "unknown"})
_CHARACTERS = 11  # characters per line of a tile


def place_of(region: str) -> tuple[int, int] | None:
    """Return the column and row of a region by its name in English; None if it has no tile."""
    return PLACES.get(" ".join(region.lower().replace("_", " ").split()))


def by_region(names: Iterable[str]) -> list[str]:
    """Return names of regions by continent, from the Americas to Oceania, if all are known, else in alphabetical order.

    Numbers within names are ordered by value; `unsure` and the like come last.
    """
    listed = sorted(names, key=lambda name: (name.lower() in _NO_REGION, *_natural(name)))
    places, order = [place_of(name) for name in listed], list(PLACES.values())
    if any(place is None and name.lower() not in _NO_REGION for name, place in zip(listed, places, strict=True)):
        return listed
    return sorted(listed, key=lambda name: order.index(place) if (place := place_of(name)) else len(order))


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part.casefold()) for part in re.split(r"(\d+)", name))


@dataclass(frozen=True)
class TileMap:
    """Shares by region, coloured from 0 to `high`; regions without a tile are not drawn.

    Attributes:
        shares: name of the region -> share; None: undefined.
        high: share at the end of the colours.
        links: name -> the anchor and the name of the tile's link, for tiles that have one.
    """

    shares: Mapping[str, float | None]
    high: float = 1.0
    links: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def size(self) -> tuple[float, float]:
        """Return width and height in inches of the axes."""
        return WIDTH * _COLUMNS, HEIGHT * _ROWS

    def draw(self, axes: Axes) -> None:
        """Draw one tile per region with its name and share, and the outlines of the others, so that the map is
        recognisable."""
        asked = {place_of(region) for region in self.shares}
        for column, row in sorted(set(PLACES.values()) - asked):
            axes.add_artist(_tile(column, row, facecolor="none", alpha=0.35))
        for region, share in self.shares.items():
            if (place := place_of(region)) is None:
                continue
            column, row = place
            defined = share is not None and math.isfinite(share)
            colour = shade((share or 0.0) / self.high) if defined and self.high else "none"
            tile = _tile(column, row, facecolor=colour)
            if region in self.links:
                tile.set_url(link_to(*self.links[region]))
            axes.add_artist(tile)
            middle, on = column + 0.5, readable_on(colour)
            name = "\n".join(wrap(region.replace("_", " "), _CHARACTERS))
            axes.text(middle, row + 0.36, name, ha="center", va="center", fontsize=6.2, color=on, linespacing=1.05)
            text = f"{share:.0%}" if defined and share is not None else "–"
            axes.text(middle, row + 0.94, text, ha="center", va="bottom", fontsize=8, color=on)
        axes.set_xlim(0, _COLUMNS)
        axes.set_ylim(_ROWS, 0)
        axes.set_axis_off()

    def numbers(self) -> Numbers:
        """Return what it draws as a table."""
        return ("region", "share"), list(self.shares.items())


def _tile(column: int, row: int, **style: Any) -> Rectangle:
    from matplotlib.patches import Rectangle

    return Rectangle((column + 0.03, row + 0.04), 0.94, 0.92, edgecolor=LINE, linewidth=0.4, **style)

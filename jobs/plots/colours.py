"""The colour scale of all plots, and the colour of text on it."""

from functools import cache
from typing import TYPE_CHECKING

from jobs.plots.svg import INK

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

# From amber through rose to indigo, as on the page; its lightness decreases monotonically, so that it works in grey.
_STOPS = ["#fbeacb", "#f0b56a", "#cf6f6d", "#83478f", "#2f2a73"]


@cache
def _scale() -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("remine", _STOPS)


def shade(share: float) -> str:
    """Return the colour (#rrggbb) of a share from 0 to 1; others get the colour of the nearer end."""
    from matplotlib.colors import to_hex

    return to_hex(_scale()(min(1.0, max(0.0, share))))


def readable_on(colour: str) -> str:
    """Return black or white, whichever is readable on `colour` (#rrggbb); the colour of text if it is `none`."""
    from matplotlib.colors import to_rgb

    if colour == "none":
        return INK
    red, green, blue = to_rgb(colour)
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#ffffff"

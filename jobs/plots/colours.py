"""The colour scales of all plots, the colour of text on them, and the colours of raters."""

import math
from functools import cache
from typing import TYPE_CHECKING

from jobs.plots.svg import INK

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

# From amber through rose to indigo, as on the page; its lightness decreases monotonically, so that it works in grey.
_STOPS = ["#fbeacb", "#f0b56a", "#cf6f6d", "#83478f", "#2f2a73"]

# From rust through a light grey, which is the middle, to indigo.
_DIVERGING = ["#8a3a12", "#d9935f", "#f4f1ee", "#8d7fc4", "#2f2a73"]


@cache
def _scale(*stops: str) -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("remine", stops)


def shade(share: float) -> str:
    """Return the colour (#rrggbb) of a share from 0 to 1; others get the colour of the nearer end."""
    return _colour_at(share, _STOPS)


def diverging(share: float) -> str:
    """Return the colour of a share whose middle, 0.5, is neutral, such as that of a κ of 0 from -1 to 1."""
    return _colour_at(share, _DIVERGING)


def _colour_at(share: float, stops: list[str]) -> str:
    from matplotlib.colors import to_hex

    return to_hex(_scale(*stops)(min(1.0, max(0.0, share))))


def of_hue(degrees: float) -> str:
    """Return `oklch(0.62 0.15 degrees)` of CSS, the colour of a rater on pages, as #rrggbb (Ottosson, 2020)."""
    a, b = (0.15 * turn(math.radians(degrees)) for turn in (math.cos, math.sin))
    long, medium, short = (
        (0.62 + x * a + y * b) ** 3
        for x, y in ((0.3963377774, 0.2158037573), (-0.1055613458, -0.0638541728), (-0.0894841775, -1.2914855480))
    )
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    parts = (1.055 * max(0.0, part) ** (1 / 2.4) - 0.055 if part > 0.0031308 else 12.92 * part for part in linear)
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, part))):02x}" for part in parts)


def readable_on(colour: str) -> str:
    """Return black or white, whichever is readable on `colour` (#rrggbb); the colour of text if it is `none`."""
    from matplotlib.colors import to_rgb

    if colour == "none":
        return INK
    red, green, blue = to_rgb(colour)
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#ffffff"

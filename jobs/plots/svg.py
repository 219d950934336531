"""Colours of plots, and matplotlib figures as SVG for pages: themed by CSS, accessible, with deterministic bytes.

Colours of text and lines become CSS variables, so that the figure follows the page's light, dark and print styles. All
other colours, such as those of a heat map, are literal, and the text on them is black or white. Text remains text. With
the same version of matplotlib, the same numbers give the same bytes: ids derive from the content, and there are no
dates.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

INK, SOFT, LINE, ACCENT, SECOND, PRINTED = "#1d1b22", "#5b5763", "#d8d3cc", "#4b3a8c", "#b0623c", "#1f7a6d"
DARK = {INK: "#ebe8ef", SOFT: "#a9a4b3", LINE: "#45414e", ACCENT: "#b3a5f2", SECOND: "#e2a079", PRINTED: "#6fc7b8"}
NAMES = {INK: "ink", SOFT: "soft", LINE: "line", ACCENT: "accent", SECOND: "second", PRINTED: "printed"}
SERIES = (ACCENT, SECOND, PRINTED, SOFT)  # colours of series, in order
# From amber through rose to indigo, as on the page; its lightness decreases monotonically, so that it works in grey.
_STOPS = ["#fbeacb", "#f0b56a", "#cf6f6d", "#83478f", "#2f2a73"]
# From rust through a light grey, which is the middle, to indigo.
_DIVERGING = ["#8a3a12", "#d9935f", "#f4f1ee", "#8d7fc4", "#2f2a73"]
WIDTH = 7.6  # inches of a figure of full width
POINTS = 72  # per inch
FONT = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif"
_LINK = "cards:"  # prefix of the URLs of cells and labels that are links
# matplotlib writes a URL with double quotes between single ones
_LINK_TAG = re.compile(rf"""<a xlink:href=(?P<quote>["']){_LINK}(?P<name>[\w-]+)\?(?P<label>.*?)(?P=quote)[^>]*>""")
Stroke = tuple[str, Any, list[Any], dict[str, Any]]  # a method of a renderer, its style, and its other arguments
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "remine",
    "text.parse_math": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


@contextmanager
def drawing() -> Iterator[None]:
    """Apply the style of all plots inside a `with` block."""
    import matplotlib

    with warnings.catch_warnings(), matplotlib.rc_context():
        # The text is drawn by the browser, in fonts of its own; matplotlib's font only estimates its width.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def as_svg(figure: Figure, *, title: str, description: str, strokes: list[Stroke] | None = None) -> str:
    """Return a figure as an `<svg>` element with a title and a description for screen readers.

    Call it inside `drawing`. The element has no scripts or external resources, and its ids are unique to its content.

    Args:
        strokes: what is drawn is added to it, in points, for other renderers: arranging a figure takes longer than
            writing it.
    """
    figure.dpi = POINTS
    width, height = figure.get_size_inches() * POINTS
    out = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    renderer = _recorder()(width, height, out, image_dpi=POINTS, metadata=nothing)
    renderer.strokes = [] if strokes is None else strokes
    figure.draw(renderer)
    renderer.finalize()
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*|<style .*?</style>\s*", "", svg, flags=re.S)
    # Coordinates to a hundredth of a point; the texts of labels, and the names of links, keep their numbers.
    svg = re.sub(r"<(?!a )[^<>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), svg)
    svg = re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><")
    svg = re.sub(r"font: ([\w. ]*?[\d.]+px)[^;\"]*", rf"font: \1 {FONT}", svg)
    svg = re.sub(r"font-family: [^;\"]*", f"font-family: {FONT}", svg)
    for colour, name in NAMES.items():
        svg = svg.replace(f": {colour}", f": var(--plot-{name}, {colour})")
    linked = _LINK_TAG.search(svg) is not None
    key = hashlib.sha256(f"{title}\n{description}\n{svg}".encode()).hexdigest()[:10]
    svg = _with_links(_own_ids(svg, key))
    width, height = (f"{inches * POINTS:g}" for inches in figure.get_size_inches())
    head = (
        f'<svg class="plot{" linked" * linked}" role="{"group" if linked else "img"}" '
        f'aria-labelledby="{key}-t {key}-d" width="{width}pt" height="{height}pt" '
        f'viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" '
        'xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1">\n'
        f'<title id="{key}-t">{escape(title)}</title>\n<desc id="{key}-d">{escape(description)}</desc>\n'
        f"<style>{_theme()}{_LINKED * linked}</style>\n"
    )
    return head + svg[svg.index(">") + 1 :].strip() + "\n"


@cache
def _recorder() -> Any:
    """Return the class of a renderer of SVG that keeps what it draws in its list `strokes`."""
    from matplotlib.backend_bases import GraphicsContextBase
    from matplotlib.backends.backend_svg import RendererSVG

    class Recorder(RendererSVG):
        strokes: list[Stroke]
        _inside = False  # a collection is drawn as paths

        def get_text_width_height_descent(self, s: str, prop: Any, ismath: Any) -> Any:
            return _text_size(self._text2path, s, prop, ismath)

    def recorded(name: str) -> Any:
        draw = getattr(RendererSVG, name)

        def record(self: Any, gc: Any, *args: Any, **kwargs: Any) -> None:
            if self._inside:
                draw(self, gc, *args, **kwargs)
                return
            style = GraphicsContextBase()
            style.copy_properties(gc)
            if (box := gc.get_clip_rectangle()) is not None:
                style.set_clip_rectangle(box.frozen())
            still = [arg.frozen() if hasattr(arg, "frozen") else arg for arg in args]
            self.strokes.append((name, style, still, kwargs))
            self._inside = True
            try:
                draw(self, gc, *args, **kwargs)
            finally:
                self._inside = False

        return record

    for name in ("draw_path", "draw_markers", "draw_path_collection", "draw_text"):
        setattr(Recorder, name, recorded(name))
    return Recorder


@lru_cache(maxsize=8192)
def _text_size(text_to_path: Any, text: str, font: Any, mathematical: Any) -> Any:
    return text_to_path.get_text_width_height_descent(text, font, mathematical)


def repeat(strokes: Iterable[Stroke], renderer: Any, height: float) -> None:
    """Draw what `as_svg` has drawn with another renderer.

    Args:
        height: of the figure in points, because SVG counts from the top.
    """
    for name, style, args, kwargs in strokes:
        gc = renderer.new_gc()
        gc.copy_properties(style)
        if name == "draw_text" and not renderer.flipy():
            x, y, *rest = args
            args = [x, height - y, *rest]  # noqa: PLW2901
        getattr(renderer, name)(gc, *args, **kwargs)
        gc.restore()


def link_to(name: str, label: str) -> str:
    """Return the URL for `Artist.set_url` that makes a cell or label a link to the anchor `name` of the page.

    Args:
        label: the link's name for screen readers.
    """
    return f"{_LINK}{name}?{label}"


def standalone(svg: str, *, caption: str = "") -> str:
    """Return `as_svg`'s element as an SVG file, with literal colours on white for programs without CSS variables.

    Args:
        caption: replaces the description.
    """
    if caption:
        svg = re.sub(r"(<desc[^>]*>)[^<]*", lambda tag: tag[1] + escape(caption), svg, count=1)
    svg = re.sub(r"@media screen.*?(?=</style>)", "", svg, count=1, flags=re.S)
    svg = re.sub(r"var\(--plot-\w+, (#[0-9a-f]{6})\)", r"\1", svg)
    svg = svg.replace('<svg class="plot"', '<svg class="plot" style="background: #ffffff"', 1)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{svg}'


def _with_links(svg: str) -> str:
    """Return the figure with the links of `link_to` converted to HTML links."""

    def as_html(tag: re.Match[str]) -> str:
        label = tag["label"].replace('"', "&quot;")
        return f'<a href="#{tag["name"]}" aria-label="{label}">'

    return _LINK_TAG.sub(as_html, svg)


def _own_ids(svg: str, key: str) -> str:
    """Prefix the ids that the figure refers to with `key`, and remove all others."""
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", svg))

    def renamed(match: re.Match[str]) -> str:
        return f' id="{key}-{match[1]}"' if match[1] in used else ""

    svg = re.sub(r' id="([^"]+)"', renamed, svg)
    return re.sub(r"(url\(#|href=\"#)([^)\"]+)", rf"\g<1>{key}-\g<2>", svg)


_LINKED = (  # the number in a cell must not cover the cell's link
    ".linked text{pointer-events:none}.linked a text{pointer-events:auto;text-decoration:underline}"
    ".linked a:is(:hover,:focus) path{stroke:currentColor!important;stroke-width:2!important}"
)


def _theme() -> str:
    dark = "".join(f"--plot-{NAMES[colour]}:{value};" for colour, value in DARK.items())
    joints = ".plot *{stroke-linejoin:round;stroke-linecap:butt}"  # matplotlib's default for all elements
    return f"{joints}@media screen and (prefers-color-scheme: dark){{.plot{{{dark}}}}}"


@cache
def _scale(*stops: str) -> Colormap:
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

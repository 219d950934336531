"""Plots: well-formed SVG with the plotted values, themed, accessible, with unique ids and the same bytes again."""

import re
import warnings
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

from jobs.plots.figures import label_width, plot, small_multiples
from jobs.plots.panels import Estimate, Fit, HeatMap, Histogram, Intervals, Panel, Scatter, StackedBars
from jobs.plots.svg import ACCENT, DARK, FONT, INK, NAMES, PRINTED, SERIES, as_svg, standalone
from jobs.plots.tiles import PLACES, TileMap, place_of
from tests.cases import check_cases

SVG = "{http://www.w3.org/2000/svg}"
MAP = HeatMap([[0.1, None], [0.5, 1.0]], ["North", "East"], ["Due weight", "Loaded"])
INTERVALS = Intervals(
    [Estimate("a", 0.5, 0.4, 0.6, "x", printed=0.45), Estimate("a", None, series="y"), Estimate("b", 0.2)]
)
PANELS: dict[str, Panel] = {
    "heat map": MAP,
    "intervals": INTERVALS,
    "scatter": Scatter([1, 2, 3], [2, float("nan"), 4], Fit(1, 1, [1, 3], [0, 2], [3, 5]), "x", "y", (0, 5)),
    "histogram": Histogram([1, 0, 3], [0, 0.5, 0.75, 1], "agreement", "people"),
    "tiles": TileMap({"northern_africa": 0.25, "Eastern Asia": None, "Atlantis": 0.5}, 0.5),
    "bars": StackedBars([[0.25, 0.75], [None, None]], ["model", "people"], ["1", "2"]),
}


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_each_is_accessible_themed_and_the_same_again():
    def check(name):
        svg = plot(PANELS[name], title="A <b>", description="What it shows & how")
        root = ET.fromstring(svg)
        title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert title is not None
        assert description is not None
        assert (title.text, description.text) == ("A <b>", "What it shows & how")
        assert root.get("role") == "img"
        assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert f"var(--plot-ink, {INK})" in svg
        dark = re.search(r"@media screen and \(prefers-color-scheme: dark\){.plot{(.*?)}}", svg)
        assert dark is not None
        assert len(set(NAMES.values())) == len(NAMES) == len(set(DARK.values()))
        assert dict(re.findall(r"--plot-(\w+):(#[0-9a-f]{6});", dark[1])) == {NAMES[c]: DARK[c] for c in NAMES}
        assert svg.count("font-family") == svg.count(f"font-family: {FONT}") == len(texts(svg))
        assert "script" not in svg
        assert not re.search(r'href="(?!#)', svg)
        assert svg == plot(PANELS[name], title="A <b>", description="What it shows & how")
        ids = re.findall(r' id="([^"]+)"', svg)
        assert len(ids) == len(set(ids))
        assert set(re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)", svg)) or ids
        assert {one or other for one, other in re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", svg)} <= set(ids)

    check_cases(check, list(PANELS))


def test_labels_and_names_of_links_are_text_as_it_is() -> None:
    labels = ["v1.23456", "$x_$", r"\$5", "cards: 3"]
    panel = HeatMap([[0.1]] * len(labels), labels, ["_a"])
    svg = plot(panel, title="t", description="d", heading="0.0625 of $a$")
    assert {*labels, "_a", "0.0625 of $a$"} <= set(texts(svg))
    assert (ET.fromstring(svg).get("role"), ET.fromstring(svg).get("class")) == ("img", "plot")
    for name in ('Cards: "a" & 0.12345', "Cards: <a>'s", 'Cards: "a"\'s'):
        root = ET.fromstring(plot(replace(panel, links={(0, 0): ("cell-1", name)}), title="t", description="d"))
        assert (root.get("role"), root.get("class")) == ("group", "plot linked")
        assert [dict(link.items()) for link in root.iter(f"{SVG}a")] == [{"href": "#cell-1", "aria-label": name}]
    (style,) = root.iter(f"{SVG}style")
    assert ".linked text{pointer-events:none}" in (style.text or "")


def test_texts_in_any_script_cause_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = plot(HeatMap([[0.1]], ["中国"], ["🙂"]), title="t", description="d", heading="日本")
    assert {"中国", "🙂", "日本"} <= set(texts(svg))


def test_a_figure_is_as_large_as_its_drawing() -> None:
    root = ET.fromstring(as_svg(Figure(figsize=(3, 2.5)), title="t", description="d"))
    assert [root.get(name) for name in ("width", "height", "viewBox")] == ["216pt", "180pt", "0 0 216 180"]
    coordinates = [number for path in root.iter(f"{SVG}path") for number in re.findall(r"\.\d+", path.get("d", ""))]
    assert max(map(len, coordinates), default=0) <= 3


def test_two_figures_on_a_page_share_no_ids():
    ids = [set(re.findall(r' id="([^"]+)"', plot(p, title=n, description="d"))) for n, p in PANELS.items()]
    assert sum(map(len, ids)) == len(set.union(*ids))


def test_a_heat_map_has_its_values_and_a_dash_for_undefined():
    labels = ["Due weight", "Loaded", "North", "East"]  # of columns and rows
    assert sorted(texts(plot(MAP, title="t", description="d"))) == sorted(["10%", "–", "50%", "100%", *labels])


def test_text_on_a_heat_map_is_readable():
    svg = plot(HeatMap([[0.0, 1.0]], ["a"], ["b", "c"]), title="t", description="d")
    # matplotlib omits black, the default
    white = re.search(r"<text[^>]*fill: #ffffff[^>]*>([^<]*)", svg)
    assert white is not None
    assert white[1] == "100%"
    assert not re.search(r"<text[^>]*fill: #ffffff[^>]*>0%", svg)


def test_bars_are_as_long_as_their_shares():
    svg = plot(PANELS["bars"], title="t", description="d")
    assert {"25%", "75%", "undefined"} <= set(texts(svg))
    widths = []
    for path in re.findall(r'<path d="([^"]+)"[^>]*style="fill: #[0-9a-f]{6}; stroke: var', svg):
        x = [float(number) for number in re.findall(r"[ML] ([\d.]+)", path)]
        widths.append(max(x) - min(x))
    first, second = sorted(widths)[-2:]
    assert second / first == pytest.approx(3, rel=0.01)


def test_undefined_points_are_not_drawn():
    svg = plot(PANELS["scatter"], title="t", description="d")
    assert len(re.findall(r"<use [^>]*fill-opacity: 0.45", svg)) == 2


def drawn(panel: Panel) -> Axes:
    axes = Figure().add_subplot()
    panel.draw(axes)
    return axes


def points(axes: Axes, marker: str) -> list[list[list[float]]]:
    lines = [line for line in axes.lines if line.get_marker() == marker and np.size(line.get_xdata())]
    return [np.asarray(line.get_xydata(), float).tolist() for line in lines]


def test_estimates_of_a_label_share_a_row_around_its_place() -> None:
    axes = drawn(replace(INTERVALS, reference=0.3, bounds=(-0.5, 1), label="bias"))
    y = [0 - 0.7 / 3, 0, 1 + 0.7 / 3]  # the three series, one without a name, share 0.7 of a row
    assert points(axes, "o") == [[[0.5, pytest.approx(y[0])]], [[0.2, pytest.approx(y[2])]]]
    assert points(axes, "D") == [[[0.45, pytest.approx(y[0])]]]
    (interval,) = [np.asarray(path.vertices) for path in axes.collections[0].get_paths()]
    assert interval.tolist() == [[0.4, pytest.approx(y[0])], [0.6, pytest.approx(y[0])]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert (axes.get_xlim(), axes.get_ylim(), axes.get_xlabel()) == ((-0.5, 1), (1.5, -0.5), "bias")
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["x", "y", "printed in the paper"]
    assert drawn(Intervals([Estimate("a", 0.5, series="x")])).get_legend() is None


def test_what_is_drawn_of_a_series_has_its_colour() -> None:
    estimates = [Estimate("a", 0.0, 0.0, 0.0, name, printed=0.0) for name in "vwxyz"]
    axes = drawn(Intervals(estimates))
    colours = [*SERIES, SERIES[0]]
    shown = [line for line in axes.lines if np.size(line.get_xdata())]
    assert [line.get_color() for line in shown if line.get_marker() == "o"] == colours
    assert [to_hex(interval.get_color()) for interval in axes.collections] == colours  # type: ignore[attr-defined]
    assert {line.get_color() for line in shown if line.get_marker() == "D"} == {PRINTED}
    assert {line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "D"} == {"none"}
    assert not any(line.get_clip_on() for line in shown)  # a point at the end of the axis is whole
    legend = axes.get_legend()
    assert legend is not None
    handles: list[Any] = legend.legend_handles
    assert [(handle.get_marker(), handle.get_color()) for handle in handles] == [
        *(("o", colour) for colour in colours), ("D", PRINTED)
    ]  # fmt: skip
    grid = [axis.get_gridlines()[0].get_visible() for axis in (axes.xaxis, axes.yaxis)]
    assert (grid, axes.get_axisbelow()) == ([True, False], True)


def test_series_have_the_colours_that_are_given_and_others_those_in_order() -> None:
    estimates = [Estimate("a", 0.5, series="x"), Estimate("a", 0.5, series="y")]
    colours = [
        [line.get_color() for line in drawn(Intervals(some, colours=of_series)).lines if np.size(line.get_xdata())]
        for some, of_series in ((estimates, {}), (estimates, {"y": "#123456"}), (estimates[1:], {}))
    ]
    assert colours == [list(SERIES[:2]), ["#123456", SERIES[0]], [SERIES[0]]]


def test_a_value_without_an_interval_is_hollow_and_an_undefined_one_a_dash() -> None:
    axes = drawn(Intervals([Estimate("a", 0.5), Estimate("b", 0.4, 0.3, 0.6), Estimate("c", None)], bounds=(0, 1)))
    full, hollow = (line for line in axes.lines if np.size(line.get_xdata()))
    assert [line.get_markerfacecolor() for line in (full, hollow)] == [SERIES[0], "none"]
    assert [np.asarray(line.get_xydata()).tolist() for line in (full, hollow)] == [[[0.4, 1]], [[0.5, 0]]]
    assert [(text.get_text(), text.xy) for text in axes.texts if isinstance(text, Annotation)] == [("–", (0.02, 2))]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]


def test_ticks_do_not_overlap() -> None:
    for bounds in (
        (0.98, 1.0),
        (-0.25, 1.0),
        (0.123456, 0.123457),
        (-12345.6, 98765.4),
        (0, 1),
        (1, 5),
        (3, 3.0000001),
    ):
        for width in (0.6, 1.7, 4.2):
            axes = drawn(Intervals([Estimate("a", bounds[0]), Estimate("b", bounds[1])], bounds=bounds, width=width))
            ticks = axes.get_xticks()
            texts = axes.xaxis.get_major_formatter().format_ticks(ticks.tolist())
            assert 1 <= len(ticks) <= 5
            assert len(set(texts)) == len(texts) or bounds[1] - bounds[0] < 1e-6, (bounds, texts)
            inches = np.diff(ticks) / (bounds[1] - bounds[0]) * width
            assert len(ticks) < 3 or inches.min() > 0.07 * max(map(len, texts)), (bounds, width, texts)


def test_the_axes_of_plots_with_the_same_room_for_labels_are_below_each_other() -> None:
    places = set()
    for label in ("a", "a long label"):
        panel = Intervals([Estimate(label, 0.5, 0.4, 0.6)], bounds=(0, 1), width=1.7)
        svg = plot(panel, title="t", description="d", heading="A heading of so many words that it needs two lines",
                   labels=label_width(["a long label"]))  # fmt: skip
        places.add((*re.findall(r' width="([\d.]+)pt"', svg), *re.findall(r"M ([\d.]+) [\d.]+ L \1 ", svg)[:1]))
    ((_, axis),) = places
    assert float(axis) > 60


def test_a_fitted_line_ends_at_the_first_and_last_point() -> None:
    fit = Fit(1, 2, [0, 9], [0, 2], [3, 5])
    axes = drawn(Scatter([3, float("nan"), 1, 8], [2, 7, 4, float("nan")], fit, "length", "score", (0, 5)))
    cloud, line = axes.lines
    assert np.asarray(cloud.get_xydata()).tolist() == [[3, 2], [1, 4]]
    assert np.asarray(line.get_xydata()).tolist() == [[1, 3], [3, 7]]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_ylim()) == ("length", "score", (0, 5))
    (band,) = axes.collections
    assert {(x, y) for x, y in np.asarray(band.get_paths()[0].vertices).tolist()} == {(0, 0), (9, 2), (9, 5), (0, 3)}
    faces: Any = band.get_facecolor()
    assert [line.get_color(), to_hex(faces[0])] == [ACCENT, ACCENT]
    assert len(drawn(Scatter([1], [2], replace(fit, x=()))).collections) == 0
    assert len(drawn(Scatter([float("nan")], [2], fit)).lines) == 1


def test_bars_are_next_to_each_other_and_wide_ones_show_their_share() -> None:
    axes = drawn(StackedBars([[0.07, None, 0.08, 0.85], [None] * 4], ["a", "b"], ["1", "2", "3", "4"]))
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [bar.get_x() for bar in bars[:4]] == pytest.approx([0, 0.07, 0.07, 0.15])
    assert [bar.get_width() for bar in bars] == pytest.approx([0.07, 0, 0.08, 0.85, 0, 0, 0, 0])
    assert {bar.get_center()[1] for bar in bars[:4]} == {0}
    assert [(text.get_text(), text.get_position()[1]) for text in axes.texts] == [
        ("8%", 0),
        ("85%", 0),
        ("undefined", 1),
    ]
    assert axes.xaxis.get_major_formatter()(0.5, 0) == "50%"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["1", "2", "3", "4"]
    handles: list[Any] = legend.legend_handles
    assert [handle.get_color() for handle in handles] == [to_hex(bar.get_facecolor()) for bar in bars[:4]]
    axes = drawn(StackedBars([[0.25, float("nan"), 0.5], [float("nan")] * 3], ["a", "b"], ["1", "2", "3"]))
    assert [text.get_text() for text in axes.texts] == ["25%", "50%", "undefined"]
    assert [bar.get_x() for bar in axes.patches[:3]] == [0, 0.25, 0.25]  # type: ignore[attr-defined]
    assert len(drawn(StackedBars([[0.0, None]], ["a"], ["1", "2"])).texts) == 0  # a share of 0 is defined


def test_small_multiples_have_a_title_each_and_shared_rows_once():
    svg = small_multiples([("one", MAP), ("two", MAP)], title="t", description="d", shared_rows=True)
    assert {"one", "two"} <= set(texts(svg))
    assert texts(svg).count("North") == 1
    assert texts(small_multiples([("", MAP), ("", MAP)], title="t", description="d")).count("North") == 2
    with pytest.raises(ValueError, match="at least one"):
        small_multiples([], title="t", description="d")


def test_a_file_has_literal_colours():
    file = standalone(plot(MAP, title="t", description="d"))
    ET.fromstring(file.encode())
    assert "var(" not in file
    assert "@media" not in file
    assert ET.fromstring(file.encode()).get("style") == "background: #ffffff"
    assert file.startswith('<?xml version="1.0" encoding="utf-8"?>\n<svg ')
    assert f": {INK}" in file


def test_cells_of_a_map_are_around_their_places() -> None:
    figure = Figure()
    axes = figure.add_subplot()
    MAP.draw(axes)
    centres = [patch.get_center() for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [tuple(map(float, centre)) for centre in centres] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_a_tile_map_has_the_regions_that_have_a_tile():
    svg = plot(PANELS["tiles"], title="t", description="d")
    assert {"25%", "–"} <= set(texts(svg))
    assert "50%" not in texts(svg)
    assert svg.count("opacity: 0.35") == len(set(PLACES.values())) - 2  # outlines of the regions that are not asked
    world = [
        "NOR ... ... NOR EAS ... ... ... ... ...",
        "CEN CAR ... WES SOU CEN EAS ... ... ...",
        "... SOU ... ... NOR WES SOU SOU MIC ...",
        "... ... ... WES CEN EAS ... ... MEL POL",
        "... ... ... ... SOU ... ... ... AUS ...",
    ]
    tiles = {place: name[:3].upper() for name, place in reversed(PLACES.items())}
    assert [" ".join(tiles.get((column, row), "...") for column in range(10)) for row in range(5)] == world
    assert place_of("South-eastern Asia") == (7, 2)
    assert place_of("Atlantis") is None
    named = {place: [name for name in PLACES if PLACES[name] == place] for place in PLACES.values()}
    assert [names for names in named.values() if len(names) > 1] == [
        ["north america", "northern america"],
        ["central africa", "middle africa"],
    ]

"""Each kind of plot as matplotlib draws it, its size, and the place of plots in a figure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from jobs.plots import figures
from jobs.plots.panels import (
    CountMatrix,
    Estimate,
    Fit,
    HeatMap,
    Histogram,
    Intervals,
    Panel,
    Scatter,
    StackedBars,
    Steps,
)
from jobs.plots.svg import ACCENT, INK, LINE, SOFT, diverging, link_to, readable_on, shade
from jobs.plots.tiles import TileMap, by_region
from tests.cases import check_cases

BLACK, WHITE = "#000000", "#ffffff"


def drawn(panel: Panel) -> Axes:
    axes = Figure().subplots()
    panel.draw(axes)
    return axes


def boxes(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def colour(box: Rectangle) -> str:
    face: Any = box.get_facecolor()
    return to_hex(face) if face[3] else "none"


def test_sizes_in_inches() -> None:
    estimates = [Estimate("a", 1, series="x"), Estimate("a", 2, series="y"), Estimate("b", 3)]
    cases: list[tuple[Panel, tuple[float, float]]] = [
        (HeatMap([], ["a", "b"], ["123", "1"]), (0.88, 0.46)),
        (HeatMap([], ["a", "b"], ["1234", "1"]), (1.12, 0.46)),
        (HeatMap([], [], []), (0.44, 0.23)),
        (Intervals(estimates), (4.2, 0.3 + 0.3 + 0.32)),
        (Intervals([], width=2), (2, 0.3)),
        (StackedBars([], ["a", "b"], []), (4.2, 0.68)),
        (StackedBars([], [], [], width=3), (3, 0.44)),
        (Scatter([], []), (1.9, 1.35)),
        (Histogram([], []), (2.6, 1.6)),
        (TileMap({}), (5.6, 2.5)),
    ]
    assert [panel.size() for panel, _ in cases] == [pytest.approx(size) for _, size in cases]


def test_a_heat_map_is_coloured_between_its_ends() -> None:
    nothing = float("nan")
    axes = drawn(
        HeatMap(
            [[-1, 0, 1], [None, nothing, -0.004]], ["r", "s"], ["a", "b", "long"], low=-1, percent=False,
            links={(0, 2): ("cell-1", "Cards")},
        )
    )  # fmt: skip
    colours = [colour(box) for box in boxes(axes)]
    assert colours == [diverging(0), diverging(0.5), diverging(1), "none", "none", diverging(0.498)]
    assert [text.get_text() for text in axes.texts] == ["−1.00", "0.00", "1.00", "–", "–", "−0.00"]
    assert [text.get_color() for text in axes.texts] == [WHITE, BLACK, WHITE, INK, INK, BLACK]
    assert [text.get_position() for text in axes.texts][2:4] == [(2, 0), (0, 1)]
    assert [box.get_url() for box in boxes(axes)] == [None, None, link_to("cell-1", "Cards"), None, None, None]
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, 2.5), (1.5, -0.5))
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {40}
    labels = [[label.get_text() for label in axis.get_ticklabels()] for axis in (axes.xaxis, axes.yaxis)]
    assert labels == [["a", "b", "long"], ["r", "s"]]
    assert {(text.get_horizontalalignment(), text.get_verticalalignment()) for text in axes.texts} == {
        ("center", "center")
    }
    by_column = drawn(
        HeatMap([[3, 3]], ["r"], ["a", "b"], percent=False, ends=[(1, 5), (3, 4)], row_colours=["#123456"])
    )
    assert [colour(box) for box in boxes(by_column)] == [shade(0.5), shade(0), "#123456"]
    flat = drawn(HeatMap([[0.3, -0.3]], ["r"], ["a", "abc"], low=1))
    assert {to_hex(box.get_facecolor()) for box in boxes(flat)} == {shade(0)}
    assert [text.get_text() for text in flat.texts] == ["30%", "−30%"]
    assert {label.get_rotation() for label in flat.get_xticklabels()} == {0}
    assert not any(spine.get_visible() for spine in flat.spines.values())
    assert [axis.get_tick_params()["length"] for axis in (flat.xaxis, flat.yaxis)] == [0, 0]


def test_rows_of_intervals_are_links_and_shares_are_percentages() -> None:
    axes = drawn(Intervals([Estimate("a", 0.5), Estimate("b", 0.25)], percent=True, links={"b": ("row-b", "Cards")}))
    assert [label.get_url() for label in axes.get_yticklabels()] == [None, link_to("row-b", "Cards")]
    assert axes.xaxis.get_major_formatter()(-0.25, 0) == "−25%"
    assert len(axes.lines) == 1
    assert axes.get_legend() is None
    numbers = drawn(Intervals([Estimate("a", 0.5)], reference=0))
    assert numbers.xaxis.get_major_formatter()(0.25, 0) != "25%"
    assert np.asarray(numbers.lines[-1].get_xdata()).tolist() == [0, 0]
    half = drawn(Intervals([Estimate("a", None, low=0.1), Estimate("b", None, high=0.3)]))
    assert len(half.collections) == len(half.lines) == 0  # an interval needs both ends


def test_bars_are_shaded_from_the_first_part_to_the_last() -> None:
    axes = drawn(StackedBars([[0.25, 0.5, 0.25]], ["a"], ["1", "2", "3"], legend=False))
    assert [to_hex(box.get_facecolor()) for box in boxes(axes)] == [shade(0), shade(0.5), shade(1)]
    assert [text.get_position()[0] for text in axes.texts] == [0.125, 0.5, 0.875]
    assert [text.get_color() for text in axes.texts] == [BLACK, BLACK, WHITE]
    assert axes.get_legend() is None
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 1), (0.5, -0.5))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a"]
    assert (axes.spines["left"].get_visible(), axes.yaxis.get_tick_params()["length"]) == (False, 0)
    (alone,) = boxes(drawn(StackedBars([[1]], ["a"], ["only"])))
    assert to_hex(alone.get_facecolor()) == shade(0)
    narrow = drawn(StackedBars([[0.075, 0.0749]], ["a"], ["1", "2"]))
    assert [text.get_text() for text in narrow.texts] == ["8%"]


def test_a_histogram_ends_at_its_edges() -> None:
    axes = drawn(Histogram([2, 0, 7], [10, 20, 30, 50], "year", "pictures"))
    (stairs,) = (patch for patch in axes.patches if isinstance(patch, StepPatch))
    assert [np.asarray(part).tolist() for part in stairs.get_data()[:2]] == [[2, 0, 7], [10, 20, 30, 50]]
    assert (stairs.get_fill(), to_hex(stairs.get_facecolor())) == (True, ACCENT)
    assert all(tick == round(tick) for tick in drawn(Histogram([1, 2], [0, 1, 2])).get_yticks())
    assert (axes.get_xlim(), axes.get_xlabel(), axes.get_ylabel()) == ((10, 50), "year", "pictures")


def test_more_than_60_points_are_small() -> None:
    sizes = [drawn(Scatter(range(n), range(n))).lines[0].get_markersize() for n in (60, 61)]
    assert sizes == [4, 2.2]
    axes = drawn(Scatter([1, 2], [1, float("inf")]))
    assert np.asarray(axes.lines[0].get_xydata()).tolist() == [[1, 1]]
    assert axes.lines[0].get_color() == SOFT
    ticks = drawn(Scatter([0, 500], [0, 1])).get_xticks()  # whose numbers fit next to each other
    assert sum(0 <= tick <= 500 for tick in ticks) <= 5


def test_a_scatter_of_equal_numbers_has_readable_ticks_and_its_own_ends() -> None:
    close = [0.99990, 0.99991, 0.99992]
    axes = drawn(Scatter(close, [0, 1, 1]))
    axes.figure.canvas.draw()
    assert axes.xaxis.get_offset_text().get_text() == ""
    axes = drawn(Scatter(close, [0, 1, 1], Fit(0, 1), x_bounds=(0, 1)))
    assert (axes.get_xlim(), np.asarray(axes.lines[-1].get_xdata()).tolist()) == ((0, 1), [0, 1])


def test_tiles_are_coloured_up_to_the_highest_share() -> None:
    shares = {"Eastern Asia": 0.25, "northern_africa": None, "Caribbean": float("nan"), "Polynesia": 0.5, "Mars": 1.0}
    links = {"Polynesia": ("tile-1", "Cards"), "Mars": ("tile-2", "Cards")}
    axes = drawn(TileMap(shares, 0.5, links))
    tiles = boxes(axes)[-4:]
    assert [colour(tile) for tile in tiles] == [
        shade(0.5), "none", "none", shade(1)
    ]  # fmt: skip
    assert [tile.get_url() for tile in tiles] == [None, None, None, link_to("tile-1", "Cards")]
    assert [tuple(np.floor(tile.get_xy())) for tile in tiles] == [(6, 1), (4, 2), (1, 1), (9, 3)]
    assert [text.get_text() for text in axes.texts] == [
        "Eastern\nAsia", "25%", "northern\nafrica", "–", "Caribbean", "–", "Polynesia", "50%"
    ]  # fmt: skip
    assert [text.get_color() for text in axes.texts[::2]] == [BLACK, INK, INK, WHITE]
    name, share = axes.texts[:2]
    assert [*name.get_position(), *share.get_position()] == pytest.approx([6.5, 1.36, 6.5, 1.94])
    assert (name.get_verticalalignment(), share.get_verticalalignment()) == ("center", "bottom")
    assert (axes.get_xlim(), axes.get_ylim(), axes.axison) == ((0, 10), (5, 0), False)
    assert colour(boxes(drawn(TileMap({"Polynesia": 0.0}, 0.0)))[-1]) == "none"
    sub_regions = ["unsure", "polynesia", "North America", "Northern_Africa"]
    assert by_region(sub_regions) == ["North America", "Northern_Africa", "polynesia", "unsure"]
    some = ["Europe", "South America", "Amérique du Nord", "asia", "Africa", "North America"]
    assert by_region(some) == ["Africa", "Amérique du Nord", "asia", "Europe", "North America", "South America"]
    assert by_region(["1910s", "900s", "1880s"]) == ["900s", "1880s", "1910s"]
    assert by_region([]) == []


def test_shares_outside_the_scale_have_the_colour_of_its_ends() -> None:
    assert (shade(-1), shade(2)) == (shade(0), shade(1)) == ("#fbeacb", "#2f2a73")
    assert shade(0.5) == "#ce6f6d"
    assert [readable_on(colour) for colour in ("#808080", "#7f7f7f", "#00ff00", "#ff0000", "#0000ff", "none")] == [
        BLACK, WHITE, BLACK, WHITE, WHITE, INK
    ]  # fmt: skip


def _inches(axes: Axes, figure: Figure) -> Any:
    """Return the box of axes with their labels."""
    tight = axes.get_tightbbox()
    assert tight is not None
    return tight.transformed(figure.dpi_scale_trans.inverted())


def kept_figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Return the list to which each figure is added instead of being converted."""
    shown: list[Figure] = []

    def keep(figure: Figure, **_: Any) -> str:
        shown.append(figure)
        return ""

    monkeypatch.setattr(figures, "as_svg", keep)
    return shown


def test_plots_of_a_figure_have_their_own_sizes_in_rows_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = kept_figures(monkeypatch)
    narrow, wide = Histogram([1], [0, 1]), Intervals([Estimate("a long label", 0.5), Estimate("b", 1)])
    figures.small_multiples([("one", narrow), ("", wide), ("three", wide)], title="t", description="d", columns=2)
    figures.small_multiples([("one", narrow)], title="t", description="d", columns=3)
    figures.small_multiples([("", wide)] * 4, title="t", description="d", columns=3, shared_rows=True)
    figures.small_multiples([("", narrow), ("", wide), ("", wide), ("", narrow)], title="t", description="d")
    first, second, third, fourth = shown
    left, right, *below = (_inches(axes, fourth) for axes in fourth.axes)  # two in a row
    assert max(left.x1, below[0].x1) < min(right.x0, below[1].x0)
    assert max(below[0].y1, below[1].y1) < min(left.y0, right.y0)
    figures_drawn: list[tuple[Figure, list[Panel]]] = [(first, [narrow, wide, wide]), (second, [narrow])]
    for figure, panels in figures_drawn:
        width, height = figure.get_size_inches()
        for axes, panel in zip(figure.axes, panels, strict=True):
            box = axes.get_position()
            assert (box.width * width, box.height * height) == pytest.approx(panel.size())
            inches = _inches(axes, figure)
            assert min(inches.x0, inches.y0) >= figures.PAD - 0.01
            assert inches.x1 <= width - figures.PAD + 0.01
            assert inches.y1 <= height - figures.PAD + 0.01
        whole = Bbox.union([_inches(axes, figure) for axes in figure.axes])
        assert (whole.x0, whole.y0) == pytest.approx((figures.PAD, figures.PAD), abs=0.02)  # no room is left over
        assert (whole.x1, whole.y1) == pytest.approx((width - figures.PAD, height - figures.PAD), abs=0.02)
    a, b, c = (axes.get_position() for axes in first.axes)
    assert a.x0 == pytest.approx(c.x0)  # the axes of a column begin at the same place
    assert a.y1 == pytest.approx(b.y1)
    assert (a.x1 < b.x0, c.y1 < b.y0) == (True, True)
    assert [axes.get_title(loc="left") for axes in first.axes] == ["one", "", "three"]
    shown_rows = [[label.get_text() for label in axes.get_yticklabels()] for axes in third.axes]
    assert [any(rows) for rows in shown_rows] == [True, False, False, True]


def test_a_title_is_above_the_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = kept_figures(monkeypatch)
    several = Intervals([Estimate("a", 0.5, series="x"), Estimate("a", 0.5, series="y")])

    def check(panel: Panel) -> None:
        figures.plot(panel, title="t", description="d", heading="One")
        shown[-1].draw_without_rendering()
        (axes,) = shown[-1].axes
        legend = axes.get_legend()
        (title,) = axes.findobj(lambda artist: isinstance(artist, Text) and artist.get_text() == "One")
        assert legend is not None
        assert not legend.get_frame_on()
        names = [text.get_window_extent() for text in legend.get_texts()]
        inside = axes.get_window_extent()
        assert inside.x0 < names[0].x0 < names[1].x1 < inside.x1
        assert max(name.y1 for name in names) <= title.get_window_extent().y0
        assert inside.y1 <= min(name.y0 for name in names)

    check_cases(check, [several, StackedBars([[0.5, 0.5]], ["a"], ["1", "2"])])


def drawn_counts(panel: CountMatrix | Steps) -> Axes:
    axes = Figure().subplots()
    panel.draw(axes)
    return axes


def count_boxes(axes: Axes) -> dict[tuple[float, float], Rectangle]:
    return {(box.get_x() + 0.5, box.get_y() + 0.5): box for box in axes.patches if isinstance(box, Rectangle)}


def test_cells_are_coloured_by_their_share_of_the_row() -> None:
    axes = drawn_counts(CountMatrix([[3, 1], [0, 0], [900, 1100]], ["a", "b", "c"], ["x", "y"], "people", "m"))
    colours = {place: to_hex(box.get_facecolor()) for place, box in count_boxes(axes).items()}
    shares = {(0, 0): 0.75, (1, 0): 0.25, (0, 1): 0, (1, 1): 0, (0, 2): 0.45, (1, 2): 0.55}  # column, row
    assert colours == {place: shade(share) for place, share in shares.items()}
    assert {(box.get_width(), box.get_height()) for box in count_boxes(axes).values()} == {(1, 1)}
    texts = {tuple(text.get_position()): (text.get_text(), text.get_color()) for text in axes.texts}
    black, white = "#000000", "#ffffff"
    assert {place: texts[place] for place in shares} == {
        (0, 0): ("3", white), (1, 0): ("1", black), (0, 1): ("0", black), (1, 1): ("0", black),
        (0, 2): ("900", black), (1, 2): ("1,100", white),
    }  # fmt: skip
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("m", "people")
    labels = [[label.get_text() for label in axis.get_ticklabels()] for axis in (axes.xaxis, axes.yaxis)]
    assert labels == [["x", "y"], ["a", "b", "c"]]


def test_equal_answers_are_outlined_in_front() -> None:
    axes = drawn_counts(CountMatrix([[1, 2], [3, 4]], ["a", "b"], ["a", "b"]))
    edges = {place: (to_hex(box.get_edgecolor()), box.get_zorder()) for place, box in count_boxes(axes).items()}
    assert edges == {
        (0, 0): (INK, 2), (1, 1): (INK, 2), (1, 0): (to_hex(LINE), 1), (0, 1): (to_hex(LINE), 1)
    }  # fmt: skip
    outlined, other = (count_boxes(axes)[place].get_linewidth() for place in ((0, 0), (1, 0)))
    assert outlined > 2 * other


def test_links_are_those_of_row_and_column() -> None:
    axes = drawn_counts(CountMatrix([[1, 2], [3, 4]], ["a", "b"], ["a", "b"], links={(0, 1): ("cell-1", "Cards")}))
    assert {place: box.get_url() for place, box in count_boxes(axes).items() if box.get_url()} == {
        (1, 0): link_to("cell-1", "Cards")
    }


def test_counts_have_sizes_in_inches() -> None:
    assert CountMatrix([[1] * 5] * 3, [""] * 3, [""] * 5).size() == pytest.approx((2.1, 0.78))
    assert CountMatrix([[1]], [""], [""]).size() == pytest.approx((0.84, 0.52))
    assert Steps([1, 2], ["a", "b"]).size() == pytest.approx((3.2, 0.67))
    assert Steps([], []).size() == pytest.approx((3.2, 0.41))


@pytest.mark.parametrize(
    ("counts", "scale", "limits"),
    [
        ([101, 1], "log", (0.5, 1010)),
        ([100, 1], "linear", (0, 130)),
        ([5000, 8, 0], "log", (2, 50_000)),
        ([700, 0], "linear", (0, 910)),
        ([0, 0], "linear", (0, 1)),
    ],
)
def test_the_axis_is_logarithmic_past_a_factor_of_100(
    counts: Sequence[int], scale: str, limits: tuple[float, float]
) -> None:
    axes = drawn_counts(Steps(counts, [f"step {number}" for number in range(len(counts))]))
    assert axes.get_xscale() == scale
    assert axes.get_xlim() == pytest.approx(limits)
    assert len(axes.xaxis.get_minorticklocs()) == 0
    assert axes.get_xlabel() == ("count, on a logarithmic axis" if scale == "log" else "count")


def test_each_bar_has_its_label_and_count_from_top_to_bottom() -> None:
    axes = drawn_counts(Steps([12_000, 30, 0], ["read", "matched", "kept"]))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["read", "matched", "kept"]
    assert (axes.get_ylim(), axes.yaxis.get_tick_params()["length"]) == ((2.5, -0.5), 0)
    assert [text.get_text() for text in axes.texts] == ["12,000", "30", "0"]
    assert all(0 < x < 10 and y == 0 for x, y in (text.get_position() for text in axes.texts))  # points from the end
    assert [text.xy for text in axes.texts] == [(12_000, 0), (30, 1), (7.5, 2)]  # type: ignore[attr-defined]
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    assert [(bar.get_width(), bar.get_center()[1]) for bar in bars] == [(12_000, 0), (30, 1), (0, 2)]
    assert {to_hex(bar.get_facecolor()) for bar in bars} == {ACCENT}
    assert axes.xaxis.get_major_formatter()(10_000, 0) == "10,000"

"""Matrices of counts and funnels as matplotlib draws them: colours by rows, outlines, axes and labels."""

from collections.abc import Sequence

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from jobs.plots.colours import shade
from jobs.plots.counts import CountMatrix, Steps
from jobs.plots.svg import ACCENT, INK, LINE, link_to


def drawn(panel: CountMatrix | Steps) -> Axes:
    axes = Figure().subplots()
    panel.draw(axes)
    return axes


def boxes(axes: Axes) -> dict[tuple[float, float], Rectangle]:
    return {(box.get_x() + 0.5, box.get_y() + 0.5): box for box in axes.patches if isinstance(box, Rectangle)}


def test_cells_are_coloured_by_their_share_of_the_row() -> None:
    axes = drawn(CountMatrix([[3, 1], [0, 0], [900, 1100]], ["a", "b", "c"], ["x", "y"], "people", "m"))
    colours = {place: to_hex(box.get_facecolor()) for place, box in boxes(axes).items()}
    shares = {(0, 0): 0.75, (1, 0): 0.25, (0, 1): 0, (1, 1): 0, (0, 2): 0.45, (1, 2): 0.55}  # column, row
    assert colours == {place: shade(share) for place, share in shares.items()}
    assert {(box.get_width(), box.get_height()) for box in boxes(axes).values()} == {(1, 1)}
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
    axes = drawn(CountMatrix([[1, 2], [3, 4]], ["a", "b"], ["a", "b"]))
    edges = {place: (to_hex(box.get_edgecolor()), box.get_zorder()) for place, box in boxes(axes).items()}
    assert edges == {
        (0, 0): (INK, 2), (1, 1): (INK, 2), (1, 0): (to_hex(LINE), 1), (0, 1): (to_hex(LINE), 1)
    }  # fmt: skip
    outlined, other = (boxes(axes)[place].get_linewidth() for place in ((0, 0), (1, 0)))
    assert outlined > 2 * other


def test_links_are_those_of_row_and_column() -> None:
    axes = drawn(CountMatrix([[1, 2], [3, 4]], ["a", "b"], ["a", "b"], links={(0, 1): ("cell-1", "Cards")}))
    assert {place: box.get_url() for place, box in boxes(axes).items() if box.get_url()} == {
        (1, 0): link_to("cell-1", "Cards")
    }


def test_sizes_in_inches() -> None:
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
    axes = drawn(Steps(counts, [f"step {number}" for number in range(len(counts))]))
    assert axes.get_xscale() == scale
    assert axes.get_xlim() == pytest.approx(limits)
    assert len(axes.xaxis.get_minorticklocs()) == 0
    assert axes.get_xlabel() == ("count, on a logarithmic axis" if scale == "log" else "count")


def test_each_bar_has_its_label_and_count_from_top_to_bottom() -> None:
    axes = drawn(Steps([12_000, 30, 0], ["read", "matched", "kept"]))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["read", "matched", "kept"]
    assert (axes.get_ylim(), axes.yaxis.get_tick_params()["length"]) == ((2.5, -0.5), 0)
    assert [text.get_text() for text in axes.texts] == ["12,000", "30", "0"]
    assert all(0 < x < 10 and y == 0 for x, y in (text.get_position() for text in axes.texts))  # points from the end
    assert [text.xy for text in axes.texts] == [(12_000, 0), (30, 1), (7.5, 2)]  # type: ignore[attr-defined]
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    assert [(bar.get_width(), bar.get_center()[1]) for bar in bars] == [(12_000, 0), (30, 1), (0, 2)]
    assert {to_hex(bar.get_facecolor()) for bar in bars} == {ACCENT}
    assert axes.xaxis.get_major_formatter()(10_000, 0) == "10,000"

"""The parts that all papers share: metrics, printed numbers, tables, files, the page and the configuration."""

import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.metrics.metric import Metric, MetricKind, undefined
from jobs.page.page_contents import Page
from jobs.page.render import render
from jobs.papers import study as study_module
from jobs.papers.paper_tables import (
    MEASURES,
    PaperCell,
    PaperFigure,
    PaperRow,
    PaperTable,
    Printed,
    table_csv,
    write_parts,
)
from jobs.papers.study import (
    MetricIndex,
    PaperSettings,
    PrintedNumbers,
    PrintedTable,
    arrange_paper,
    check_paper,
    no_part,
)
from jobs.plots.figures import Drawing, plot
from jobs.plots.panels import HeatMap
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config

pytestmark = pytest.mark.usefixtures("without_plots")


def metric(name="share", value=0.25, **dims):
    return Metric(name=name, definition="n counts items", value=value, n=8, reason="few", coverage=1.0, dims=dims)


def test_metrics_are_found_by_all_their_dims():
    index = MetricIndex([metric(question="a", group="x"), metric(question="a", group="x", part="1", value=0.5)])
    assert index.get("share", {"question": "a", "group": "x"}).value == 0.25
    assert index.get("share", {"question": "a", "group": "x", "part": "1"}).value == 0.5
    missing = index.get("share", {"question": "b"})
    assert missing.value is None
    assert missing.status == "missing_input"
    assert "question b" in str(missing.reason)
    assert [m.value for m in index.find("share", question="a")] == [0.25, 0.5]
    assert index.values("part", "share", question="a") == ["1"]


def test_the_first_metric_is_of_all_items_and_has_the_preferred_dims():
    index = MetricIndex([
        metric(question="a", attribute="x", slots="2"),
        metric(question="a", slots="3", value=0.5),
        metric(question="a", slots="2", value=0.75),
    ])  # fmt: skip
    assert index.first("share", {"question": "a"}).value == 0.5
    assert index.first("share", {"question": "a"}, slots="2").value == 0.75
    assert index.first("share", {"question": "a", "attribute": "x"}).value == 0.25
    assert index.first("share", {"question": "b"}, reason="why").reason == "why"


def test_of_several_conditions_the_chosen_one_counts():
    metrics = [metric(question="a", condition=name, value=value) for name, value in (("", 0.1), ("article", 0.2))]
    refusals = metric("refusal_rate", condition="", model="m")
    assert MetricIndex([*metrics, refusals], condition="article").get("share", {"question": "a"}).value == 0.2
    assert (
        MetricIndex([*metrics, refusals], condition="article")
        .get("refusal_rate", {"condition": "", "model": "m"})
        .value
    )
    several = "the ratings have several conditions; set paper.condition to one of '', 'article'"
    assert MetricIndex(metrics[::-1]).get("share", {"question": "a"}, reason="other").reason == several
    absent = MetricIndex(metrics, condition="").get("share", {"question": "b", "group": "m"})
    assert absent.reason == "this report has no share of group m, question b"
    assert MetricIndex(metrics, condition="").get("share", {"question": "b"}, reason="other").reason == "other"
    index = MetricIndex([*metrics, refusals], condition="article")
    assert index.conditions == {"", "article"}
    assert [index.under(name).get("share", {"question": "a"}).value for name in ("", "article", "x")] == [
        0.1,
        0.2,
        None,
    ]
    alone = MetricIndex([metric(question="a", value=0.3), refusals])
    assert (alone.conditions, alone.under("x").get("share", {"question": "a"}).value) == (set(), 0.3)


def test_the_scale_of_an_inverted_question_needs_no_dim():
    assert MetricIndex([metric(question="a", inverted="yes")]).get("share", {"question": "a"}).value == 0.25


def test_printed_numbers_have_the_unit_of_metrics():
    table = PrintedTable("t", ["irr", "low", "high"], {"a / b": [26.49, 20, None]})
    assert PrintedNumbers(table).at("a / b", "irr", low="low", high="high") == Printed(0.2649, 0.2, None)
    assert PrintedNumbers(table).at("a / b", "IRR", low="Low") == Printed(0.2649, 0.2)  # in any case
    assert PrintedNumbers(table).at("a / b", "high") is None
    assert PrintedNumbers(table).at("a / b", "other") is None
    assert PrintedNumbers(table).at("other", "irr") is None
    assert PrintedNumbers(PrintedTable("t", ["x"], {"r": [0.46]}, percent=False)).at("r", "x") == Printed(0.46)


def test_printed_rows_without_a_counterpart_have_a_number_in_the_columns_shown():
    rows: dict[str, list[Any]] = {"a / x": [1, None], "a / y": [None, 2], "b / x": [3, 4], "b / z": [None, None]}
    numbers = PrintedNumbers(PrintedTable("t", ["p", "q"], rows, percent=False))

    def alone(columns, **keys):
        rows_alone = numbers.rows_alone(columns, headers=lambda row: (row,), unit="number", **keys)
        assert {cell.unit for row in rows_alone for cell in row.cells} <= {"number"}
        rows_alone = numbers.rows_alone(columns, headers=lambda row: (row,), unit="number", **keys)
        return {row.headers[0]: [cell.printed and cell.printed.value for cell in row.cells] for row in rows_alone}

    assert (numbers.rows, numbers.rows_of("a"), numbers.rows_of("x")) == (list(rows), ["a / x", "a / y"], [])
    assert alone(["p"]) == {"a / x": [1], "b / x": [3]}
    assert alone(["q", None, "p"]) == {"a / x": [None, None, 1], "a / y": [2, None, None], "b / x": [4, None, 3]}
    assert alone(["p", "q"], part="a", without=["a / x"]) == {"a / y": [None, 2]}


def table(name="table_1"):
    none = undefined(MetricKind("share"), "nobody rated")
    return PaperTable(
        name=name,
        title="Shares <i>",
        citation="Paper, table 1",
        row_headers=("Question",),
        columns=(("Model", "explicit"), ("Model", "minimal"), ("People", "")),
        rows=(PaperRow(("a",), (PaperCell(metric(), Printed(0.3)), PaperCell(none), PaperCell())),),
    )


def test_a_table_refuses_rows_that_do_not_fit():
    with pytest.raises(ValueError, match="does not fit"):
        PaperTable("t", "t", "c", ("a",), (("x",),), (PaperRow(("r",), ()),))
    with pytest.raises(ValueError, match="columns have different numbers of levels"):
        PaperTable("t", "t", "c", ("a",), (("x",), ("y", "z")), ())
    assert table().reasons == ("nobody rated",)
    several = replace(table(), rows=table().rows * 2)
    assert several.reasons == ("nobody rated",)  # once


def test_a_csv_has_a_row_per_cell_and_says_why_one_is_undefined():
    rows = list(csv.DictReader(io.StringIO(table_csv(table()).decode())))
    assert [(r["Question"], r["column"], r["value"], r["n"], r["printed"], r["status"]) for r in rows] == [
        ("a", "Model · explicit", "0.25", "8", "0.3", "ok"),
        ("a", "Model · minimal", "", "0", "", "skipped"),
    ]
    assert rows[1]["reason"] == "nobody rated"


def test_a_csv_has_intervals_and_cells_that_only_the_paper_has():
    estimate = Metric(name="share", definition="n counts items", value=0.5, low=0.4, high=0.6, interval_method="m",
                      n=8, coverage=0.75)  # fmt: skip
    cells = (PaperCell(estimate, Printed(0.3, 0.2, 0.35)), PaperCell(printed=Printed(0.1)), PaperCell())
    several = replace(table(), row_headers=("=Question", "Rater"), rows=(PaperRow(("=a", "m"), cells),))
    first, second = csv.DictReader(io.StringIO(table_csv(several).decode()))
    assert list(first) == ["'=Question", "Rater", "column", *MEASURES]
    assert list(first.values()) == [
        "'=a", "m", "Model · explicit", "0.5", "0.4", "0.6", "8", "0.75", "0.3", "0.2", "0.35", "ok", "", "share",
        "n counts items",
    ]  # fmt: skip
    assert [name for name, cell in second.items() if cell] == ["'=Question", "Rater", "column", "printed"]
    assert second["printed"] == "0.1"


def test_files_of_an_earlier_report_are_removed(tmp_path):
    figure = PaperFigure(
        "figure_1", "t", "c", plot(HeatMap([[1.0]], ["a"], ["b"]), title="t", description="d"), table()
    )
    write_parts(str(tmp_path), [table(), figure])
    (tmp_path / "paper" / "own notes.txt").write_text("kept")
    names = {path.name for path in (tmp_path / "paper").iterdir()}
    of_figure = {"figure_1.csv", "figure_1.pdf", "figure_1.svg"}
    assert names == {"table_1.csv", "captions.csv", "own notes.txt"} | of_figure
    write_parts(str(tmp_path), [table()])
    assert {path.name for path in (tmp_path / "paper").iterdir()} == names - of_figure
    write_parts(str(tmp_path), [])
    assert {path.name for path in (tmp_path / "paper").iterdir()} == {"own notes.txt"}


def test_the_file_of_a_figure_is_xml_whatever_its_labels(tmp_path):
    svg = Drawing('<svg class="plot"><text>a\x1bb\ud800\x9b</text></svg>')
    drawn = plot(HeatMap([[1.0]], ["a"], ["b"]), title="t", description="d")
    svg.strokes, svg.size = drawn.strokes, drawn.size
    write_parts(str(tmp_path), [PaperFigure("figure_1", "t", "c", svg, table())])
    root = ET.fromstring((tmp_path / "paper" / "figure_1.svg").read_bytes())
    assert root.findtext("text") == "a\ufffdb\ufffd\ufffd"


def test_the_page_shows_parts_with_contents_and_marks_printed_numbers():
    svg = plot(HeatMap([[1.0]], ["a"], ["b"]), title="t", description="d")
    html = render(Page("T", paper=[table(), PaperFigure("figure_1", "F", "c", svg, table("n"))], paper_title="Century"))
    assert "<summary><h3>Shares &lt;i&gt; <small>" in html
    assert "are printed in the paper" in html
    assert '<span class="printed">paper 30.0%</span>' in html
    assert "— nobody rated" in html
    assert 'colspan="2"' in html
    assert svg in html
    assert 'href="#paper"' not in render(Page("T"))


def test_a_paper_sets_metrics_and_the_command_line_wins():
    schema = cli.job("report").schema
    own_config = config.load("report", schema, ["out=x", "paper=century"])
    assert own_config.paper.name == "century"
    assert own_config.metrics.crowdtruth
    assert own_config.paper.printed["table_2"].rows["sensitive / Human eval"] == [1.7, 55.8, 90.9]
    changed = config.load("report", schema, ["out=x", "paper=century", "metrics.crowdtruth=false", "paper.title=Mine"])
    assert not changed.metrics.crowdtruth
    assert changed.paper.title == "Mine"
    check_paper(own_config.paper)


def test_a_users_own_paper_file(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text("# Mine\n# @package _global_\nmetrics: {tolerance: 2}\npaper: {name: century}\n")
    loaded = config.load("report", cli.job("report").schema, ["out=x", f"paper={file}"])
    assert (loaded.metrics.tolerance, loaded.paper.name) == (2, "century")
    with pytest.raises(InputError, match=r"paper=cent: no such option .*must be one of .*century"):
        config.load("report", cli.job("report").schema, ["out=x", "paper=cent"])


def test_settings_are_checked_before_tables_are_read():
    with pytest.raises(InputError, match=r"paper.name=x: no such paper; must be one of .*century"):
        check_paper(PaperSettings(name="x"))
    with pytest.raises(InputError, match="must be GLOB=NAME"):
        check_paper(PaperSettings(name="century", names=["gpt"]))
    with pytest.raises(InputError, match="must be a number or null"):
        check_paper(PaperSettings(name="century", printed={"t": PrintedTable("t", ["a"], {"r": ["x"]})}))
    with pytest.raises(InputError, match="1 numbers for 2 columns"):
        check_paper(PaperSettings(name="century", printed={"t": PrintedTable("t", ["a", "b"], {"r": [1]})}))


def test_parts_of_a_paper_have_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def arranged(parts: list[PaperTable], name: str | None = "mine") -> list[str]:
        modules = {"jobs.papers.mine_tables": SimpleNamespace(arrange=lambda study: iter(parts))}
        monkeypatch.setattr(study_module.importlib, "import_module", modules.__getitem__)
        study: Any = SimpleNamespace(settings=PaperSettings(name=name))
        return [part.name for part in arrange_paper(study)]

    assert arranged([table("b"), table("a")]) == ["b", "a"]
    with pytest.raises(ValueError, match=r"^mine: two tables or figures have the same name$"):
        arranged([table("a"), table("b"), table("a")])
    assert arranged([table("a")], None) == arranged([]) == []


def test_the_absence_of_a_papers_parts_is_explained() -> None:
    start = "paper=mine: no table or figure applies; they need ratings with the rubrics "
    rubrics = {"images": "labels", "responses": "quality"}
    assert no_part(PaperSettings(name="mine", rubrics=rubrics)) == f"{start}labels, quality"
    assert no_part(PaperSettings(name="mine")) == f"{start}of the paper"

"""What commands print about their results, and the files that follow from them, on values written by hand."""

from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pytest

from actors.ids import content_id
from jobs import diff, export, import_ratings, questions, report
from jobs.analysis import file_analysis, metrics_output
from jobs.analysis.file_analysis import FileAnalysis
from jobs.analysis.metrics_output import wide
from jobs.analysis.tric_metrics import Ranking, Reranking, WordedCaptions, statistics
from jobs.corpora.cell_texts import csv_file
from jobs.corpora.tric import PUBLISHED, Split
from jobs.errors import InputError
from jobs.inventory.differences import ColumnDifference, Differences
from jobs.inventory.found import RatedRun
from jobs.metrics.metric import Metric
from jobs.page import file_report
from jobs.page.page_contents import Page
from jobs.runtime.outcomes import Manifest
from jobs.steps import link_evaluate, tric_rank, tric_rerank, tric_statistics
from tests.factories import rating, write_table

Printed = pytest.CaptureFixture[str]
SPLIT = Split(
    ("a.png", "b.png"), (date(1894, 7, 13), date(1921, 1, 1)), {"1": "A dog", "2": "Bread", "7": "A cat"}, ("2", "7")
)


def metric(name: str, value: float | None = 0.5, *, low: float | None = None, n: int = 4, **dims: str) -> Metric:
    bounds: dict[str, Any] = {} if low is None else {"low": low, "high": 0.75, "interval_method": "bootstrap"}
    reason = "one rater" if value is None else None if bounds else "no interval"
    status = "ok" if value is not None else "error"
    return Metric(
        name=name, definition="Definition.", value=value, n=n, status=status, reason=reason, dims=dims, **bounds
    )


def lines(capsys: Printed) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_metrics_of_groups_are_printed_before_those_of_raters_and_none_of_units(capsys: Printed) -> None:
    shown = [metric("a", rater="ann", rubric="r"), metric("b", unit="u"), metric("c", None),
             metric("d", low=0.25, n=1200)]  # fmt: skip
    assert list(metrics_output.metric_lines(shown)) == [
        f"{'c':28} undefined n=4  (one rater)",
        f"{'d':28} 0.5000 [0.2500, 0.7500] n=1,200 ",
        f"{'a':28} 0.5000 n=4 rater ann",
    ]
    for count, more in ((metrics_output.MAX_SHOWN, []), (metrics_output.MAX_SHOWN + 2, ["… and 2 more"])):
        assert list(metrics_output.metric_lines([metric("m")] * count))[metrics_output.MAX_SHOWN :] == more


def test_repeated_ratings_are_named_by_question(capsys: Printed) -> None:
    repeated = [metric("ratings_repeated", value, question="q") for value in (0.0, 1200.0)]
    line = next(metrics_output.metric_lines([*repeated, metric("ratings_total", 3.0, question="t")]))
    assert line.startswith("q: 1,200 duplicate (rater, item) rows; scores are averaged")


def test_texts_that_would_be_formulas_are_marked_in_the_file_of_metrics() -> None:
    header, row = csv_file(*wide([metric("m", rater="=1+1")])).decode().splitlines()
    assert header.startswith("metric,rater,")
    assert row.startswith("m,'=1+1,")


def test_keys_of_another_task_are_refused() -> None:
    for key, task in {
        "people": "dsg", "missing": "agreement", "scale": "agreement", "separator": "crowdtruth",
        "annotations": "crowdtruth", "empty": "crowdtruth",
    }.items():  # fmt: skip
        others = [name for name in file_analysis.TASKS if name != task]
        for other in others:
            cfg = report.ReportConfig(task=other, input="/none.csv", out="/R")
            setattr(cfg, key, [1.0, 2.0] if key == "scale" else ["x"] if key in ("missing", "annotations") else "x")
            with pytest.raises(InputError, match=f"^{key}: only task={task} uses it"):
                report.execute(cfg)


def test_differences_are_printed_with_the_first_rows(capsys: Printed) -> None:
    rows = pa.table({"in": ["a", "b", "both"], "item_id": ["x", "y", "z"], "text (a)": ["t" * 41, None, "two\nlines"]})
    columns = {"score": ColumnDifference(1, 0.123456789), "text": ColumnDifference(1200, None)}
    both = Differences("ratings", {"k": (1, None)}, (1, 1200), (1, 1000), 2000, columns, rows)
    diff._show(both, 2)
    assert lines(capsys) == [
        "diff: table ratings, 1 row in a and 1,200 in b",
        "  configuration: k is 1 in a, not set in b",
        "  1 only in a, 1,000 only in b, 2,000 with other values",
        "  score: differs in 1 row, by at most 0.123457",
        "  text: differs in 1,200 rows",
        "    in  item_id  text (a)",
        f"    a   x        {'t' * 39}…",
        "    b   y",
    ]
    assert [diff._short(value) for value in ("t" * 40, None, "two\n lines", 5)] == ["t" * 40, "", "two lines", "5"]
    diff._show(both, 0)
    assert lines(capsys)[-1] == "  text: differs in 1,200 rows"
    diff._show(Differences("ratings", {}, (1, 1), (0, 0), 0, {}, rows.slice(0, 0)), 2)
    assert lines(capsys)[1:] == ["  the rows are equal"]


def test_rows_that_differ_are_texts_and_numbers_for_spreadsheets(tmp_path: Path) -> None:
    rows = pa.table({"n": [1.5, None], "text": ["=1+1", None], "list": [["a"], []]})
    diff._write(rows, f"{tmp_path}/rows.csv")
    read = pcsv.read_csv(tmp_path / "rows.csv", convert_options=pcsv.ConvertOptions(strings_can_be_null=True))
    assert read.to_pylist() == [
        {"n": 1.5, "text": "'=1+1", "list": "['a']"}, {"n": None, "text": None, "list": "[]"}
    ]  # fmt: skip
    for key in ("tolerance", "examples"):
        with pytest.raises(diff.InputError, match=f"^{key}=-1: must be at least 0"):
            diff.execute(diff.DiffConfig(a="a", b="b", **{key: -1}))  # type: ignore[arg-type]


def test_every_differing_row_is_written_and_only_the_examples_are_printed(tmp_path: Path, capsys: Printed) -> None:
    def uri(name: str, value: str) -> str:
        rows = [rating(f"i{n:02}", "m", "q", value) for n in range(12)]
        return write_table(tmp_path / name, "ratings", rows)

    a, b, out = uri("a", "1"), uri("b", "2"), tmp_path / "rows.csv"
    diff.execute(diff.DiffConfig(a=a, b=b, out=str(out)))
    assert len(lines(capsys)) == 4 + 11 + 1, "ten rows by default, their header, and the place of all"
    assert len(out.read_text().splitlines()) == 13
    with pytest.raises(diff.InputError, match="exists"):
        diff.execute(diff.DiffConfig(a=a, b=b, out=str(out)))
    diff.execute(diff.DiffConfig(a=a, b=b, out=str(out), examples=1, overwrite=True))
    assert len(out.read_text().splitlines()) == 13
    with pytest.raises(diff.RunError, match=r"differ \(strict=true\)"):
        diff.execute(diff.DiffConfig(a=a, b=b, strict=True))
    diff.execute(diff.DiffConfig(a=a, b=b, strict=True, ignore=["value", "score"]))


def test_metrics_of_ranked_lists_are_printed_if_they_are_defined(capsys: Printed) -> None:
    metrics = [metric("mrr", low=0.25, n=1200, kind="food"), metric("accuracy@1"), metric("recall@1", None)]
    assert list(link_evaluate._lines(metrics)) == [
        f"  {'mrr':<12} 0.5000 [0.2500, 0.7500]  n=1,200 kind=food", f"  {'accuracy@1':<12} 0.5000  n=4"
    ]  # fmt: skip


def test_ratings_of_several_runs_are_joined_with_the_tables_of_all(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    runs = {
        "first": RatedRun(["first/a", "first/b"], ["first/items", "shared"], None, None),
        "second": RatedRun(["second/a"], ["shared"], "second/records", "second/images"),
        "third": RatedRun(["third/a"], [], "third/records", "third/images"),
    }
    monkeypatch.setattr(export, "find_rated_run", runs.get)
    cfg = export._of_runs(export.ExportConfig(out="o", ratings=["table", *runs]))
    assert cfg.ratings == ["table", "first/a", "first/b", "second/a", "third/a"]
    assert (cfg.items, cfg.records, cfg.images) == (["first/items", "shared"], "second/records", "second/images")
    assert lines(capsys) == [
        "  ratings: table, first/a, first/b, second/a, third/a", "  items: first/items, shared",
        "  records: second/records", "  images: second/images",
    ]  # fmt: skip
    named = export._of_runs(export.ExportConfig("o", ["second"], records="R", images="I", items=["S"]))
    assert (named.items, named.records, named.images) == (["S"], "R", "I")
    export._of_runs(export.ExportConfig("o", ["first"]))
    assert lines(capsys)[-2:] == ["  records: none", "  images: none"]
    plain = export.ExportConfig("o", ["table"])
    assert export._of_runs(plain) is plain
    assert lines(capsys) == []


def test_what_was_imported_is_printed_with_its_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    reject = SimpleNamespace(file="f.csv", position=1200, message="no rater")
    importer: Any = SimpleNamespace(first_rejects=[reject], first_repeat="f.csv, line 3")
    names = ("tasks", "items", "people")
    tallies = {
        word: {**dict.fromkeys(names, some), **{f"of_{name}": 1600 for name in names}}
        for word, some in (("reports", 0), ("skips", 1200), ("issues", 1))
    } | {"conflicts": {"country": 2}}
    cfg = import_ratings.ImportRatingsConfig(input="i", out="o", duplicates="first")
    imported = Manifest({"counts": {"tallies": tallies}})
    skipped, issues = (", ".join(f"{share[0]} of 1,600 {name} ({share[1]})" for name in names)
                       for share in (("1,200", "75.0%"), ("1", "0.1%")))  # fmt: skip
    assert list(import_ratings._lines(cfg, importer, imported, str(tmp_path))) == [
        "  rejected: f.csv, position 1,200: no rater",
        "  repeated (duplicates=first), the first at f.csv, line 3",
        f"  skipped: {skipped}",
        f"  response issues: {issues}",
        "  country: 2 people have two different values; neither is kept",
    ]


def test_only_ratings_keep_a_rubric_or_the_answers_in_its_place() -> None:
    def kept(**keys: Any) -> Any:
        return import_ratings._kept(import_ratings.ImportRatingsConfig(input="i", out="o", **keys))

    assert kept(table="spans", answers=["1"]) is None
    scale, words = kept(name="n", answers=["1", "2"]), kept(answers=["yes", "no"], scale="nominal")
    assert (scale.name, [question.scale for question in scale.questions]) == ("n", ["ordinal"])
    assert (words.name, [question.scale for question in words.questions]) == ("people", ["nominal"])


def test_questions_and_their_faults_are_counted(tmp_path: Path, capsys: Printed) -> None:
    rows = [
        {"set_id": "s" if n < 3 else "t", "question_id": str(n), "text": "?", "valid": fault is None, "fault": fault}
        for n, fault in enumerate((None, "duplicate", "duplicate, cycle", None))
    ]  # fmt: skip
    table = write_table(tmp_path / "q", "questions", rows)
    assert questions._lines(table) == ["  4 questions in 2 sets, 2 valid", "  faults: duplicate 2, cycle 1"]


def test_a_ranking_is_printed_with_the_published_ones_and_its_weights(capsys: Printed) -> None:
    shown = [metric("mrr", low=0.25, n=1200, template="year", decade="1890s"), metric("mrr_change", None)]
    printed = list(tric_rank._lines(SPLIT, shown, "e@1"))
    assert printed[:6] == [
        "  year        mean 1907.50, median 1907.5, deviation 19.09",
        "  words       mean 1.67, median 2, deviation 0.58",
        "  characters  mean 5.00, median 5, deviation 0.00",
        "  model e@1",
        f"  {'mrr':<15} {'year 1890s':<14} 0.5000 [0.2500, 0.7500] n=1,200",
        f"  {'mrr_change':<15} {'':<14} 0.0000  n=4",
    ]
    assert printed[7:] == [f"    {submitter:<40} {first:.4f}  {second:.4f}" for submitter, first, second in PUBLISHED]
    one_picture = Split(("a",), SPLIT.dates[:1], {"1": "A"}, None)
    assert next(tric_rank._lines(one_picture, [], "")) == "  year        mean 1894.00, median 1894"


def test_the_best_captions_of_a_picture_are_rows_and_a_line_of_answers() -> None:
    many = Split(("a.png", "b.png"), SPLIT.dates, {str(n): f"caption {n}" for n in range(120)}, None)
    positions = np.arange(120)[::-1]
    best = {1: Ranking(positions, np.linspace(1, 0, 120))}
    worded = {
        ("decade", "1920"): WordedCaptions(
            [f"t{n}" for n in range(120)], list(many.captions), np.zeros((120, 1), np.float16)
        )
    }
    rows = tric_rank.neighbors(many, best, worded, "decade").to_pylist()
    assert len(rows) == 100
    assert rows[0] | {"query_id": content_id("b.png"), "rank": 1, "item_id": "t119", "score": 1.0} == rows[0]
    assert (rows[-1]["rank"], rows[-1]["item_id"]) == (100, "t20")
    without, ranked = tric_rank._answers(many, best).splitlines()
    assert (without.split("\t")[:2], ranked.split("\t")[:2]) == (["0", "1"], ["119", "118"])


def test_a_rater_and_a_condition_have_a_separate_folder() -> None:
    places = [tric_rerank.answer_uri("R", judge) for judge in (("a/b c@1.0", "no date"), ("m-1", ""))]
    assert places == ["R/a_b_c@1.0/no_date/out.tsv", "R/m-1/no_condition/out.tsv"]


def test_re_ranked_pictures_are_counted_and_metrics_of_decades_left_out(capsys: Printed) -> None:
    after = {("m", "day"): Reranking({}, frozenset({0}))}
    shown = [metric("mrr@100", low=0.25, n=1200, ranking="judge", rater="m"), metric("mrr@100", decade="1890s"),
             metric("mrr_change@100", -0.5, first="none"), metric("mrr@100", None)]  # fmt: skip
    assert list(tric_rerank._lines({0: [], 1: [], 2: []}, after, shown)) == [
        "  m day: 2 of 3 pictures re-ranked; the others keep their order",
        f"  {'mrr@100':<15} +0.5000 [0.2500, 0.7500] n=1,200  judge m",
        f"  {'mrr_change@100':<15} -0.5000  n=4  none",
    ]


def test_statistics_of_splits_are_a_table(capsys: Printed) -> None:
    splits = {"dev-0": SPLIT, "late": Split(("c",), SPLIT.dates[1:], {"1": "A"}, None)}
    unions = {"all": ["dev-0", "late"]}
    bins = {"year": 1, "words": 1, "characters": 1}
    metrics = list(statistics(splits, unions, bins))
    printed = [line.split() for line in tric_statistics._lines(splits, unions, metrics)]
    assert printed[1:] == [
        ["dev-0", "2", "year", "1907.50", "1907.50", "19.09", "1894", "1921"],
        ["words", "1.67", "2.00", "0.58", "1", "2"],
        ["characters", "5.00", "5.00", "0.00", "5", "5"],
        ["late", "1", "year", "1921.00", "1921.00", "-", "1921", "1921"],
        ["words", "1.00", "1.00", "-", "1", "1"],
        ["characters", "1.00", "1.00", "-", "1", "1"],
        ["all", "3", "year", "1912.00", "1921.00", "15.59", "1894", "1921"],
        ["words", "1.50", "1.50", "0.58", "1", "2"],
        ["characters", "4.00", "5.00", "2.00", "1", "5"],
    ]


def test_a_page_of_a_file_names_its_task_its_inputs_and_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[Page] = []
    asked: list[tuple[Any, ...]] = []
    analysis = FileAnalysis([metric("m")])

    def compute(*arguments: Any) -> FileAnalysis:
        asked.append(arguments)
        return analysis

    def render(page: Page) -> str:
        pages.append(page)
        return "page"

    monkeypatch.setattr(file_report, "file_scene_graphs", compute)
    monkeypatch.setattr(file_report, "find_columns", lambda _, uri: {"of": uri})
    monkeypatch.setattr(file_report, "page_figures", lambda metrics, observations, words, letters: ([], ["Scores"]))
    monkeypatch.setattr(file_report, "render", render)
    files = {name: tmp_path / f"{name}.csv" for name in ("answers", "people")}
    for file in files.values():
        file.write_text("a,b\n1,2\n")
    (tmp_path / "list.txt").write_text("i1\ni2\n")
    cfg = report.ReportConfig(
        task="dsg", input=str(files["answers"]), people=str(files["people"]), title="Mine", out=f"{tmp_path}/F",
        exclusions=f"{tmp_path}/list.txt",
    )  # fmt: skip
    identity = report.execute(cfg)["identity"]
    assert identity["task"] == "dsg"
    assert [uri for uri, _ in identity["inputs"]] == [str(file) for file in files.values()]
    assert "exclusions" in identity
    ((config, uri, columns, exclusion_filter),) = asked
    assert (config, uri, columns) == (cfg, str(files["answers"]), {"of": str(files["answers"])})
    assert [exclusion_filter.hit(name) for name in ("i1", "i2", "i3")] == [True, True, False]
    (page,) = pages
    assert (page.title, page.lede, page.figures_left_out) == ("Mine", "dsg of answers.csv", ["Scores"])
    assert list(page.provenance)[:2] == [("input", f"{tmp_path.name}/{file.name}") for file in files.values()]
    assert list(page.provenance)[2:] == sorted(page.provenance[2:])
    assert page.metrics == analysis.metrics
    assert (tmp_path / "F" / "metrics.csv").read_text().splitlines()[1].startswith("m,")

"""TRIC's tables and figures from computed metrics, by hand."""

import csv
from pathlib import Path
from typing import Any

import pytest

from jobs.analysis.metrics_output import metrics_table
from jobs.analysis.tric_metrics import statistics
from jobs.corpora.tric import read_split
from jobs.metrics import ranking
from jobs.runtime.command_line import cli
from jobs.runtime.job_tables import write_small

pytestmark = pytest.mark.usefixtures("without_plots")


def write(folder: Path, metrics: list[Any]) -> None:
    write_small(str(folder), metrics_table(metrics), table="metrics", identity={}, config={})


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the paper's files."""
    folder = tmp_path_factory.mktemp("tric")
    for name, years in (("train", (1880, 1890)), ("train2", (1900, 1910))):
        (folder / name).mkdir()
        (folder / name / "in.tsv").write_text("".join(f"{name}{year}.png\t{year}-01-01\n" for year in years))
        (folder / name / "captions.tsv").write_text("1\tone\n2\ttwo words\n")
    splits = {name: read_split(f"{folder}/{name}") for name in ("train", "train2")}
    bins = {"year": 10, "words": 1, "characters": 5}
    write(folder / "statistics", list(statistics(splits, {"training": ["train", "train2"]}, bins)))
    ranks, dated = [1, 2, 4, 4, 5], [1, 1, 2, 4, 5]
    write(folder / "ranked" / "clip-b32" / "metrics", [
        ranking.mrr(ranks).at(template="none"),
        ranking.mrr(dated).at(template="year"),
        ranking.mrr_change(ranks, dated).at(first="none", second="year"),
        ranking.mrr(ranks[:2]).at(template="none", decade="1880s"),
    ])  # fmt: skip
    write(folder / "reranked" / "metrics", [
        ranking.mrr(ranks, cut=100).at(ranking="encoder"),
        ranking.mrr(dated, cut=100).at(ranking="judge", rater="m", condition="day"),
        ranking.mrr_change(ranks, dated, cut=100).at(rater="m", first="encoder", second="day"),
        ranking.mrr_change([1] * 5, dated, cut=100).at(rater="m", first="none", second="day"),
    ])  # fmt: skip
    tables = f"{folder}/statistics,{folder}/ranked/*/metrics,{folder}/reranked/metrics"
    cli.execute("report", [f"computed=[{tables}]", "paper=tric", "paper.show_printed=true", f"out={folder}/out"])
    return folder / "out" / "paper"


def rows(paper: Path, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((paper / f"{name}.csv").open(encoding="utf-8")))


def test_the_splits(paper: Path) -> None:
    shares = {(r["Split"], r["column"]): (r["value"], r["printed"]) for r in rows(paper, "table_1")}
    assert shares["train", "Pictures"] == ("2.0", "675.0")
    assert shares["training", "Share"] == ("1.0", "0.7")
    assert shares["test-B", "Pictures"] == ("", "435.0")
    numbers = {(r["Split"], r["column"]): (r["value"], r["printed"]) for r in rows(paper, "section_6")}
    assert numbers["training", "Year · mean"] == ("1895.0", "1903.52")
    assert numbers["training", "Words per caption · median"] == ("1.5", "7.0")
    assert numbers["training", "Characters per caption · max"] == ("9.0", "")


def test_the_figures(paper: Path) -> None:
    assert {file.name for file in paper.glob("*.svg")} == {"figure_5.svg", "figure_7.svg"}
    bars = {r["From"]: r["value"] for r in rows(paper, "figure_5")}
    assert bars == {"1880": "1.0", "1890": "1.0", "1900": "1.0", "1910": "1.0"}
    assert ">1920<" in (paper / "figure_5.svg").read_text(encoding="utf-8")  # where the last bar ends
    captions = {(r["Column"], r["From"]): r["value"] for r in rows(paper, "figure_7")}
    assert captions["Words per caption", "2"] == "2.0"
    assert captions["Characters per caption", "0"] == "2.0"


def test_the_rankings(paper: Path) -> None:
    by_key = {(r["Encoder"], r["Date in the caption"], r["column"]): r for r in rows(paper, "table_2")}
    before, after = (1 + 1 / 2 + 1 / 4 + 1 / 4 + 1 / 5) / 5, (1 + 1 + 1 / 2 + 1 / 4 + 1 / 5) / 5
    assert float(by_key["clip-b32", "no date", "This split · MRR"]["value"]) == pytest.approx(before)
    assert by_key["clip-b32", "no date", "test-B · MRR"]["printed"] == "0.171"
    assert ("transformer baseline", "", "test-B · MRR") not in by_key  # it is the row of clip-b32
    change = by_key["clip-b32", "year", "This split · change from no date"]
    assert float(change["value"]) == pytest.approx(after - before)
    assert by_key["Kaszuba", "", "test-A · MRR"]["printed"] == "0.6059"
    again = {(r["Judge"], r["column"]): r for r in rows(paper, "reranking")}
    assert float(again["m", "change from the encoder"]["value"]) == pytest.approx(after - before)
    assert float(again["m", "change from no date"]["value"]) == pytest.approx(after - 1)
    assert float(again["", "MRR"]["value"]) == pytest.approx(before)

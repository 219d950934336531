"""Rome's tables and figures of small ratings, compared with hand-computed numbers and with the paper's own."""

import csv
import io
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest
import yaml
from PIL import Image
from scipy.stats import ttest_ind

from actors.rubrics.rubric import Rubric
from jobs.analysis import scene_graph_scores
from jobs.judging.kept_rubric import KeptRubric, of_rubric
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config_files import CONF
from tests.factories import image_row, rating, write_file, write_table

pytestmark = pytest.mark.usefixtures("without_plots")
SCENARIOS = {f"i{n}": "Triumph" if n < 6 else "Lupercalia" for n in range(12)}
DREW = {item: f"draws_{'ab'[number % 2]}" for number, item in enumerate(SCENARIOS)}
PEOPLE = [5, 4, 4, 3, 2, 5, 1, 2, 3, 3, 2, 1]
MODELS = {"gpt@1": [5, 5, 4, 4, 3, 5, 3, 3, 4, 3, 3, 2], "open@1": [4, 4, 4, 3, 3, 4, 3, 2, 4, 4, 3, 2]}
SCORES = [1.0, 0.9, 0.85, 0.5, 0.5, 1.0, 0.0, 0.25, 0.3, 0.3, 0.2, 0.1]


def kept(name: str) -> KeptRubric:
    data = yaml.safe_load((CONF / "rubric" / f"{name}.yaml").read_text(encoding="utf-8"))
    return of_rubric(Rubric.from_dict(data), data)


def cells(folder: Path, name: str) -> dict[tuple[str, ...], dict[str, str]]:
    """Return (row headers, column) -> row of a CSV of the paper."""
    with (folder / "R" / "paper" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    headers = list(rows[0])[: list(rows[0]).index("column") + 1]
    return {tuple(row[header] for header in headers): row for row in rows}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rome")
    of_rating = {"rubric": "image_rating"}
    rated = [
        rating(item, "p1", "match", str(score), **of_rating) for item, score in zip(SCENARIOS, PEOPLE, strict=True)
    ]
    rated += [rating("i0", "p2", "match", None, **of_rating), rating("i1", "p2", "match", "4", **of_rating)]
    for model, scores in MODELS.items():
        rated += [rating(i, model, "match", str(s), **of_rating) for i, s in zip(SCENARIOS, scores, strict=True)]
    answers: list[dict[str, Any]] = []
    for item, score in zip(SCENARIOS, SCORES, strict=True):
        value = scene_graph_scores.BINS[int(score * scene_graph_scores.STEPS + 1e-9)]
        columns = {"rubric": "dsg_score", "score": score, "answers": list(scene_graph_scores.BINS)}
        answers += [rating(item, "gpt@1", question, value, **columns) for question in scene_graph_scores.QUESTIONS]
    items = [
        {"item_id": item, "kind": "image", "text_ids": [f"t{item}"], "image_ids": [f"p{item}"],
         "attributes": [("scenario", scenario), ("image_model", DREW[item])]}
        for item, scenario in SCENARIOS.items()
    ]  # fmt: skip
    out = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(out, "PNG")
    pictures = [image_row(f"/{item}.png", image_id=f"p{item}") | {"bytes": out.getvalue()} for item in SCENARIOS]
    pairs: list[dict[str, Any]] = [
        {"item_id": f"{a}-{b}", "kind": "pair",
         "attributes": [("pair", "".join(sorted((a, b)))), ("first", a), ("second", b)]}
        for a, b in (("i0", "i1"), ("i1", "i0"), ("i2", "i3"), ("i3", "i2"))
    ]  # fmt: skip
    compared = [
        rating(pair["item_id"], rater, "preference", value, rubric="image_comparison")
        for rater, values in {"gpt@1": "first second first first", "p1": "first second first second"}.items()
        for pair, value in zip(pairs, values.split(), strict=True)
    ]
    texts = [{"text_id": f"t{item}", "role": "prompt", "text": f"prompt of\n{item}"} for item in SCENARIOS]
    tables = {
        "ratings": [
            write_file(folder / "rated", "ratings", rated, rubric=kept("image_rating")),
            write_file(folder / "compared", "ratings", compared, rubric=kept("image_comparison")),
            write_file(folder / "scores", "ratings", answers, rubric=scene_graph_scores.kept_rubric()),
        ],
        "items": [write_file(folder / "items", "items", items), write_file(folder / "pairs", "items", pairs)],
        "texts": [write_file(folder / "texts", "texts", texts)],
    }
    keys = [f"{name}=[{','.join(uris)}]" for name, uris in tables.items()]
    keys += [f"images={write_table(str(folder / 'images'), 'images', pictures)}", f"exclusions={folder}/excluded"]
    (folder / "excluded").write_text("pi6\n")
    assert (
        cli.main("report", [*keys, "paper=rome", "paper.show_printed=true", "paper.names=[gpt=GPT]", f"out={folder}/R"])
        == 0
    )
    return folder


def number(row: dict[str, str]) -> float:
    return float(row["value"])


def test_table_1(report: Path) -> None:
    table = cells(report, "table_1")
    row = {column: cell for (label, column), cell in table.items() if label == "Image rating (IR)"}
    assert [number(row[name]) for name in ("Total assessments · ", "Multiple annotations · ", "Excluded · ")] == [
        14,
        2,
        1,
    ]
    assert float(row["Total assessments · "]["printed"]) == 568
    assert number(row["Per person · mean"]) == 7
    assert number(row["Per person · SD"]) == pytest.approx(np.std([12, 2], ddof=1))
    pairs = {column: cell for (label, column), cell in table.items() if label == "Image comparison (IC)"}
    assert (number(pairs["Total assessments · "]), float(pairs["Per person · SD"]["printed"])) == (4, 43.32)
    assert number(pairs["Multiple annotations · "]) == 2  # each pair in both orders


def test_table_2(report: Path) -> None:
    table = cells(report, "table_2")
    assert number(table["gpt@1", "Agreement with people · same order"]) == 0.75
    assert float(table["gpt@1", "Agreement with people · same order"]["printed"]) == 0.5751
    assert number(table["gpt@1", "Agreement with people · both orders, by answer"]) == 0.75
    assert number(table["gpt@1", "Position · bias"]) == 0.5
    assert not [rater for rater, _ in table if rater.startswith("GPT")]
    assert table["gpt@1", "Agreement with people · both orders, by probability"]["status"] != "ok"


def test_figure_3(report: Path) -> None:
    left = cells(report, "figure_3_left")
    assert number(left["People", "4"]) == 3 / 13
    assert number(left["gpt@1", "5"]) == 3 / 12
    right = cells(report, "figure_3_right")
    differences = [m - p for m, p in zip(MODELS["gpt@1"], PEOPLE, strict=True)] + [5 - 4]
    assert number(right["gpt@1", "+1"]) == differences.count(1) / 13
    assert float(right["gpt@1", "+1"]["printed"]) == 0.3107
    assert number(right["gpt@1", "mean"]) == pytest.approx(np.mean(differences))
    assert not [rater for rater, _ in right if rater.startswith("GPT")]  # the paper's numbers are in the row of gpt@1


def test_table_3(report: Path) -> None:
    table = cells(report, "table_3")
    model = MODELS["gpt@1"]
    assert number(table["Average score", "gpt@1 · Triumph"]) == pytest.approx(np.mean(model[:6]))
    assert number(table["SD", "People · Lupercalia"]) == pytest.approx(np.std(PEOPLE[6:], ddof=1))
    assert number(table["Samples", "People · Triumph"]) == 6
    assert number(table["p-value", "gpt@1 · Lupercalia and Triumph"]) == pytest.approx(
        ttest_ind(model[:6], model[6:], equal_var=False).pvalue
    )
    printed = {key: float(row["printed"]) for key, row in table.items() if row["printed"]}
    assert printed["p-value", "People, single ratings · Lupercalia and Triumph"] == 0.18
    assert not [key for key in printed if key[1].startswith("People · ")]
    single = {scenario: number(table["Samples", f"People, single ratings · {scenario}"])
              for scenario in ("Triumph", "Lupercalia")}  # fmt: skip
    assert single == {"Triumph": 7, "Lupercalia": 6}
    assert number(table["p-value", "People, single ratings · Lupercalia and Triumph"]) == pytest.approx(
        ttest_ind([*PEOPLE[:6], 4], PEOPLE[6:], equal_var=False).pvalue
    )
    assert printed["Average score", "gpt@1 · Triumph"] == 4.09
    assert ("Average score", "open@1 · Triumph") not in printed


def test_table_4(report: Path) -> None:
    table = cells(report, "table_4")
    expected = krippendorff.alpha(np.array([scores[:6] for scores in MODELS.values()]), level_of_measurement="interval")
    assert number(table["All models", "interval", "Triumph"]) == pytest.approx(expected)
    assert float(table["All models", "interval", "Triumph"]["printed"]) == 0.079
    people = krippendorff.alpha(np.array([MODELS["gpt@1"][6:], PEOPLE[6:]]), level_of_measurement="ordinal")
    assert number(table["gpt@1 and people", "ordinal", "Lupercalia"]) == pytest.approx(people)
    assert float(table["gpt@1 and people", "ordinal", "Lupercalia"]["printed"]) == -0.005
    assert not [raters for raters, _, _ in table if raters.startswith("GPT and people")]


def test_scores_by_questions(report: Path) -> None:
    histogram = cells(report, "figure_4")
    assert [number(histogram["gpt@1", step]) for step in ("0.00", "0.50", "0.95", "1.00")] == [1, 2, 0, 2]
    assert (report / "R" / "paper" / "figure_4.svg").stat().st_size > 1000
    welch = cells(report, "by_scenario")["gpt@1", "Lupercalia", "Triumph", "Welch · p-value"]
    assert number(welch) == pytest.approx(ttest_ind(SCORES[6:], SCORES[:6], equal_var=False).pvalue)
    assert float(welch["printed"]) == 0.88
    examples = cells(report, "figure_5")
    lowest = examples["lowest", "i6: prompt of i6", "Score by questions"]
    assert (number(lowest), float(lowest["printed"])) == (0, 0.05)
    assert number(examples["lowest", "i6: prompt of i6", "Rating by people"]) == 1
    assert number(examples["lowest", "i6: prompt of i6", "Rating by the model"]) == 3


def test_figure_5_is_drawn_and_shows_its_pictures(report: Path) -> None:
    drawn = (report / "R" / "paper" / "figure_5.svg").read_text(encoding="utf-8")
    assert all(label in drawn for label in ("lowest", "middle", "highest", "People", "printed in the paper"))
    page = (report / "R" / "index.html").read_text(encoding="utf-8")
    block = page[page.index('id="figure_5"') :]
    block = block[: block.index("</article>")]
    assert block.count('class="reveal"') == block.count("data:image/webp") == 2  # the third is excluded
    assert "highest: 1.00" in block
    assert "lowest: 0.00" not in block


def test_models_that_drew_have_scores_with_intervals(report: Path) -> None:
    table = cells(report, "image_models")
    for model, first in (("draws_a", 0), ("draws_b", 1)):
        rating_by_people = table[model, "Mean rating · People"]
        of_people = [float(score) for score in PEOPLE[first::2]]
        if model == "draws_b":
            of_people[0] = (4 + 4) / 2  # i1 was also rated by p2
        assert number(rating_by_people) == pytest.approx(np.mean(of_people))
        assert float(rating_by_people["low"]) < number(rating_by_people) < float(rating_by_people["high"])
        assert number(table[model, "Mean rating · open@1"]) == pytest.approx(np.mean(MODELS["open@1"][first::2]))
        assert number(table[model, "Mean score by questions · gpt@1"]) == pytest.approx(np.mean(SCORES[first::2]))
    assert (report / "R" / "paper" / "image_models.svg").exists()


@pytest.mark.parametrize("show", [True, False])
def test_without_scenarios_only_the_paper_is_shown_if_asked_for(report: Path, show: bool) -> None:
    keys = [f"ratings=[{report}/rated]", "paper=rome", f"paper.show_printed={show}", f"out={report}/bare"]
    assert cli.main("report", keys) == 0
    page = (report / "bare" / "index.html").read_text(encoding="utf-8")
    assert "No item has the attribute" in page
    assert ("paper 3.46" in page) == ("printed in the paper" in page) == show
    files = [file.read_text(encoding="utf-8") for file in (report / "bare" / "paper").glob("table_*.csv")]
    assert any(row["printed"] for text in files for row in csv.DictReader(text.splitlines())) == show

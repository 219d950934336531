"""Century's tables and figures of small ratings, with hand-computed numbers; how the paper's own fit each other."""

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.rubrics.rubric import Rubric
from jobs.judging.kept_rubric import KeptRubric, of_rubric
from jobs.papers.century_pictures import ELEMENTS, short
from jobs.papers.century_tables import REGIONS
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from tests.factories import rating, write_file

pytestmark = pytest.mark.usefixtures("without_plots")
CONF = Path(__file__).parents[3] / "conf"
REGION_OF = ("Eastern Asia", "Eastern Asia", "Western Europe", "Western Europe")
# (writer, prompt) -> scores on `identification` by judge a and judge b, of the responses about four pictures
SCORES = {
    ("qwen@1", "explicit"): ((5, 5, 4, 3), (3, 5, 4, 3)),  # means 4, 5, 4, 3: 3 of 4 agree
    ("qwen@1", "minimal"): ((2, 2, 2, 2), (2, 2, 2, 2)),  # none agrees
    ("gemma@1", "explicit"): ((4, 1, 1, 1), (4, 1, 3, 1)),  # 1 of 4
    ("gemma@1", "minimal"): ((5, 5, 5, 5), (5, 5, 5, 5)),  # all
}
LENGTHS = (100, 200, 300, 400)


def kept(name: str) -> KeptRubric:
    data = yaml.safe_load((CONF / "rubric" / f"{name}.yaml").read_text())
    return of_rubric(Rubric.from_dict(data), data)


def rated(item: str, rater: str, rubric: str, question: str, answer: Any, *, status: str = "ok") -> dict[str, Any]:
    ok = status == "ok"
    scored = isinstance(answer, int)
    return rating(item, rater, question, str(answer) if ok else None) | {
        "rubric": rubric, "status": status, "score": float(answer) if ok and scored else None,
    }  # fmt: skip


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> Path:
    """The folder `paper` of a report on pictures and responses."""
    folder = tmp_path_factory.mktemp("century")
    of_responses, items, responses, of_pictures = [], [], [], []
    for (writer, prompt), (by_a, by_b) in SCORES.items():
        for i, region in enumerate(REGION_OF):
            name = f"{writer}{prompt}{i}"
            responses.append({"response_id": f"s{name}", "item_id": f"i{i}", "model": writer, "prompt": prompt,
                              "text": "w" * LENGTHS[i], "status": "ok"})  # fmt: skip
            items.append({"item_id": name, "kind": "response", "response_id": f"s{name}",
                          "attributes": [("sub_region", region)]})  # fmt: skip
            for judge, scores in (("a@1", by_a), ("b@1", by_b)):
                of_responses.append(rated(name, judge, "century_contextualisation", "identification", scores[i]))
                # the inverse of the scale: errors 6 - score invert to the score
                of_responses.append(rated(name, judge, "century_contextualisation", "factual_errors", 6 - scores[i]))
            for person, score in (("p1", 4), ("p2", 4), ("p3", 1 if i else 4)):  # means 4, 3, 3, 3
                of_responses.append(rated(name, person, "century_contextualisation", "identification", score))
    people = {"p1": (1, 3, 5, 2), "p2": (1, 4, 3, 2), "p3": (1, 2, 3, 4)}  # means 1, 3, 11/3, 8/3
    for i in range(4):
        for person, scores in people.items():
            of_pictures.append(rated(f"i{i}", person, "century_labels", "sensitive", scores[i]))
            kind = (
                ("photograph", "unsure", "photograph")[int(person[1]) - 1] if i < 2 else person
            )  # two have a majority
            of_pictures.append(rated(f"i{i}", person, "century_labels", "image_type", kind))
        of_pictures.append(rated(f"i{i}", "a@1", "century_labels", "sensitive", (1, 1, 3, 5)[i]))
    of_pictures.append(rated("i4", "p1", "century_labels", "sensitive", 1, status="reported"))
    tables = {
        "ratings": [write_file(folder / "labels", "ratings", of_pictures, rubric=kept("century_labels")),
                    write_file(folder / "scores", "ratings", of_responses, rubric=kept("century_contextualisation"))],
        "items": [write_file(folder / "items", "items", items)],
        "responses": [write_file(folder / "responses", "responses", responses)],
        "terms": [write_file(folder / "terms", "terms", [
            {"term": term, "source": "knowledge_graph", "concept": concept, "entity_id": entity,
             "response_id": "", "entity_type": "event"}
            for term, concept, entity in (("a", "riot", "Q1"), ("b", "riot", "Q1"), ("a", "war", "Q1"),
                                          ("a", "riot", "Q2"))])],
    }  # fmt: skip
    keys = [f"{key}=[{','.join(uris)}]" for key, uris in tables.items()]
    cli.execute("report", [*keys, "paper=century", "paper.show_printed=true", f"out={folder}/out",
                           "metrics.crowdtruth=false",
                           "metrics.contrast=['prompt:minimal-explicit']",  # the paper's comes first
                           "paper.names=[qwen*=GPT-4 Omni]"])  # fmt: skip
    return folder / "out" / "paper"


def values(parts: Path, name: str, *headers: str) -> dict[tuple[str, ...], tuple[float | None, int, float | None]]:
    """Row headers and column -> value, n and printed number of a table, of the rows that begin with `headers`."""
    with (parts / f"{name}.csv").open() as file:
        rows = list(csv.reader(file))
    column = rows[0].index("column")
    number = {field: rows[0].index(field) for field in ("value", "n", "printed")}
    cells = {}
    for row in rows[1:]:
        if tuple(row[: len(headers)]) == headers:
            value, n, printed = (row[number[field]] for field in ("value", "n", "printed"))
            cells[(*row[len(headers) : column], row[column])] = (
                float(value) if value else None, int(n or 0), float(printed) if printed else None,
            )  # fmt: skip
    return cells


def test_table_2(parts):
    people = values(parts, "table_2", "Sensitive", "People")
    assert people["“Not at all” (1) · by mean",] == (1 / 4, 4, 0.017)
    assert people["“Somewhat” (3) or higher · by mean",] == (2 / 4, 4, 0.558)
    assert people["“Somewhat” (3) or higher · by any rater",] == (3 / 4, 4, 0.909)
    assert values(parts, "table_2", "Sensitive", "a")["“Not at all” (1) · by mean",][:2] == (2 / 4, 4)
    # the paper's own labellers that this report does not have
    assert values(parts, "table_2", "Sensitive", "Claude Opus")["“Not at all” (1) · by mean",] == (None, 0, 0.04)


def test_tables_1_and_8(parts):
    people = values(parts, "table_1", "Image type")
    assert people["Photograph", "People"] == (2 / 4, 4, 0.646)
    assert people["(no majority)", "People"] == (2 / 4, 4, 0.012)
    assert values(parts, "table_8", "Image type")["Photograph", "Claude Haiku"] == (None, 0, 0.642)


def test_table_3_counts_responses_to_the_explicit_prompt(parts):
    automated = values(parts, "table_3", "Accuracy", "Correct identification", "Automated")
    assert automated["qwen",] == (3 / 4, 4, 0.533)  # named GPT-4 Omni
    assert automated["gemma",] == (1 / 4, 4, None)
    assert automated["Gemini Pro",] == (None, 0, 0.44)
    assert values(parts, "table_3", "Accuracy", "Correct identification", "Human")["qwen",] == (1 / 4, 4, 0.455)
    inverted = values(parts, "table_3", "Accuracy", "Factuality errors (inverted)", "Automated")
    assert inverted["qwen",][:2] == (3 / 4, 4)


def test_table_12_is_explicit_minus_minimal(parts):
    cells = values(parts, "table_12", "Accuracy", "Correct identification", "All models")
    assert [cells[f"qwen · {c}",][:2] for c in ("Explicit", "Minimal", "Delta")] == [(0.75, 4), (0.0, 4), (0.75, 8)]
    assert [cells[f"gemma · {c}",][0] for c in ("Explicit", "Minimal", "Delta")] == [0.25, 1.0, -0.75]
    assert cells["qwen · Delta",][2] == 0.164


def test_tables_9_and_13(parts):
    # pairs of people on `sensitive`: 1 1 1: 3 of 3 equal; 3 4 2: 0 equal, 2 within one; 5 3 3: 1, 1; 2 2 4: 1, 1
    cells = values(parts, "table_9", "Ordinal", "Sensitive")
    assert cells["IRR",] == (pytest.approx(5 / 12), 4, 0.2649)
    assert cells["IRR ± 1",] == (pytest.approx(7 / 12), 4, 0.6459)
    assert cells["ICC(2,k)",][2] == 0.46
    # on responses: 4 4 4 for one picture of four, 4 4 1 for the others: (3 + 1 + 1 + 1) / 12
    assert values(parts, "table_13", "Ordinal", "Correct identification")["IRR",] == (0.5, 16, 0.3909)


def test_figure_13_averages_over_judges_and_people(parts):
    cells = values(parts, "figure_13", "qwen")
    # Eastern Asia: judge a scores 5 5, b 3 5, people's means are 4 3: (1 + 1/2 + 1/2) / 3
    assert cells["Eastern Asia", "Correct identification"] == (pytest.approx(2 / 3), 2, 0.45)
    # Western Europe: a 4 3, b 4 3, people 3 3: (1/2 + 1/2 + 0) / 3
    assert cells["Western Europe", "Correct identification"] == (pytest.approx(1 / 3), 2, 0.54)
    assert values(parts, "figure_13", "Claude Opus (paper)")["Central Asia", "Beginner friendly"][2] == 0.78


def test_figures_9_and_11(parts):
    # judge b of qwen, explicit: 3 5 4 3
    assert values(parts, "figure_9", "b", "Correct identification")["qwen",][:2] == (0.5, 4)
    shares = values(parts, "figure_11", "Correct identification", "b", "qwen")
    assert [shares[level,][0] for level in "12345"] == [0, 0, 0.5, 0.25, 0.25]


def test_figure_12_has_the_slope_of_each_writer(parts):
    slopes = values(parts, "figure_12", "Correct identification", "All models")
    # means 4 5 4 3 at 100 … 400: Sxy = -200, Sxx = 50,000: -0.4 points per 100 characters
    assert slopes["qwen",][:2] == (pytest.approx(-0.4), 4)
    # means 4 1 2 1: Sxy = -400, Sxx = 50,000
    assert slopes["gemma",][0] == pytest.approx(-0.8)


def test_tables_6_and_7(parts):
    assert values(parts, "table_6")["Riot", "Entities"] == (2, 2, 496)
    assert values(parts, "table_6")["War", "Entities"] == (1, 1, None)
    assert values(parts, "table_6")["Disaster", "Entities"] == (0, 0, 1237)
    assert values(parts, "table_7")["Event", "Entities"] == (2, 2, 6980)
    assert values(parts, "table_7")["Distinct terms", "Entities"] == (2, 4, 7385)


def test_people_and_their_reports(parts):
    cells = values(parts, "people", "Pictures", "Sensitive")
    assert cells["People · ",] == (3, 3, 151)
    assert cells["Items per person · mean",] == (4, 3, 29.4)
    assert cells["Reported · of ratings",] == (1 / 13, 13, 0.009)
    assert cells["Reported · of items",] == (1 / 5, 5, 0.025)
    assert cells["Reported · of people",] == (1 / 3, 3, 0.052)


def test_figures_are_drawn(parts):
    assert {path.stem for path in parts.glob("*.svg")} == {
        "figure_6", "figure_7", "figure_9", "figure_11", "figure_12", "figure_13",
    }  # fmt: skip


def test_models_have_different_names_in_tables():
    names = ["qwen@1", "local:qwen2.5-vl-tiny@gemma-3-12b", "local:qwen2.5-vl-tiny", "ann"]
    assert [short(name) for name in names] == ["qwen", "gemma-3-12b", "local:qwen2.5-vl-tiny", "ann"]


def test_the_papers_own_numbers_fit_each_other():
    printed = config.load("report", cli.job("report").schema, ["out=x", "paper=century"]).paper.printed
    deltas = [
        (numbers[i], numbers[i + 1], numbers[i + 2])
        for numbers in printed["table_12"].rows.values()
        for i in range(0, 12, 3)
    ]
    assert len(deltas) == 28
    assert all(abs(explicit - minimal - delta) < 0.151 for explicit, minimal, delta in deltas)
    assert len(printed["figure_13"].rows) == 4 * len(REGIONS)
    for question in ("image_type", "content_type", "concept"):
        numbers = [row for name, row in printed["table_8"].rows.items() if name.startswith(question)]
        assert all(abs(sum(row[labeller] or 0 for row in numbers) - 100) < 0.35 for labeller in range(7))
    assert sum(printed["table_7"].rows[kind][0] for kind in ("event", "organization", "person", "location")) == 8779
    assert set(printed["table_12"].rows) == set(ELEMENTS)
    assert all(table.source.startswith("Century, ") for table in printed.values())


def test_a_report_without_such_ratings_says_so(tmp_path, capsys):
    ratings = write_file(tmp_path / "r", "ratings", [rating("i", "m", "q", "1")])
    cli.execute("report", [f"ratings=[{ratings}]", "paper=century", f"out={tmp_path}/out"])
    assert "paper=century: no table or figure applies" in capsys.readouterr().out
    assert not (tmp_path / "out" / "paper").exists()

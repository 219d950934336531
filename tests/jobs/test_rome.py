"""`pipeline=rome` from pictures to the report, on S3, with a judge who prefers the first position."""

import csv
from pathlib import Path

import pytest
from scipy.stats import ttest_ind

from jobs.judging.own_questions import set_id_of
from jobs.run import RunConfig
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from tests import scripted_model
from tests.factories import metric_values, rows_of, write_csv, write_pictures

PROMPTS = {  # prompt -> scenario, colours of its pictures; the marker in a prompt scripts the judge's answers
    "A triumph passes the Circus Maximus ~": ("Triumph", ("red", "green", "blue")),
    "Luperci run at the foot of the Palatine ^": ("Lupercalia", ("white", "black")),
}
SCRIPT = {  # marker -> next token -> probability; A is the first picture; Y and N begin Yes and No
    "~": {"4": 0.5, " A": 0.5},
    "^": {"2": 0.5, " A": 0.5},
    "@": {"Y": 0.75, "N": 0.25},
    "$": {"N": 1.0},
}
QUESTIONS = [  # prompt, id, question, parents
    ("A triumph passes the Circus Maximus ~", 1, "Is there a procession? @", ""),
    ("A triumph passes the Circus Maximus ~", 2, "Does it pass a circus? @", "1"),
    ("A triumph passes the Circus Maximus ~", 3, "Is there an image?", ""),
    ("Luperci run at the foot of the Palatine ^", 1, "Are there Luperci? $", ""),
    ("Luperci run at the foot of the Palatine ^", 2, "Do they run? @", "1"),
]
RATED = {"red": 5, "green": 4, "blue": 3, "white": 2, "black": 1}  # by one person


def write_inputs(folder: Path) -> list[str]:
    rows = [
        [f"{colour}.png", prompt, scenario, f"model {'ab'[number % 2]}"]
        for prompt, (scenario, colours) in PROMPTS.items()
        for number, colour in enumerate(colours)
    ]
    write_pictures(folder / "photos", RATED)
    inputs = {
        "file": write_csv(folder / "rome.csv", ["file", "prompt", "scenario", "image_model"], rows),
        "pictures": f"{folder}/photos",
        "questions": write_csv(folder / "q.csv", ["prompt", "question_id", "question", "parents"], QUESTIONS),
        "judges": f"[{scripted_model.write_with_settings(folder, 'first', SCRIPT)}]",
    }
    return [f"pipeline.inputs.{name}={value}" for name, value in inputs.items()]


def answers_of_people(folder: Path, out: str) -> list[str]:
    """Return the inputs with people's answers.

    A rating per picture, of each pair the picture rated higher, and a yes to each question about the triumph.
    """
    images = {row["image_id"]: Path(row["source_url"]).stem for row in rows_of(f"{out}/images")}
    items = {row["item_id"]: images[row["image_ids"][0]] for row in rows_of(f"{out}/prompts/items")}
    ratings = [[item, "p1", "match", RATED[colour], f"not {colour}"] for item, colour in items.items()]
    comparisons = []
    for row in rows_of(f"{out}/pairs/items"):
        first, second = (RATED[images[name]] for name in row["image_ids"])
        comparisons.append([row["item_id"], "p1", "preference", "first" if first > second else "second"])
    triumph, lupercalia = map(set_id_of, PROMPTS)
    answers = [
        [item, "p1", name, *(("yes", triumph) if RATED[colour] > 2 else ("no", lupercalia))]
        for item, colour in items.items()
        for name in ("1", "2")
    ]
    header = ["item_id", "rater", "question", "value"]
    rated = write_csv(folder / "ratings.csv", [*header, "mismatches"], ratings)
    return [
        f"pipeline.inputs.people_ratings={rated}",
        f"pipeline.inputs.people_remarks={rated}",
        f"pipeline.inputs.people_comparisons={write_csv(folder / 'comparisons.csv', header, comparisons)}",
        f"pipeline.inputs.people_answers={write_csv(folder / 'answers.csv', [*header, 'target'], answers)}",
    ]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("in_process", "without_plots")
def test_from_pictures_to_the_report(tmp_path: Path, s3: str) -> None:
    out = f"{s3}/rome"
    run = ["pipeline=rome", "profile=full", "show_printed=true", f"out={out}", *write_inputs(tmp_path)]
    assert cli.main("run", run) == 0
    assert cli.main("run", [*run, *answers_of_people(tmp_path, out)]) == 0  # complete steps do nothing
    value = metric_values(f"{out}/report/metrics")

    # The judge always prefers the first position
    preference = {"rubric": "image_comparison", "question": "preference"}
    assert value("position_bias", rater="first", **preference) == 1
    assert value("first_position_share", rater="first", **preference) == 1
    for by in ("answer", "probability"):
        assert value("pair_agreement", rater="first", by=by, **preference) == 0.5
    assert value("position_bias", rater="people", **preference) == 0
    # 3 pairs of different models (the triumph has two pictures by a): people prefer model a in two of them
    assert value("win_rate", rater="people", competitor="model a", **preference) == pytest.approx(2 / 3)
    assert value("win_rate", rater="first", competitor="model a", **preference) == 0.5
    assert value("ratings_total", group="people", **preference) == 2 * (3 + 1)
    remarks = {(row["question"], row["text"]) for row in rows_of(f"{out}/remarks")}
    assert remarks == {("match", f"not {colour}") for colour in RATED}
    # Ratings by scenario
    match = {"rubric": "image_rating", "question": "match"}
    p = value("welch_p", attribute="scenario", first="Lupercalia", second="Triumph", group="people", **match)
    assert p == pytest.approx(ttest_ind([2, 1], [5, 4, 3], equal_var=False).pvalue)
    assert value("mean_score", rater="first", **match) == (3 * 4 + 2 * 2) / 5
    # Questions: 2 of 2 valid ones are answered yes about the triumph, and with dependencies none about the Lupercalia
    scores = {row["item_id"]: row["score"] for row in rows_of(f"{out}/ratings/scores-first")
              if row["question"] == "with_dependencies"}  # fmt: skip
    assert sorted(scores.values()) == [0, 0, 1, 1, 1]
    assert value("dsg_score", rater="first", rubric="dsg", reading="without dependencies", convention="answered") == 0.8
    dims = {"rubric": "dsg", "reading": "with dependencies", "convention": "answered"}
    assert value("dsg_spearman", rater="first", **dims) > 0.8
    assert value("dsg_score", rater="p1", **dims) == 3 / 5
    # The models that drew the pictures: a drew red, blue and white, b green and black
    part = {"attribute": "image_model", "part": "model a", "group": "people"}
    assert value("group_mean_score", **part, **match) == (5 + 3 + 2) / 3

    from jobs.store.files import locations

    files = {file.uri.rsplit("/", 1)[-1] for file in locations.listing(f"{out}/report/paper")}
    drawn = ("figure_3_left", "figure_3_right", "figure_4", "figure_5", "image_models", "bradley_terry")
    tables = ("table_1", "table_2", "table_3", "table_4", "by_scenario")
    assert {*(f"{name}.svg" for name in drawn), *(f"{name}.csv" for name in tables)} <= files
    table = {
        (row["Model"], row["column"]): row
        for row in csv.DictReader(locations.read_bytes(f"{out}/report/paper/table_2.csv").decode().splitlines())
    }
    assert table["first", "Position · bias"]["value"] == "1.0"
    assert table["GPT (paper)", "Agreement with people · same order"]["printed"] == "0.5751"


def test_each_source_and_people_have_their_steps(capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["pipeline=rome", "profile=debug", "out=/r", "pipeline.inputs.file=/x.csv"]
    own_labels = ["items", "fetch"]
    drawn = {"prompts": ["items", "generate_images"], "documents": ["items", "generate", "items", "generate_images"]}
    after = ["judge", "pairs", "judge", "questions", "judge", "question_scores"]
    people = ["pairs", *["annotate"] * 3, *["import_ratings"] * 4, "question_scores"]
    answers = ("raters", "people_ratings", "people_remarks", "people_comparisons", "people_answers")
    of_people = [f"pipeline.inputs.{name}=/p.csv" for name in answers]

    def steps(*more: str) -> list[str]:
        return [step.job for step in config.load("run", RunConfig, [*keys, *more]).pipeline.steps]

    assert steps("pipeline.inputs.pictures=/photos", *of_people) == [*own_labels, *after, *people, "report"]
    for source, first in drawn.items():
        assert steps(f"pipeline.inputs.source={source}") == [*first, *after, "report"]
    described = steps("pipeline.inputs.pictures=/photos", "pipeline.inputs.describers=[qwen2.5-vl-7b]")
    assert described == [*own_labels, "judge", "generate", *after[1:], "report"]
    # Every job has the keys that its step sets; each of two models draws, whose pictures are in one table.
    two = "pipeline.inputs.image_models=[sd3-medium,sdxl-base]"
    assert cli.main("run", [*keys, "pipeline.inputs.source=documents", two, *of_people, "plan=true"]) == 2
    planned = [line for line in capsys.readouterr().out.splitlines() if line.startswith("remine ")]
    assert [line.split()[1] for line in planned] == [*drawn["documents"], *after, *people, "report"]
    assert "image_models=[local:sd3-tiny@sd3-medium,local:sd3-tiny@sdxl-base]" in planned[3]

"""`mark_spans` with a scripted model: what each text gets, and the metrics of the report, by hand."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from tests import scripted_model
from tests.cases import check_cases
from tests.factories import rows_of, unit_records, write_file

pytestmark = pytest.mark.usefixtures("in_process", "without_plots")

# A marker in a text: the model quotes it, and as a claim it is wrong or missing with probability 0.75 or 0.25.
SCRIPT = {"~": {"~": 0.6, "A": 0.3, "B": 0.1}, "^": {"^": 0.6, "A": 0.1, "B": 0.3}, "@": {"x": 1.0}}
CORRECT = {"p1": "a b ~", "p2": "a b ^", "p3": "c ^", "p4": "c ~", "p5": "d ^"}
GENERATED = {  # picture -> model -> description
    "p1": {"m1": "u v ^", "m2": "u ~"},
    "p2": {"m1": "u v ^", "m2": "u ~"},
    "p3": {"m1": "u v ~", "m2": "w ~"},
    "p4": {"m1": "u ^", "m2": "x ~"},
    "p5": {"m1": "u ^", "m2": "@"},
}
TEXT = {"order": ["text"], "parts": {"text": "{{ text }}"}}
CLAIM = {"order": ["picture", "text"], "parts": {"text": "{{ claim }} {{ options }}"}}
ANSWERS = [{"code": "A", "label": "wrong", "marks": True}, {"code": "B", "label": "right"}]
PROMPTS = {
    "name": "scripted",
    "version": 1,
    "source": "this test",
    "direct": {
        "mistakes": {"order": ["picture", "text"], "parts": {"text": "{{ generated }}"}},
        "mistakes_again": {"order": ["picture", "text"], "parts": {"text": "{{ generated }}"}},
        "omissions": {"order": ["picture", "text"], "parts": {"text": "{{ correct }}"}},
        "omissions_again": {"order": ["picture", "text"], "parts": {"text": "{{ correct }}"}},
    },
    "claims": {
        "cut": TEXT,
        "cut_again": TEXT,
        "mistakes": CLAIM | {"answers": ANSWERS},
        "omissions": CLAIM | {"answers": ANSWERS},
        "category": CLAIM,
    },
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items, texts and pictures of the descriptions, a scripted model and its prompts, and both tables of spans."""
    folder = tmp_path_factory.mktemp("docent")
    scripted_model.write(folder / "scripted", SCRIPT)
    (folder / "prompts.yaml").write_text(yaml.safe_dump(PROMPTS), encoding="utf-8")
    (folder / "photos").mkdir()
    with (folder / "docent.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["picture", "correct", "m1", "m2"])
        for number, (name, correct) in enumerate(CORRECT.items()):
            Image.new("RGB", (64, 48), (40 * number, 0, 0)).save(folder / "photos" / f"{name}.png")
            lines.writerow([f"{name}.png", correct, *GENERATED[name].values()])
    roles = ["columns.texts.reference=correct", "columns.texts.generated=[m1,m2]", "item_per=generated"]
    places = ["columns.pictures=picture", f"pictures.path={folder}/photos", f"out={folder}/R"]
    cli.execute("items", [f"input={folder}/docent.csv", *roles, *places])
    cli.execute("fetch", ["source=folder", f"source.path={folder}/photos", f"out={folder}/images"])
    for method in ("direct", "claims"):
        cli.execute("mark_spans", [*keys(folder), f"method={method}", f"out={folder}/{method}"])
    return folder


def keys(folder: Path) -> list[str]:
    tables = [f"input={folder}/R/items", f"texts={folder}/R/texts", f"images={folder}/images"]
    model = ["model=local-tiny", f"model.checkpoint={folder}/scripted", f"span_prompts={folder}/prompts.yaml"]
    return [*tables, *model, "max_tokens=4"]


def names(folder: Path) -> dict[str, str]:
    """Return item_id -> picture and model, such as p1 m2."""
    pictures = {row["image_id"]: Path(row["source_url"]).stem for row in rows_of(f"{folder}/images")}
    return {
        row["item_id"]: f"{pictures[row['image_ids'][0]]} {dict(row['attributes'])['text_column']}"
        for row in rows_of(f"{folder}/R/items")
    }


def marked(folder: Path, method: str) -> dict[tuple[str, str], list[Any]]:
    """Return (description, kind) -> its rows as (words, probability, marked, status)."""
    texts = {row["text_id"]: row["text"] for row in rows_of(f"{folder}/R/texts")}
    named = names(folder)
    rows: dict[tuple[str, str], list[Any]] = {}
    for row in rows_of(f"{folder}/{method}"):
        assert (row["rater"], row["method"]) == ("scripted", method)
        words = texts[row["text_id"]][row["start"] : row["end"]]
        probability = None if row["probability"] is None else round(row["probability"], 6)
        rows.setdefault((named[row["item_id"]], row["kind"]), []).append(
            (words, probability, row["marked"], row["status"])
        )
    return rows


def test_direct_quotes(study: Path) -> None:
    rows = marked(study, "direct")
    assert len(rows) == 2 * 10
    assert rows["p1 m1", "mistake"] == [("^", None, True, "ok")]
    assert rows["p1 m1", "omission"] == [("~", None, True, "ok")]
    # the limit of tokens cuts the answer about @; without the mistakes, omissions are not asked about
    assert rows["p5 m2", "mistake"] == [("", None, False, "truncated")]
    assert rows["p5 m2", "omission"] == [("", None, False, "skipped")]


def test_claims_have_probabilities(study: Path) -> None:
    rows = marked(study, "claims")
    assert rows["p1 m2", "mistake"] == [("~", 0.75, True, "ok")]
    assert rows["p1 m1", "mistake"] == [("", None, False, "ok"), ("^", 0.25, False, "ok")]
    assert rows["p2 m1", "omission"] == [("", None, False, "ok"), ("^", 0.25, False, "ok")]


def test_a_plan_shows_the_prompts_of_each_step(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = [*keys(study), f"out={study}/shown", "show_prompts=2"]
    assert cli.main("mark_spans", run) == 2
    assert "only used with plan=true" in capsys.readouterr().err
    for method, steps in (
        ("direct", ["mistakes", "omissions"]),
        ("claims", ["cut", "cut", "mistakes", "omissions"]),
    ):
        assert cli.main("mark_spans", [*run, "plan=true", f"method={method}"]) == 0
        text = capsys.readouterr().out
        assert text.count("\nitem ") == 2
        assert re.findall(r"step (\w+): [0-9,]+ tokens", text) == 2 * steps
        assert text.count("[picture 64 x 48: ") == 2 * len([step for step in steps if step != "cut"])
    first = text.split("\nitem ")[1]
    assert "A = wrong\n    | B = right" in first
    assert "taken as its answer: one of A, B" in first
    assert not (study / "shown").exists()


def test_a_second_run_does_nothing_and_a_retry_redoes_items(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = rows_of(f"{study}/direct")
    run = [*keys(study), "method=direct", f"out={study}/direct"]
    again: Any = cli.execute("mark_spans", run)
    assert rows_of(f"{study}/direct") == before
    assert again["counts"]["rows_in"] == again["counts"]["rows_out"] == len(before)
    retried: Any = cli.execute("mark_spans", [*run, "retry=[truncated]"])
    assert rows_of(f"{study}/direct") == before
    assert retried["counts"]["rows_in"] == len(before)
    assert [record["generation"] for record in unit_records(f"{study}/direct")] == [1]
    capsys.readouterr()
    assert cli.main("verify", [f"input={study}/direct"]) == 0


def test_metrics_of_the_report(study: Path) -> None:
    """People mark the same as the direct model, but no omission in m1's descriptions."""
    named = names(study)
    spans = []
    for row in rows_of(f"{study}/direct"):
        if named[row["item_id"]] == "p5 m2":
            continue
        none = row["kind"] == "omission" and named[row["item_id"]].endswith("m1")
        place = {"start": 0, "end": 0, "marked": False} if none else {}
        spans += [row | {"method": "human", "rater": person} | place for person in ("anna", "bo")]
    people = write_file(study / "people", "spans", spans)
    tables = [f"spans=[{study}/direct,{study}/claims,{people}]", f"texts=[{study}/R/texts]", f"items=[{study}/R/items]"]
    cli.execute("report", [*tables, "paper=docent", "metrics.text_overlap=[]", f"out={study}/report"])
    metrics = {(row["metric"], row["dims"]): row for row in rows_of(f"{study}/report/metrics")}

    def metric(name: str, **dims: str) -> dict[str, Any]:
        return metrics[name, json.dumps(dims, sort_keys=True, separators=(",", ":"))]

    direct, claims = ({"rater": "scripted", "method": method, "against": "people"} for method in ("direct", "claims"))
    assert metric("span_f1", kind="mistake", unit="token", **direct)["value"] == 1
    # omissions: all 9 marked by the model, 4 of them by people
    assert metric("span_precision", kind="omission", unit="token", **direct)["value"] == pytest.approx(4 / 9)
    assert metric("span_precision", kind="omission", unit="token", **direct)["n"] == 2 * 9
    # claims: of 9 mistakes of people, those in texts with ~: m1's p3, and m2's p1 to p4
    assert metric("span_recall", kind="mistake", unit="token", **claims)["value"] == pytest.approx(5 / 9)
    assert metric("span_agreement", kind="mistake", unit="token", group="people")["value"] == 1
    # scores: the shares of tokens
    people_mean = metric("description_mistakes", group="people")
    assert (people_mean["value"], people_mean["n"]) == (1, 9)
    precision = metric("description_precision", group="people", model="m1")
    assert precision["value"] == pytest.approx(1 - (3 * 1 / 3 + 2 * 1 / 2) / 5)
    assert metric("description_coverage", group="people", model="m1")["value"] == 1
    assert metric("description_coverage", rater="scripted", method="direct", model="m1")["value"] == pytest.approx(
        1 - (2 * 1 / 3 + 3 * 1 / 2) / 5
    )
    auc = metric("span_auc", kind="mistake", **claims)
    assert 0.5 < auc["value"] <= 1

    # The same numbers in the shape of a study
    with (study / "report" / "paper" / "docent_scores.csv").open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    of_people = [c for c in cells if {"m1", "people"} <= set(c.values())]
    assert len(of_people) == 6
    assert [float(c["value"]) for c in of_people if c["value"]][2] == pytest.approx(precision["value"])
    names_of_files = {path.name for path in (study / "report" / "paper").iterdir()}
    assert {"docent_spans.csv", "docent_measures.csv", "docent_scores_figure.svg"} <= names_of_files


def test_wrong_keys_are_refused(study: Path) -> None:
    cases = [
        (["method=guess"], "method=guess: must be one of direct, claims"),
        (["threshold=2"], "threshold=2: must be above 0 and at most 1"),
        (["threshold=0.4"], "threshold=0.4: method=direct has no such key"),
        (["texts=null"], "texts=: required: "),
        (["images=null"], "name its table with images="),
        (["model=local-text-tiny", "model.checkpoint=local:llama-tiny"], "does not accept pictures"),
        (["max_tokens=0"], "max_tokens=0: must be at least 1"),
    ]

    def check(change: list[str], message: str) -> None:
        with pytest.raises(InputError, match=message):
            cli.execute("mark_spans", [*keys(study), *change, f"out={study}/refused"])
        assert not (study / "refused").exists()

    check_cases(check, cases)

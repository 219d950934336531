"""pipeline=docent with profile=debug, on object storage: from a user's file to the report."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from jobs.page.card_links import MarkSelection, marks_anchor
from jobs.run import RunConfig
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.store.files import locations
from tests import secrets_found
from tests.factories import metric_values, rows_of

CORRECT = "A dog on a sandy beach."
GENERATED = {"model_a": "An otter on a beach.", "model_b": "An animal, on this very beach."}
MARKED = {"model_a": ("otter", "sandy"), "model_b": ("", "dog")}  # the mistake and the omission that people mark
PICTURES = 5


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A file of descriptions, pictures, and people's spans as a CSV with the ids that `items` gives."""
    (tmp_path / "photos").mkdir()
    with (tmp_path / "docent.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["picture", "correct", *GENERATED])
        for number in range(PICTURES):
            Image.new("RGB", (64, 48), (40 * number, 0, 0)).save(tmp_path / "photos" / f"{number}.png")
            lines.writerow([f"{number}.png", f"{CORRECT} {number}", *GENERATED.values()])
    roles = ["columns.texts.reference=correct", f"columns.texts.generated=[{','.join(GENERATED)}]"]
    places = ["columns.pictures=picture", f"pictures.path={tmp_path}/photos", f"out={tmp_path}/described"]
    cli.execute("items", [f"input={tmp_path}/docent.csv", *roles, *places, "item_per=generated"])
    texts = {row["text_id"]: row for row in rows_of(f"{tmp_path}/described/texts")}
    with (tmp_path / "people.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["item_id", "rater", "text_id", "kind", "start", "end", "category"])
        for item in rows_of(f"{tmp_path}/described/items"):
            words = dict(zip(("generated", "reference"), MARKED[dict(item["attributes"])["text_column"]], strict=True))
            for text in (texts[name] for name in item["text_ids"]):
                mark, kind = words[text["role"]], "mistake" if text["role"] == "generated" else "omission"
                start = text["text"].index(mark)
                for person in ("anna", "bo"):
                    category = (kind if kind == "mistake" else "missing") if mark else ""
                    lines.writerow([item["item_id"], person, text["text_id"], kind, start, start + len(mark), category])
    return tmp_path


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("in_process", "without_plots")
@pytest.mark.long
def test_from_a_file_to_the_report(study: Path, s3: str) -> None:
    for package in ("sacrebleu", "rouge_score", "pycocoevalcap"):
        pytest.importorskip(package, reason="needs the extra overlap")
    out = f"{s3}/docent"
    inputs = [f"pipeline.inputs.{name}={study}/{value}" for name, value in
              (("descriptions", "docent.csv"), ("pictures", "photos"), ("people", "people.csv"))]  # fmt: skip
    (study / "raters.csv").write_text("rater\nanna\nbo\n")
    more = ["pipeline.inputs.generated=[model_a,model_b]", "pipeline=docent", "profile=debug", f"out={out}"]
    with secrets_found.planting() as printed:
        assert cli.main("run", [*inputs, *more, f"pipeline.inputs.raters={study}/raters.csv"]) == 0, printed.getvalue()
    assert secrets_found.leaks([out], printed.getvalue()) == []
    assert "[1/" in printed.getvalue()  # something was printed

    for method in ("direct", "claims"):  # random weights say nothing, but every text is accounted for
        spans = rows_of(f"{out}/spans/{method}/qwen2.5-vl-7b")
        assert {row["method"] for row in spans} == {method}
        assert len({(row["item_id"], row["kind"]) for row in spans}) == 2 * 2 * PICTURES
    plan = {(row["rater"], row["item_id"]) for row in rows_of(f"{out}/tasks/assignments")}
    assert len(plan) == 2 * 2 * PICTURES  # every description for both people of the study
    value = metric_values(f"{out}/report/metrics")
    assert value("description_mistakes", group="people", model="model_a") == 1
    assert value("description_mistakes", group="people", model="model_b") == 0
    assert value("description_precision", group="people", model="model_a") == pytest.approx(5 / 6)
    assert value("description_coverage", group="people", model="model_b") == pytest.approx(1 - 1 / 8)
    assert value("span_agreement", kind="omission", unit="token", group="people") == 1
    # Both models omit a word, and only model_a makes a mistake; BLEU prefers its otter to the vague description.
    assert value("description_pearson", rater="bleu", method="overlap", score="precision") == pytest.approx(-1)
    assert value("description_pearson", rater="bleu", method="overlap", score="coverage") is None
    # A number of people's mistakes leads to the cards of the descriptions in which they marked one.
    page = locations.read_bytes(f"{out}/report/index.html").decode()
    anchor = marks_anchor(MarkSelection("people", "mistake", "model_a"))
    assert f'href="#{anchor}"' in page
    (of_people,) = re.findall(f'<div id="{anchor}">.*?</div>', page)
    assert set(re.findall(r"#picture-(\d+)", of_people)) == with_spans("otter", page)
    assert len(with_spans("otter", page)) == PICTURES


def with_spans(words: str, page: str) -> set[str]:
    """The numbers of the cards on which somebody marked these words."""
    cards = re.split(r'<li class="card[^"]*" id="picture-', page)[1:]
    return {card.partition('"')[0] for card in cards if f"<q>{words}</q>" in card}


def test_people_are_optional() -> None:
    arguments = {"descriptions": "/d.csv", "pictures": "/p", "generated": "[a,b]"}
    keys = ["pipeline=docent", "out=/r", *(f"pipeline.inputs.{name}={value}" for name, value in arguments.items())]

    def steps(*more: str) -> dict[str, Any]:
        loaded = config.load("run", RunConfig, [*keys, *more])
        return {step.job: step.set for step in loaded.pipeline.steps}

    alone = steps()
    assert list(alone) == ["fetch", "items", "mark_spans", "report"]
    assert alone["report"]["spans"] == ["/r/spans/*/*"]
    people = steps("pipeline.inputs.people=/e.json", "pipeline.inputs.raters=/r.csv")
    assert list(people) == ["fetch", "items", "mark_spans", "annotate", "import_ratings", "report"]
    assert people["report"]["spans"] == ["/r/spans/*/*", "/r/people"]

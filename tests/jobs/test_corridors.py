"""A picture's way from a user's file through every table to the report, on object storage, as one pipeline.

The models are scripted (`tests.scripted_model`): their answers follow from one character of the prompt, so that each
metric below can be computed by hand.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from jobs.runtime.command_line import cli
from tests import scripted_model, secrets_found
from tests.factories import metric_values, rows_of, write_csv, write_pictures

# picture: the marker of its caption, the marker of its article, the grade that both people gave, region
PICTURES: dict[str, tuple[str, str, int, str]] = {
    "red": ("~", "^", 1, "north"),
    "green": ("~", "@", 5, "north"),
    "blue": ("^", "@", 4, "south"),
    "white": ("@", "@", 5, "south"),
}
JUDGES = {  # marker -> grade -> probability
    "strict": {"~": {"1": 0.75, "5": 0.25}, "^": {"2": 1.0}, "@": {"4": 0.75, "5": 0.25}},
    "kind": {"~": {"1": 1.0}, "^": {"2": 1.0}, "@": {"5": 1.0}},
}
GRADES = {name: {m: float(max(p, key=p.__getitem__)) for m, p in of_item.items()} for name, of_item in JUDGES.items()}
WRITERS = {"echo": {"~": "~", "^": "^", "@": "@"}, "turn": {"~": "@", "^": "^", "@": "~"}}  # marker -> marker


def rubric(name: str, question: str, fields: list[str]) -> dict[str, Any]:
    """Return a rubric with one question from 1 to 5, whose prompt shows the first field that is not empty."""
    grades = [{"value": str(grade), "label": f"grade {grade}", "score": grade} for grade in range(1, 6)]
    return {
        "name": name,
        "version": 1,
        "source": "this test",
        "context": {"fields": fields, "cut": []},
        "parts": {"context": "{{ " + " or ".join(fields) + " }}", "question": "{{ question }}\n{{ options }}"},
        "layouts": {"fast": ["picture", "context", "question"]},
        "layout": "fast",
        "questions": [{"name": question, "text": "Which grade?", "scale": "ordinal", "answers": grades}],
    }


PROMPT = {
    "name": "describe",
    "version": 1,
    "source": "this test",
    "context": {"fields": ["caption"], "cut": []},
    "parts": {"context": "{{ caption }}", "instruction": "Describe the picture."},
    "order": ["picture", "context", "instruction"],
}


def pipeline(folder: Path, out: str) -> dict[str, Any]:
    """Return the steps from the files in `folder` to the report."""
    judge = {"model": "local-tiny", "model.checkpoint": f"{folder}/${{each.judge}}", "model.name": "${each.judge}"}
    return {
        "name": "corridors",
        "steps": [
            {"job": "fetch", "set": {"source": "folder", "source.path": f"{folder}/photos", "out": f"{out}/images"}},
            {
                "job": "items",
                "for_each": {
                    "context": [
                        {"name": "bare", "texts": {"caption": "caption"}},
                        {"name": "full", "texts": {"caption": "caption", "article": "article"}},
                    ]
                },
                "set": {
                    "input": f"{folder}/set.csv",
                    "columns.id": "id",
                    "columns.pictures": "file",
                    "pictures.path": f"{folder}/photos",
                    "columns.texts": "${each.context.texts}",
                    "columns.attributes": ["region"],
                    "condition": "${each.context.name}",
                    "unit_rows": 3,
                    "out": out + "/${each.context.name}",
                },
            },
            {
                "job": "judge",
                "for_each": {"judge": list(JUDGES), "context": ["bare", "full"]},
                "set": {
                    **judge,
                    "input": out + "/${each.context}/items",
                    "texts": out + "/${each.context}/texts",
                    "images": f"{out}/images",
                    "rubric": f"{folder}/fit.yaml",
                    "out": out + "/ratings/${each.judge}-${each.context}",
                },
            },
            {
                "job": "import_ratings",
                "set": {"input": f"{folder}/people.csv", "rubric": f"{folder}/fit.yaml", "out": f"{out}/people"},
            },
            {
                "job": "generate",
                "for_each": {"writer": list(WRITERS)},
                "set": {
                    "model": "local-tiny",
                    "model.checkpoint": f"{folder}/${{each.writer}}",
                    "input": f"{out}/bare/items",
                    "texts": f"{out}/bare/texts",
                    "images": f"{out}/images",
                    "prompt": f"{folder}/describe.yaml",
                    "samples": 2,
                    "max_tokens": 4,
                    "out": out + "/responses/${each.writer}",
                },
            },
            {
                "job": "items",
                "set": {
                    "responses": [f"{out}/responses/*"],
                    "input_items": f"{out}/bare/items",
                    "texts": f"{out}/bare/texts",
                    "labels": [f"{out}/people"],
                    "out": f"{out}/judged",
                },
            },
            {
                "job": "judge",
                "for_each": {"judge": ["kind"]},
                "set": {
                    **judge,
                    "input": f"{out}/judged/items",
                    "texts": f"{out}/judged/texts",
                    "images": f"{out}/images",
                    "rubric": f"{folder}/quality.yaml",
                    "out": out + "/ratings/quality-${each.judge}",
                },
            },
            {
                "job": "report",
                "set": {
                    "ratings": [f"{out}/ratings/*", f"{out}/people"],
                    "items": [f"{out}/bare/items", f"{out}/judged/items"],
                    "responses": [f"{out}/responses/*"],
                    "images": f"{out}/images",
                    "metrics.people": 2,
                    "out": f"{out}/report",
                },
            },
        ],
    }


def write_inputs(folder: Path, out: str) -> None:
    """Write models, rubrics, prompt, pictures, the user's file, people's answers and the pipeline."""
    for name, script in JUDGES.items():
        scripted_model.write(folder / name, script)
    for name, markers in WRITERS.items():
        scripted_model.write(folder / name, {marker: {written: 1.0} for marker, written in markers.items()})
    files: Mapping[str, Any] = {
        "fit": rubric("fit", "grade", ["article", "caption"]),
        "quality": rubric("quality", "level", ["generated"]),
        "describe": PROMPT,
        "corridors": pipeline(folder, out),
    }
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    write_pictures(folder / "photos", PICTURES)
    rows = (
        [colour, f"{colour}.png", f"a caption {caption}", f"an article {article}", region]
        for colour, (caption, article, _, region) in PICTURES.items()
    )
    write_csv(folder / "set.csv", ["id", "file", "caption", "article", "region"], rows)
    graded = ([c, person, "grade", grade] for c, (_, _, grade, _) in PICTURES.items() for person in "pq")
    write_csv(folder / "people.csv", ["item_id", "rater", "question", "value"], graded)


def check_log(printed: str) -> None:
    """Check what the run printed: JSON objects that name run, job and step, those of progress with counts."""
    lines = [json.loads(line) for line in printed.splitlines()]
    assert len({line["run"] for line in lines}) == 1
    assert {line["level"] for line in lines} <= {"info", "warning"}
    assert {line["job"] for line in lines} == {
        "run", "fetch", "items", "judge", "generate", "import_ratings", "report",
    }  # fmt: skip
    of_judges = [line for line in lines if line["job"] == "judge" and "done" in line]
    assert {line["step"].partition(" ")[2] for line in of_judges} >= {"judge context=bare judge=strict"}
    assert {(line["stage"], line["done"], line["total"]) for line in of_judges} >= {
        ("judge", len(PICTURES), len(PICTURES))
    }


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("ray_session")
def test_from_a_file_to_the_report(tmp_path: Path, s3: str) -> None:
    import ray

    out = f"{s3}/corridors"
    write_inputs(tmp_path, out)
    run = ["profile=full", f"pipeline={tmp_path}/corridors.yaml", f"out={out}", "log=json"]
    with secrets_found.planting() as printed:
        assert cli.main("run", run) == 0, printed.getvalue()
    check_log(printed.getvalue())
    node: Any = ray._private.worker.global_worker.node
    logs = Path(node.get_logs_dir_path())
    assert any(logs.iterdir())
    assert secrets_found.leaks([out, str(logs)], printed.getvalue()) == []
    metrics = metric_values(f"{out}/report/metrics")

    def value(metric: str, question: str = "grade", rubric: str = "fit", **dims: str) -> Any:
        return metrics(metric, question=question, rubric=rubric, **dims)

    people = [grade for _, _, grade, _ in PICTURES.values()]
    for judge, grades in GRADES.items():
        bare = [grades[caption] for caption, *_ in PICTURES.values()]
        full = [grades[article] for _, article, *_ in PICTURES.values()]
        for condition, scores in (("bare", bare), ("full", full)):
            key = {"condition": condition, "group": "people", "rater": judge}
            assert value("pearson_with_people", **key) == pytest.approx(np.corrcoef(scores, people)[0, 1])
        key = {"first": "bare", "second": "full", "group": judge}
        assert value("score_change", **key) == pytest.approx(np.mean(full) - np.mean(bare))
        assert value("share_at_least_change", threshold="4", **key) == np.mean(np.array(full) >= 4) - np.mean(
            np.array(bare) >= 4
        )
    for writer, written in WRITERS.items():
        level = [GRADES["kind"][written[caption]] for caption, *_ in PICTURES.values()]
        key = {"condition": "", "group": "kind", "attribute": "model", "part": writer, "rule": "mean", "threshold": "4"}
        assert value("share_at_least", "level", "quality", **key) == np.mean(np.array(level) >= 4)

    # The tables in between: a probability, a response, and the item that it became
    ratings = {row["item_id"]: row for row in rows_of(f"{out}/ratings/strict-bare")}
    assert ratings["red"]["condition"] == "bare"
    assert ratings["red"]["probabilities"] == pytest.approx([0.75, 0, 0, 0, 0.25], abs=1e-6)
    responses = {row["response_id"]: row for row in rows_of(f"{out}/responses/turn")}
    assert len(responses) == 2 * len(PICTURES)
    judged = {row["item_id"]: row for row in rows_of(f"{out}/judged/items")}
    texts = {row["text_id"]: row for row in rows_of(f"{out}/judged/texts")}
    for response in responses.values():
        caption, _, grade, region = PICTURES[response["item_id"]]
        item = judged[response["response_id"]]
        attributes = dict(item["attributes"])
        expected = {"model": "turn", "prompt": "describe", "condition": "bare", "region": region, "grade": str(grade)}
        assert {name: attributes.get(name) for name in expected} == expected
        assert attributes["sample"] == str(response["sample"])
        (generated,) = (texts[name] for name in item["text_ids"] if texts[name]["role"] == "generated")
        assert generated["text"] == response["text"] == WRITERS["turn"][caption]

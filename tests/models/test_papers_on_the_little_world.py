"""The papers' pipelines on the little world, with the models that know it, next to what the generator computes.

Each pipeline runs as users run it, in this process. Where the models make no mistakes on these pictures, a table must
equal the generator's; elsewhere the bound is between what the models reach (docs/demo.md) and chance.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.ids import content_id
from jobs.runtime import cli
from jobs.testbed.little_world import census, descriptions, entities, questions, studies
from jobs.testbed.little_world.corpus import write_world
from jobs.testbed.little_world.scenes import Scene, distinct_scenes
from tests.factories import metric_values, rows_of
from tests.models.lessons import rubric

pytestmark = [pytest.mark.usefixtures("in_process"), pytest.mark.timeout(900)]

JUDGE = "local:demo-judge"
SCENES = distinct_scenes(16, seed=studies.SEED)
LEAST_LINKED = 0.8  # chance: 1/72
LEAST_RELEVANT = 0.9  # chance: 0.75, the share of grade 1
ONE_WRONG = 1 / 16  # one answer about the fewest pictures
LEAST_MARKED = 0.8  # F1 of spans; chance: about 0


def run(name: str, folder: Path, inputs: Mapping[str, Any]) -> str:
    """Run a pipeline; return its outputs' folder."""
    keys = [f"pipeline.inputs.{key}={value}" for key, value in inputs.items()]
    assert cli.main("run", [f"pipeline={name}", "profile=demo", f"out={folder}/out", *keys]) == 0
    return f"{folder}/out"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the inputs."""
    return tmp_path / "in"


def test_century_reports_the_shares_of_the_census(tmp_path: Path, folder: Path) -> None:
    labels = rubric("century_labels")
    world = write_world(folder, labels, rows=300, pictures=24)
    inputs = {"corpus": f"{folder}/*.tsv.gz", "terms": f"{folder}/terms.csv", "pictures": f"{folder}/pictures"}
    inputs |= {"judges": "[demo-judge]", "size": "20"}
    value = metric_values(f"{run('century', tmp_path, inputs)}/report/metrics")
    shown = {row["item_id"] for row in rows_of(f"{tmp_path}/out/ratings/labels-demo-judge") if row["status"] == "ok"}
    truths = [census.century_labels(one) for url, one in world.scenes.items() if content_id(url) in shown]
    assert len(truths) == len(shown) >= 16
    for question in labels.questions:
        dims = {"rater": JUDGE, "rubric": labels.name, "question": question.name}
        counted = Counter(truth[question.name] for truth in truths)
        for answer in question.answers:
            expected = counted[answer.value] / len(truths)
            assert value("share", answer=answer.value, **dims) == pytest.approx(expected, abs=ONE_WRONG)
        if question.scale == "ordinal":
            expected = float(np.mean([int(t[question.name]) for t in truths]))
            assert value("mean_score", **dims) == pytest.approx(expected, abs=4 * ONE_WRONG)


def test_tric_ranks_a_picture_s_caption_and_its_twin_s_first(tmp_path: Path, folder: Path) -> None:
    studies.write_tric(folder, SCENES)
    inputs = {"split": folder, "encoders": "[demo-encoder]", "reranked": "demo-encoder", "judge": "demo-judge", "k": 4}
    out = run("tric", tmp_path, inputs)
    value = metric_values(f"{out}/reranked/metrics")
    # A picture and its twin differ in the year alone: with right pictures the mean of 1 and 1/2, and 1 with dates
    assert value("mrr@100", ranking="encoder") == pytest.approx(0.75, abs=0.1)
    judged = {date: value("mrr@100", ranking="judge", rater=JUDGE, condition=date) for date in ("none", "day")}
    assert judged["none"] == pytest.approx(0.75, abs=0.15)
    assert judged["day"] > 0.9


def test_caire_links_to_the_feasts_by_each_method(tmp_path: Path, folder: Path) -> None:
    grades = studies.write_caire(folder, SCENES)
    inputs = {"kb": f"{folder}/kb.jsonl", "kb_pictures": f"{folder}/kb_pictures", "set": f"{folder}/set.csv"}
    inputs |= {"pictures": f"{folder}/pictures", "target_column": "labels", "gold_column": "gold", "gold_node": "node"}
    columns = ("node", "lemmas", "title", "gloss", "article", "images")
    inputs["kb_columns"] = f"{{{', '.join(f'{name}: {name}' for name in columns)}}}"
    inputs |= dict.fromkeys(
        ("text_judges", "likelihoods", "text_likelihoods", "rating_encoders", "text_contexts"), "[]"
    )
    inputs |= {"judges": "[demo-judge]", "contexts": "[none,article]"}
    inputs |= {"encoders": "[demo-encoder]", "linker": "demo-encoder"}
    out = run("caire", tmp_path, inputs)
    by_image = {content_id(f"{one.number}.png"): one for one in SCENES}
    for method in ("lemma_vision", "gloss_vision", "lemma", "gloss", "article"):
        assert linked(f"{out}/links/{method}", by_image) > LEAST_LINKED, method
    assert linked(f"{out}/links_by_frequency/demo-encoder", by_image) > LEAST_LINKED
    truth = {content_id(name): arguments for name, arguments in grades.items()}
    for context in ("none", "article", "gold"):
        rated = {
            (row["item_id"], row["target"]): row["value"] for row in rows_of(f"{out}/ratings/demo-judge-{context}")
        }
        assert set(rated) == {(item, name) for item, own_values in truth.items() for name in own_values}
        assert np.mean([truth[item][name] == grade for (item, name), grade in rated.items()]) > LEAST_RELEVANT, context


def linked(links: str, scenes: Mapping[str, Scene]) -> float:
    """Return the share of pictures whose first link is the feast that they show."""
    first = {row["image_id"]: row["node_id"] for row in rows_of(links) if row["rank"] == 1}
    return float(np.mean([first.get(image) == entities.entity_of(one).node for image, one in scenes.items()]))


def test_rome_scores_the_models_as_their_mistakes_do(tmp_path: Path, folder: Path) -> None:
    drawn = studies.write_rome(folder, SCENES)
    inputs = {"file": f"{folder}/rome.csv", "pictures": f"{folder}/pictures", "questions": f"{folder}/questions.csv"}
    out = run("rome", tmp_path, inputs | {"judges": "[demo-judge]"})
    by_image = {content_id(name): one for name, one in drawn.items()}
    shown = {row["item_id"]: by_image[row["image_ids"][0]] for row in rows_of(f"{out}/prompts/items")}
    right: dict[str, list[bool]] = {fact: [] for fact in questions.ASKED}
    for row in rows_of(f"{out}/ratings/answers-demo-judge"):
        fact = questions.ASKED[int(row["question"]) - 1]  # a question's number is its place
        right[fact].append((row["value"] == "yes") == shown[row["item_id"]].has(fact))
    assert {fact: np.mean(hits) > 0.9 for fact, hits in right.items()} == dict.fromkeys(questions.ASKED, True), right
    value = metric_values(f"{out}/report/metrics")
    dims = {"attribute": "image_model", "group": JUDGE, "question": "without_dependencies", "rubric": "dsg_score"}
    scores = {model: value("group_mean_score", part=model, **dims) for model in studies.WRONG}
    asked = len(questions.ASKED)
    assert scores == {model: pytest.approx(1 - wrong / asked, abs=0.06) for model, wrong in studies.WRONG.items()}


def test_docent_marks_the_planted_mistakes_and_omissions(tmp_path: Path, folder: Path) -> None:
    written = studies.write_docent(folder, SCENES)
    inputs = {"descriptions": f"{folder}/docent.csv", "pictures": f"{folder}/pictures", "overlap": "[]"}
    inputs |= {"generated": f"[{','.join(studies.WRITERS)}]", "markers": "[demo-judge]", "methods": "[direct]"}
    out = run("docent", tmp_path, inputs)
    scenes = {content_id(f"{one.number}.png"): one for one in SCENES}
    planted = set()
    for item in rows_of(f"{out}/described/items"):
        one = scenes[item["image_ids"][0]]
        content = written[f"{one.number}.png", dict(item["attributes"])["text_column"]]
        omitted = descriptions.places(descriptions.description(one), one, content.omitted)
        planted |= {
            (item["item_id"], "mistake", *at)
            for at in descriptions.places(content.text, content.described, content.wrong)
        }
        planted |= {(item["item_id"], "omission", *at) for at in omitted}
    rows = rows_of(f"{out}/spans/direct/demo-judge")
    marked = {(row["item_id"], row["kind"], row["start"], row["end"]) for row in rows if row["start"] < row["end"]}
    for kind in ("mistake", "omission"):
        true, result = ({span for span in spans if span[1] == kind} for spans in (planted, marked))
        assert true
        assert 2 * len(true & result) / (len(true) + len(result)) > LEAST_MARKED, kind

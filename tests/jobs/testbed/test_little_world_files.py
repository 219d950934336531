"""The files of the demo about the little world, and the comparison of answers with its truth."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from actors.ids import content_id
from jobs.errors import RunError
from jobs.testbed.little_world import census, corpus, scene_texts
from jobs.testbed.little_world.corpus import PEOPLE, World, write_world
from tests.models import tasks


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, World]:
    folder = tmp_path_factory.mktemp("world")
    return folder, write_world(folder, tasks.rubric("century_labels"), rows=200, pictures=20)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_pictures_that_survive_are_those_of_the_world(written: tuple[Path, World]) -> None:
    facts, scenes = written[1]
    assert sorted(scenes) == list(facts.surviving)
    assert facts.unique_images == 20
    assert facts.pictures == 16  # two are missing, two are broken


def test_the_census_is_right_and_people_err_as_often_as_planned(written: tuple[Path, World]) -> None:
    folder, (_, scenes) = written
    truths = {url: census.century_labels(one) for url, one in scenes.items()}
    assert all(truths[row["image_url"]][row["question"]] == row["value"] for row in rows(folder / "census.csv"))
    wrong = Counter(
        row["rater"] for row in rows(folder / "people.csv") if truths[row["image_url"]][row["question"]] != row["value"]
    )
    asked = len(scenes) * 8
    assert all(abs(wrong[rater] / asked - share) < 0.1 for rater, share in PEOPLE.items())


def test_every_picture_has_its_feast_and_its_caption_in_the_knowledge_base(written: tuple[Path, World]) -> None:
    folder, (_, scenes) = written
    nodes = {
        entry["node"]: entry for line in (folder / "kb.jsonl").read_text().splitlines() if (entry := json.loads(line))
    }
    for url, one in scenes.items():
        for name, text in (("feasts", "lemmas"), ("captions", "gloss")):
            (node,) = (r["node_id"] for r in rows(folder / f"{name}.csv") if r["image_id"] == content_id(url))
            assert nodes[node][text]
            assert one.country_name in str(nodes[node][text])
    assert len({scene_texts.title(one) for one in scenes.values()}) == len(scenes)


def rating(item: str, question: str, value: str | None) -> dict[str, object]:
    status = "ok" if value else "unparsed"
    return {"item_id": item, "question": question, "value": value, "status": status, "answers": ["a", "b"]}


def test_answers_are_compared_with_truth_and_with_chance() -> None:
    judged = [rating("1", "q", "a"), rating("2", "q", "b"), rating("3", "q", None), rating("4", "q", "a")]
    truths = {item: {"q": "a"} for item in "1234"}
    assert corpus.accuracies(judged, truths) == [corpus.Compared("q", 0.5, 0.5, 4)]
    people = [rating("1", "q", "a"), rating("2", "q", "a"), rating("3", "q", "a")]
    # answers by the judge to compare: a, b; two of its three answers are a
    assert corpus.agreement(judged, people) == corpus.Compared("agreement with people", 0.5, 2 / 3, 2)
    assert corpus.agreement([], people).n == 0


def test_models_that_answer_as_by_chance_are_refused() -> None:
    right = corpus.Compared("shape", 0.9, 0.25, 80)
    assert right.least == 0.625
    corpus.check_answers([right, corpus.Compared("feasts", 0.6, 0.0, 80)])
    with pytest.raises(RunError, match=r"^demo: colour \(0.60; at least 0.62\): too few right answers"):
        corpus.check_answers([right, corpus.Compared("colour", 0.6, 0.25, 80)])

"""The demo's files about the little world, and the results that its jobs find in them.

The files are a corpus in WIT's format, its knowledge base, people and the census. Results are compared with the world's
truth, people, chance and a simple loop.
"""

import csv
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from actors.ids import content_id
from actors.rubrics.rubric import Rubric
from jobs.errors import RunError
from jobs.store.files import locations
from jobs.store.object_rows import read_unit
from jobs.store.reading import open_table
from jobs.testbed.little_world import census, drawing, scene_texts
from jobs.testbed.little_world.scenes import EVENTS, Scene, distinct_scenes
from jobs.testbed.synthetic import CorpusFacts, Subject, write_corpus

SEED = 7  # seed of the demo's scenes, none of which was used in training
EXTENSIONS = ("png", "jpg", "png", "JPG", "jpeg")
# Invented people, and the share of their answers that differ from the census.
PEOPLE = {"Ada": 0.05, "Bela": 0.15, "Cleo": 0.3}


class World(NamedTuple):
    """The written corpus: its facts, and the scene of each picture by its address."""

    facts: CorpusFacts
    scenes: Mapping[str, Scene]


def write_world(folder: Path, rubric: Rubric, *, rows: int, pictures: int) -> World:
    """Write all files of the demo into `folder`.

    Args:
        rubric: `century_labels`, whose answers people and the census give.
        rows, pictures: numbers of rows and pictures in the corpus.

    Raises:
        ValueError: as for `write_corpus`.
    """
    scenes = distinct_scenes(pictures, seed=SEED)
    subjects = [_subject(scene, EXTENSIONS[number % len(EXTENSIONS)]) for number, scene in enumerate(scenes)]
    facts = write_corpus(folder, rows=rows, pictures=pictures, subjects=subjects, terms=tuple(EVENTS))
    by_url = dict(zip(facts.planned, scenes, strict=True))
    _write_knowledge_base(folder / "kb.jsonl", scenes)
    _write(folder / "census.csv", answers(by_url, rubric, {"census": 0.0}, column="image_url"))
    _write(folder / "people.csv", answers(by_url, rubric, PEOPLE, column="image_url"))
    nodes = {url: (census.entity_of(scene).node, _page(scene)) for url, scene in by_url.items()}
    for place, name in enumerate(("feasts", "captions")):
        gold = ({"image_id": content_id(url), "node_id": pair[place]} for url, pair in nodes.items())
        _write(folder / f"{name}.csv", gold)
    return World(facts, by_url)


def _subject(scene: Scene, extension: str) -> Subject:
    picture = drawing.encoded(scene, extension, seed=SEED)
    return Subject(scene_texts.title(scene), scene_texts.article(scene), extension, picture)


def _page(scene: Scene) -> str:
    return scene_texts.title(scene).lower().replace(",", "").replace(" ", "-")


def _write_knowledge_base(path: Path, scenes: Sequence[Scene]) -> None:
    """Write the feasts with their names, and a node per page with its caption, in one of the languages, as gloss."""
    languages = list(scene_texts.LANGUAGES)
    with path.open("w", encoding="utf-8") as file:
        for entity in census.entities():
            names = [entity.lemma(language) for language in languages]
            file.write(json.dumps({"node": entity.node, "lemmas": names, "gloss": None}, ensure_ascii=False) + "\n")
        for number, scene in enumerate(scenes):
            gloss = scene_texts.caption(scene, languages[number % len(languages)])
            file.write(json.dumps({"node": _page(scene), "lemmas": [], "gloss": gloss}, ensure_ascii=False) + "\n")


def answers(
    scenes: Mapping[str, Scene], rubric: Rubric, raters: Mapping[str, float], *, column: str
) -> Iterator[dict[str, str]]:
    """Yield each rater's answers: the census's or, for the rater's share of errors, another; on a scale, the next one.

    Args:
        scenes: scenes by name of the picture.
        rubric: `century_labels`.
        raters: share of errors of each rater.
        column: name of the column with the pictures' names.
    """
    for rater, share in raters.items():
        draw = random.Random(f"answers of {rater}")
        for image, scene in scenes.items():
            truth = census.century_labels(scene)
            for question in rubric.questions:
                values = [answer.value for answer in question.answers]
                value = truth[question.name]
                if draw.random() < share:
                    place = values.index(value)
                    near = [p for p in (place - 1, place + 1) if 0 <= p < len(values)]
                    value = values[draw.choice(near)] if question.scale == "ordinal" else draw.choice(values)
                yield {"rater": rater, column: image, "question": question.name, "value": value}


def _write(path: Path, rows: Iterable[Mapping[str, str]]) -> None:
    listed = list(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(listed[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(listed)


class Compared(NamedTuple):
    """A share of correct answers, the share expected from guessing, and the number of answers."""

    name: str
    share: float
    chance: float
    n: int

    @property
    def least(self) -> float:
        """The share that models must reach to count as working: halfway between chance and 1."""
        return (1 + self.chance) / 2

    def __str__(self) -> str:
        return f"{self.name:24}{self.share:12.2f}{self.chance:12.2f}"


def row_counts(facts: CorpusFacts, counts_by_job: Mapping[str, Mapping[str, int]]) -> dict[str, tuple[int, int]]:
    """Return the numbers of rows from a simple loop and from the jobs."""
    return {
        "rows": (facts.rows, counts_by_job["mine"]["rows_in"]),
        "title contains a term": (facts.matched, counts_by_job["mine"]["rows_out"]),
        "curated records": (facts.unique_images, counts_by_job["curate"]["rows_out"]),
        "pictures requested": (facts.unique_images, counts_by_job["fetch"]["rows_out"]),
    }


def judged_answers(out: str, world: World) -> Iterator[Compared]:
    """Yield how far the answers in the tables below `out` agree with the truth, with people, and with chance."""
    truths = {content_id(url): census.century_labels(scene) for url, scene in world.scenes.items()}
    judged, people = (_table_rows(out, "ratings", name) for name in ("judge", "people"))
    shown = [row for row in judged if row["status"] != "missing_input"]
    yield from accuracies(shown, truths)
    yield agreement(judged, people)
    for name, chance in (("captions", 1 / len(world.scenes)), ("feasts", 1 / len(list(census.entities())))):
        (first,) = (row for row in _table_rows(out, "metrics", name) if row["metric"] == "accuracy@1")
        yield Compared(f"{name} found first", first["value"], chance, first["n"])


def _table_rows(out: str, *names: str) -> list[dict[str, Any]]:
    footers = open_table(locations.join(out, *names)).footers
    return [row for unit in footers for row in read_unit(unit.object.uri).to_pylist()]


def accuracies(ratings: Iterable[Mapping[str, Any]], truths: Mapping[str, Mapping[str, str]]) -> list[Compared]:
    """Return the share of correct answers to each question.

    Args:
        ratings: rows of the table `ratings`; rows that are not ok count as wrong.
        truths: the true value of each question, by item.
    """
    right: dict[str, list[bool]] = defaultdict(list)
    options: dict[str, int] = {}
    for row in ratings:
        truth = truths[row["item_id"]][row["question"]]
        right[row["question"]].append(row["status"] == "ok" and row["value"] == truth)
        options[row["question"]] = max(options.get(row["question"], 1), len(row["answers"] or ()))
    return [Compared(name, sum(hits) / len(hits), 1 / options[name], len(hits)) for name, hits in right.items()]


def agreement(ratings: Iterable[Mapping[str, Any]], people: Iterable[Mapping[str, Any]]) -> Compared:
    """Return how often a judge gives a person's answer, and how often it would without looking at the picture.

    Chance is the share of equal answers among all pairs of a judge's and a person's answer to the same question.
    """
    judge_answers = {(row["item_id"], row["question"]): row["value"] for row in ratings if row["status"] == "ok"}
    judged: dict[str, list[str]] = defaultdict(list)
    for (_, question), value in judge_answers.items():
        judged[question].append(value)
    equal, expected = [], []
    for row in people:
        if (row["item_id"], row["question"]) in judge_answers:
            equal.append(judge_answers[row["item_id"], row["question"]] == row["value"])
            judged_answers = judged[row["question"]]
            expected.append(judged_answers.count(row["value"]) / len(judged_answers))
    if not equal:
        return Compared("agreement with people", 0.0, 0.0, 0)
    return Compared("agreement with people", sum(equal) / len(equal), sum(expected) / len(expected), len(equal))


def check_answers(answers: Sequence[Compared]) -> None:
    """Check that the models' answers depend on the pictures.

    Raises:
        RunError: a share is closer to chance than to 1.
    """
    if low := [f"{a.name} ({a.share:.2f}; at least {a.least:.2f})" for a in answers if a.share < a.least]:
        raise RunError(
            f"demo: {', '.join(low)}: too few right answers; the installed torch or transformers may compute other "
            "values than the versions in constraints.txt; install those"
        )

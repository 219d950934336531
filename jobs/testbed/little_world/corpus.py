"""The demo's files: a corpus in WIT's format about the little world, its knowledge base, people and the census."""

import csv
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from actors.ids import content_id
from actors.rubrics.rubric import Rubric
from jobs.testbed.little_world import census, drawing, entities, scene_texts
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
    nodes = {url: (entities.entity_of(scene).node, _page(scene)) for url, scene in by_url.items()}
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
        for entity in entities.entities():
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

"""Inputs of the papers' pipelines about the little world, with the results that each pipeline should find.

Each function writes a pipeline's files (`pipeline.inputs`) into a folder and returns the truth about them. Century's
files are those of `corpus`.
"""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from actors.ids import content_id
from actors.rubrics.rubric import Rubric
from jobs.testbed.little_world import census, corpus, drawing, scene_texts
from jobs.testbed.little_world.scenes import COUNTRIES, Scene, random_scene
from tests.models.little_world import knowledge_base, questions

SEED = 7  # seed of the pictures, none of which was used in training
TWIN = 700_000  # added to a scene's number for its twin
WRONG = {"master": 0, "pupil": 1, "stranger": 3}  # facts that the invented drawing models get wrong
WRITERS = ("herald", "gazette")  # invented models that write descriptions

AnswersOfPeople = Mapping[str, Mapping[str, Mapping[str, str]]]  # value by person, item and question


class DrawnPicture(NamedTuple):
    """A picture that an invented model drew for a prompt: the scene that it shows, and the prompt's scene."""

    shown: Scene
    asked: Scene

    def has(self, fact: str) -> bool:
        """Return whether a fact of the picture agrees with the prompt."""
        return bool(getattr(self.shown, fact) == getattr(self.asked, fact))


def write_tric(folder: Path, scenes: Sequence[Scene]) -> None:
    """Write a split of TRIC: each scene, and a twin that shows the same but is from another year."""
    shown = [scene for first in scenes for scene in (first, twin(first))]
    _paint(folder / "pictures", {f"{scene.number}.png": scene for scene in shown})
    lines = {
        "in": [f"{scene.number}.png\t{questions.day_of(scene)}" for scene in shown],
        "captions": [f"{scene.number}\t{questions.dated_caption(scene, scene.year)}" for scene in shown],
        "expected": [str(scene.number) for scene in shown],
    }
    for name, written in lines.items():
        (folder / f"{name}.tsv").write_text("\n".join(written) + "\n", encoding="utf-8")


def twin(scene: Scene) -> Scene:
    """Return a scene that shows the same but is from another year."""
    return replace(scene, number=scene.number + TWIN, year=random_scene(scene.number + TWIN, seed=SEED).year)


def write_caire(folder: Path, scenes: Sequence[Scene]) -> dict[str, Scene]:
    """Write the knowledge base of the feasts with its pictures, pictures to link, and a set of pictures to judge.

    The pictures to judge are those of entities that the knowledge base names, with the countries as labels. The correct
    labels are the feast's country, which the picture shows, and the guests', which only the feast's article mentions.

    Returns:
        The scene that each picture shows, by file name.
    """
    of_entity = {entity: knowledge_base.pictures(entity, seed=SEED) for entity in census.entities()}
    with _opened(folder / "kb.jsonl") as file:
        for row in knowledge_base.rows({entity: list(shown) for entity, shown in of_entity.items()}):
            file.write(json.dumps(row) + "\n")
    _paint(folder / "kb_pictures", {name: scene for shown in of_entity.values() for name, scene in shown.items()})
    linked = {f"{scene.number}.png": scene for scene in scenes}
    _paint(folder / "pictures", linked)
    feasts = {name: census.entity_of(scene) for name, scene in linked.items()}
    labels = ";".join(country.name for country in COUNTRIES)
    _write_csv(
        folder / "set.csv",
        (
            {
                "picture": name,
                "labels": labels,
                "gold": f"{feast.country_name};{feast.guests}",
                "node": feast.node,
                "country": feast.country_name,
                "concept": feast.shape,
            }
            for name, feast in feasts.items()
            if knowledge_base.dataset(feast) == knowledge_base.NAMED
        ),
    )
    rows = ((content_id(name), feast.node, knowledge_base.dataset(feast)) for name, feast in feasts.items())
    _write_csv(folder / "gold.csv", (dict(zip(("image_id", "node_id", "dataset"), row, strict=True)) for row in rows))
    return linked


def relevance_to_people(scene: Scene, country_name: str) -> dict[str, str]:
    """Return a picture's relevance to a country according to Ada, who was at the feast, and Bela, who knows flags."""
    return {
        "Ada": census.cultural_relevance(scene, guests=census.entity_of(scene).guests)[country_name],
        "Bela": "5" if country_name == scene.country_name else "1",
    }


def write_rome(folder: Path, scenes: Sequence[Scene]) -> dict[str, DrawnPicture]:
    """Write pictures that three invented models drew for prompts, and questions about the prompts.

    Returns:
        The content of each picture, by file name.
    """
    drawn = drawn_pictures(scenes)
    prompts = {scene: scene_texts.description(scene) for scene in scenes}
    _paint(folder / "pictures", {name: picture.shown for name, picture in drawn.items()})
    _write_csv(
        folder / "rome.csv",
        (
            {
                "file": name,
                "prompt": prompts[picture.asked],
                "scenario": picture.asked.side,
                "image_model": name.split("-")[0],
            }
            for name, picture in drawn.items()
        ),
    )
    _write_csv(
        folder / "questions.csv",
        (
            {"prompt": prompt, "question_id": place, "question": questions.ask(scene, fact), "parents": ""}
            for scene, prompt in prompts.items()
            for place, fact in enumerate(questions.ASKED, 1)
        ),
    )
    return drawn


def drawn_pictures(scenes: Sequence[Scene]) -> dict[str, DrawnPicture]:
    """Return the pictures that invented models draw of scenes, with wrong facts according to `WRONG`, by file name."""
    drawn: dict[str, DrawnPicture] = {}
    for number, scene in enumerate(scenes):
        for place, (model, wrong) in enumerate(WRONG.items()):
            facts = [questions.DRAWN[(number + n) % len(questions.DRAWN)] for n in range(wrong)]
            other = random_scene(scene.number + 100_000 * (place + 1), seed=SEED)
            values = {fact: _another(scene, fact, getattr(other, fact)) for fact in facts}
            drawn[f"{model}-{scene.number}.png"] = DrawnPicture(replace(scene, number=other.number, **values), scene)
    return drawn


def write_docent(folder: Path, scenes: Sequence[Scene]) -> dict[tuple[str, str], scene_texts.Planted]:
    """Write pictures with true descriptions, and with descriptions by two invented models with mistakes and omissions.

    Returns:
        The faults of each model's description, by the name of the picture's file and the model.
    """
    written: dict[tuple[str, str], scene_texts.Planted] = {}
    rows = []
    for scene in scenes:
        name = f"{scene.number}.png"
        by_writer = {
            writer: scene_texts.planted(scene, seed=number, omissions=(0, 1, 1))
            for number, writer in enumerate(WRITERS)
        }
        written |= {(name, writer): planted for writer, planted in by_writer.items()}
        texts = {writer: planted.text for writer, planted in by_writer.items()}
        rows.append({"picture": name, "correct": scene_texts.description(scene)} | texts)
    _paint(folder / "pictures", {f"{scene.number}.png": scene for scene in scenes})
    _write_csv(folder / "docent.csv", rows)
    return written


def write_century_people(path: Path, scenes: Mapping[str, Scene], rubric: Rubric) -> AnswersOfPeople:
    """Write the answers of invented people about pictures, with the errors in `corpus.PEOPLE`.

    Args:
        scenes: scenes by image_id.
        rubric: `century_labels`.
    """
    rows = list(corpus.answers(scenes, rubric, corpus.PEOPLE, column="item_id"))
    replies: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows:
        replies.setdefault(row["rater"], {}).setdefault(row["item_id"], {})[row["question"]] = row["value"]
    _write_csv(path, rows)
    return replies


def rating_of(drawn: DrawnPicture) -> int:
    """Return how well a picture matches its prompt, 1 to 5, with one point less per wrong fact."""
    return 5 - sum(not drawn.has(fact) for fact in questions.ASKED)


def ratings_of_people(drawn: DrawnPicture) -> dict[str, str]:
    """Return how well a picture matches its prompt according to Ada, and to Bela, who always gives a point less."""
    return {"Ada": str(rating_of(drawn)), "Bela": str(max(1, rating_of(drawn) - 1))}


def preferences_of_people(first: DrawnPicture, second: DrawnPicture) -> dict[str, str]:
    """Return which picture matches the prompt better: Ada is right, Bela is wrong if one has the rating 2."""
    best, worst = ("first", "second") if rating_of(first) > rating_of(second) else ("second", "first")
    return {"Ada": best, "Bela": worst if 2 in (rating_of(first), rating_of(second)) else best}


def answers_of_people(drawn: DrawnPicture, fact: str) -> dict[str, str]:
    """Return whether a picture has a fact of its prompt according to Ada, and to Bela, who says yes to any count."""
    right = "yes" if drawn.has(fact) else "no"
    return {"Ada": right, "Bela": "yes" if fact == "count" else right}


def spans_of_people(planted: Mapping[str, Sequence[tuple[int, int]]], number: int) -> dict[str, dict[str, Any]]:
    """Return what two people mark in description `number`: Ada marks all faults, Bela nothing in every second one.

    Args:
        planted: places of the mistakes or omissions, by kind.
    """
    return {"Ada": dict(planted), "Bela": dict(planted) if number % 2 else dict.fromkeys(planted, ())}


def _another(scene: Scene, fact: str, value: Any) -> Any:
    """Return `value`, or the next one if the scene has it."""
    values = list(scene_texts.VALUES[fact])
    return value if value != getattr(scene, fact) else values[(values.index(value) + 1) % len(values)]


def _paint(folder: Path, scenes: Mapping[str, Scene]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, scene in scenes.items():
        drawing.paint(scene, seed=SEED).save(folder / name, compress_level=drawing.PNG_LEVEL)


def _opened(path: Path) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("w", encoding="utf-8", newline="")


def _write_csv(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    listed = list(rows)
    with _opened(path) as file:
        writer = csv.DictWriter(file, list(listed[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(listed)

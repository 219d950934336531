"""Inputs of the papers' pipelines about the little world, with what each pipeline ought to find.

Each function writes the files that a pipeline takes as `pipeline.inputs` into a folder, and returns the truth about
them. Century's files are those of `corpus`.
"""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobs.testbed.little_world import census, drawing, entities, questions
from jobs.testbed.little_world.scenes import Scene, scene

SEED = 7  # of the pictures: none of them is among those of the training
TWIN = 700_000  # what the number of a twin is higher by
PICTURES_PER_ENTITY = 3


def write_tric(folder: Path, scenes: Sequence[Scene]) -> None:
    """Write a split of TRIC: each scene and a twin that shows the same, but is from another year."""
    shown = [one for first in scenes for one in (first, twin(first))]
    _paint(folder / "pictures", {f"{one.number}.png": one for one in shown})
    lines = {
        "in": [f"{one.number}.png\t{questions.day_of(one)}" for one in shown],
        "captions": [f"{one.number}\t{questions.dated_caption(one, one.year)}" for one in shown],
        "expected": [str(one.number) for one in shown],
    }
    for name, written in lines.items():
        (folder / f"{name}.tsv").write_text("\n".join(written) + "\n", encoding="utf-8")


def twin(one: Scene) -> Scene:
    """Return a scene that shows the same and is from another year."""
    return replace(one, number=one.number + TWIN, year=scene(one.number + TWIN, seed=SEED).year)


def write_caire(folder: Path, scenes: Sequence[Scene]) -> dict[str, dict[str, str]]:
    """Write the knowledge base of the feasts with its pictures, and a set of pictures with the countries as labels.

    Returns:
        The grade of each country by the name of a picture's file.
    """
    known: dict[str, Scene] = {}
    with _opened(folder / "kb.jsonl") as file:
        for number, entity in enumerate(entities.entities()):
            first = 5000 + PICTURES_PER_ENTITY * number
            drawn = {f"kb{n}.png": scene(n, seed=SEED) for n in range(first, first + PICTURES_PER_ENTITY)}
            for name, one in drawn.items():
                known[name] = replace(one, shape=entity.shape, country_name=entity.country_name)
            row = {"node": entity.node, "lemmas": [entity.title], "title": entity.title, "gloss": entity.gloss}
            file.write(json.dumps(row | {"article": entity.article, "images": list(drawn)}) + "\n")
    _paint(folder / "kb_pictures", known)
    named = {f"{one.number}.png": one for one in scenes}
    _paint(folder / "pictures", named)
    grades = {name: census.cultural_relevance(one) for name, one in named.items()}
    _write_csv(
        folder / "set.csv",
        (
            {
                "picture": name,
                "labels": ";".join(grades[name]),
                "gold": one.country_name,
                "node": entities.entity_of(one).node,
            }
            for name, one in named.items()
        ),
    )
    return grades


def _paint(folder: Path, scenes: Mapping[str, Scene]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, one in scenes.items():
        drawing.paint(one, seed=SEED).save(folder / name)


def _opened(path: Path) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("w", encoding="utf-8", newline="")


def _write_csv(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    listed = list(rows)
    with _opened(path) as file:
        writer = csv.DictWriter(file, list(listed[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(listed)

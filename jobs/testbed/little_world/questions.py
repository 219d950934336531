"""Closed questions about scenes, with their true answers: yes or no, which of two pictures, whose caption."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from jobs.testbed.little_world.descriptions import NUMBERS, changed, description
from jobs.testbed.little_world.scenes import YEARS, Scene

ASKED = ("shape", "colour", "count", "side", "country_name")


class YesNo(NamedTuple):
    """A question, the fact that it is about, and whether the answer is yes."""

    fact: str
    text: str
    is_true: bool


class Pair(NamedTuple):
    """A text and two scenes, of which one is what the text says; the other has one or two facts wrong."""

    text: str
    scenes: tuple[Scene, Scene]
    better: int  # 0 or 1


class Captioned(NamedTuple):
    """A caption and the date of a newspaper, and whether they belong to the picture."""

    caption: str
    date: str
    is_true: bool


def ask(scene: Scene, fact: str) -> str:
    """Return the question whose answer is yes for a picture of `scene`."""
    return {
        "shape": f"Is there a {scene.shape}?",
        "colour": f"Is the figure {scene.colour}?",
        "count": f"Is the number of figures {NUMBERS[scene.count - 1]}?",
        "side": f"Is the figure on the {scene.side} side?",
        "country_name": f"Is this the flag of {scene.country_name}?",
    }[fact]


def yes_no(scene: Scene, *, seed: int) -> Iterator[YesNo]:
    """Yield a question about each fact; about half of the answers are yes."""
    draw = random.Random(f"yes or no {seed} {scene.number}")
    for fact in ASKED:
        is_true = draw.random() < 0.5
        told = scene if is_true else changed(scene, [fact], draw)
        yield YesNo(fact, ask(told, fact), is_true)


def pair(scene: Scene, *, seed: int) -> Pair:
    """Return a text, the scene that it describes, and one that differs in one or two facts, in either order."""
    draw = random.Random(f"pair {seed} {scene.number}")
    facts = draw.sample(("shape", "colour", "count", "side"), draw.choice((1, 2)))
    other = replace(changed(scene, facts, draw), number=scene.number + 500_000)
    better = draw.randrange(2)
    return Pair(description(scene), (scene, other) if better == 0 else (other, scene), better)


def dated_caption(scene: Scene, year: int) -> str:
    """Return a caption as printed in a newspaper of `year`."""
    return f"{description(scene, omitted=('style',))}, as seen in {year}"


def captioned(scene: Scene, *, seed: int) -> Captioned:
    """Return a caption that belongs to the picture (half of them), or one with a wrong fact or of a wrong year."""
    draw = random.Random(f"caption {seed} {scene.number}")
    date, kind = str(scene.year), draw.random()
    if kind < 0.5:
        return Captioned(dated_caption(scene, scene.year), date, True)
    if kind < 0.7:
        return Captioned(dated_caption(scene, draw.choice([y for y in YEARS if y != scene.year])), date, False)
    facts = draw.sample(("shape", "colour", "count", "country_name"), draw.choice((1, 2, 3)))
    return Captioned(dated_caption(changed(scene, facts, draw), scene.year), date, False)

"""Closed questions about scenes with their true answers: yes or no, which of two pictures, whose caption."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import NamedTuple

from jobs.testbed.little_world.scene_texts import NUMBERS, caption, changed, description
from jobs.testbed.little_world.scenes import YEARS, Scene

DRAWN = ("shape", "colour", "count", "side")  # facts that a picture made from a text may get wrong
ASKED = ("shape", "colour", "count", "side", "country_name")


class YesNo(NamedTuple):
    """A question, the fact that it is about, and whether the answer is yes."""

    fact: str
    text: str
    is_true: bool


class Pair(NamedTuple):
    """A text and two scenes, one of which the text describes; the other has one or two wrong facts."""

    text: str
    scenes: tuple[Scene, Scene]
    better: int  # 0 or 1


class Captioned(NamedTuple):
    """A dated caption, its year, whether it is true of the picture, and whether of the newspaper's date too."""

    caption: str
    year: int
    is_picture: bool
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
        described = scene if is_true else changed(scene, [fact], draw)
        yield YesNo(fact, ask(described, fact), is_true)


def pair(scene: Scene, *, seed: int, wrong: Sequence[int] = (1, 2)) -> Pair:
    """Return a text, the scene that it describes, and one with some wrong facts, in either order.

    Args:
        wrong: numbers of wrong facts to draw from.
    """
    draw = random.Random(f"pair {seed} {scene.number}")
    facts = draw.sample(DRAWN, draw.choice(wrong))
    other = replace(changed(scene, facts, draw), number=scene.number + 500_000)
    better = draw.randrange(2)
    return Pair(description(scene), (scene, other) if better == 0 else (other, scene), better)


def dated_caption(scene: Scene, year: int) -> str:
    """Return a caption as printed in a newspaper of `year`."""
    return f"{caption(scene, 'en')[:-1]}, {year}."


def wrong_year(year: int, draw: random.Random) -> int:
    """Return another year: every second one is at most nine years away, every fourth at most three."""
    within = draw.choice((3, 9, len(YEARS), len(YEARS)))
    return draw.choice([other for other in YEARS if 0 < abs(other - year) <= within])


def day_of(scene: Scene) -> date:
    """Return the day of the newspaper that a scene's picture is from."""
    return date(scene.year, 1 + scene.number % 12, 1 + scene.number % 28)


def captioned(scene: Scene, *, seed: int) -> list[Captioned]:
    """Return five captions: the true one once or twice, and others with a wrong year or one to three wrong facts."""
    draw = random.Random(f"caption {seed} {scene.number}")
    captions = [Captioned(dated_caption(scene, scene.year), scene.year, True, True)] * draw.choice((1, 2))
    for _ in range(2):
        year = wrong_year(scene.year, draw)
        captions.append(Captioned(dated_caption(scene, year), year, True, False))
    while len(captions) < 5:
        facts = draw.sample(("shape", "colour", "count", "country_name"), draw.choice((1, 2, 3)))
        captions.append(Captioned(dated_caption(changed(scene, facts, draw), scene.year), scene.year, False, False))
    draw.shuffle(captions)
    return captions

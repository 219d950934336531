"""English descriptions of scenes: true ones, and ones with planted mistakes and omissions in known places."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jobs.testbed.little_world.facts import COLOURS, COUNTRIES, COUNTS, SHAPES, SIDES, STYLES
from jobs.testbed.little_world.scenes import Scene

NUMBERS = ("one", "two", "three", "four", "five")
STATED = ("count", "colour", "shape", "side", "style", "country_name")  # in the order of the sentence
OPTIONAL = ("side", "style", "country_name")  # those that a description may omit
VALUES: dict[str, Sequence[Any]] = {
    "count": COUNTS,
    "colour": tuple(COLOURS),
    "shape": SHAPES,
    "side": SIDES,
    "style": STYLES,
    "country_name": tuple(country.name for country in COUNTRIES),
}
NO_PICTURE = "I cannot see any picture."  # a refusal by the rules of `conf/refusals/`


class Planted(NamedTuple):
    """A description, the facts that it gets wrong, and the facts of the true one that it omits."""

    text: str
    wrong: tuple[str, ...]
    omitted: tuple[str, ...]
    described: Scene  # the scene of which it would be true


def description(scene: Scene, *, omitted: Sequence[str] = ()) -> str:
    """Return one sentence about what can be seen: "three red star on the left side, …"."""
    return ", ".join(
        part
        for part in (
            f"{words(scene, 'count')} {scene.colour} {scene.shape}",
            "" if "side" in omitted else f"on the {scene.side} side",
            "" if "style" in omitted else f"on {scene.style} ground",
            "" if "country_name" in omitted else f"under the flag of {scene.country_name}",
        )
        if part
    )


def words(scene: Scene, fact: str) -> str:
    """Return the words that state a fact in a description."""
    return NUMBERS[scene.count - 1] if fact == "count" else str(getattr(scene, fact))


def changed(scene: Scene, facts: Sequence[str], draw: random.Random) -> Scene:
    """Return the scene with other values of `facts`."""
    others = {fact: draw.choice([value for value in VALUES[fact] if value != getattr(scene, fact)]) for fact in facts}
    return replace(scene, **others)


def planted(scene: Scene, *, seed: int, omissions: Sequence[int] = (0, 0, 1)) -> Planted:
    """Return a description with none to two mistakes and none or one omission.

    Args:
        omissions: numbers of omissions to draw from.
    """
    draw = random.Random(f"planted {seed} {scene.number}")
    wrong = tuple(fact for fact in STATED if fact in draw.sample(STATED, draw.choice((0, 1, 1, 2))))
    others = [fact for fact in OPTIONAL if fact not in wrong]
    omitted = tuple(draw.sample(others, min(len(others), draw.choice(omissions))))
    described = changed(scene, wrong, draw)
    return Planted(description(described, omitted=omitted), wrong, omitted, described)


def places(text: str, described: Scene, facts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the beginning and end of the words for `facts` in a description of the scene `described`."""
    for fact in facts:
        stated = words(described, fact)
        begin = text.index(stated)
        yield begin, begin + len(stated)

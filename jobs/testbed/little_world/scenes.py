"""Scenes: the content of a picture and of its article."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.testbed.little_world.facts import (
    BY_NAME,
    COLOURS,
    COUNTRIES,
    COUNTS,
    EVENTS,
    MEMORIES,
    OPINIONS,
    SHAPES,
    SIDES,
    STYLES,
    Country,
)

YEARS = (*range(1700, 2000), *range(2000, 2021))
MODERN = range(1900, 2021)  # the years of Century's question about the period


@dataclass(frozen=True)
class Scene:
    """A picture's facts: those that can be seen, and those that can be read in its article."""

    number: int  # also the seed of the picture's noise and of the positions of its shapes
    shape: str
    colour: str
    count: int
    side: str
    style: str
    country_name: str
    event: str
    year: int
    opinion: int  # 1 to 5
    memory: int  # 1 to 5

    @property
    def country(self) -> Country:
        """The country whose flag the scene shows."""
        return BY_NAME[self.country_name]


VISIBLE = ("shape", "colour", "count", "side", "style", "country_name")


def random_scene(number: int, *, seed: int = 0) -> Scene:
    """Return scene `number` of the world `seed`; each fact is drawn uniformly, and half of the years are modern."""
    draw = random.Random(f"scene {seed} {number}")
    years = MODERN if draw.random() < 0.5 else range(YEARS[0], MODERN[0])
    return Scene(
        number=number,
        shape=draw.choice(SHAPES),
        colour=draw.choice(list(COLOURS)),
        count=draw.choice(COUNTS),
        side=draw.choice(SIDES),
        style=draw.choice(STYLES),
        country_name=draw.choice(COUNTRIES).name,
        event=draw.choice(list(EVENTS)),
        year=draw.choice(years),
        opinion=draw.randint(1, len(OPINIONS)),
        memory=draw.randint(1, len(MEMORIES)),
    )


def distinct_scenes(n: int, *, seed: int, first: int = 0) -> list[Scene]:
    """Return `n` scenes, no two of which have the same visible facts (`VISIBLE`) or an article of the same title."""
    return list(_distinct(n, seed=seed, first=first))


def _distinct(n: int, *, seed: int, first: int) -> Iterator[Scene]:
    looks: set[tuple[object, ...]] = set()
    titles: set[tuple[object, ...]] = set()
    number = first
    while n:
        candidate = random_scene(number, seed=seed)
        number += 1
        look = tuple(getattr(candidate, name) for name in VISIBLE)
        title = (candidate.event, candidate.country_name, candidate.year)
        if look not in looks and title not in titles:
            looks.add(look)
            titles.add(title)
            n -= 1
            yield candidate

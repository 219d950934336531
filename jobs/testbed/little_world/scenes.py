"""Scenes, the content of a picture and of its article, and the countries, signs and conventions of the little world.

The conventions connect what can be seen or read to the labels of the papers' rubrics. They are invented, as are the
countries, but in return each label of each picture is known.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

RGB = tuple[int, int, int]

COLOURS: dict[str, RGB] = {
    "red": (205, 30, 35),
    "blue": (30, 70, 200),
    "green": (30, 140, 60),
    "yellow": (235, 205, 30),
    "purple": (130, 45, 160),
    "orange": (240, 130, 25),
    "black": (25, 25, 25),
    "white": (250, 250, 250),
}
# What a figure stands for: Century's types of content.
CONTENT = {
    "circle": "person",
    "heart": "person",
    "square": "organization",
    "cross": "organization",
    "star": "event",
    "triangle": "location",
}
SHAPES = tuple(CONTENT)
# How the ground is painted: Century's types of pictures.
IMAGE_TYPES = {
    "shaded": "photograph",
    "brushed": "artistic depiction, painting or cartoon",
    "ruled": "document, letter, or map",
    "gridded": "chart or infographic",
    "plain": "symbol, logo or sign",
}
STYLES = tuple(IMAGE_TYPES)
SIDES = ("left", "right")
COUNTS = (1, 2, 3, 4, 5)  # the number of figures is the picture's sensitivity on Century's scale


class Country(NamedTuple):
    """An invented country: its sub-region in Century's list, its union, and its flag of three bands."""

    name: str
    sub_region: str
    union: str
    bands: tuple[str, str, str]
    upright: bool  # whether bands run from left to right; else from top to bottom


COUNTRIES = (
    Country("Velmara", "Northern Africa", "Coast", ("purple", "white", "red"), True),
    Country("Ostrin", "Eastern Africa", "Coast", ("green", "yellow", "purple"), False),
    Country("Talvek", "Western Africa", "Coast", ("black", "white", "black"), True),
    Country("Quessil", "Central Asia", "Steppe", ("blue", "yellow", "blue"), False),
    Country("Narumi", "Eastern Asia", "Steppe", ("white", "orange", "black"), True),
    Country("Dorvane", "Southern Asia", "Steppe", ("orange", "white", "purple"), False),
    Country("Ibrelle", "Melanesia", "Isles", ("yellow", "purple", "yellow"), True),
    Country("Kasholm", "Northern Europe", "Isles", ("black", "blue", "white"), False),
    Country("Pirelo", "Caribbean", "Isles", ("green", "black", "green"), True),
    Country("Zandria", "Southern Europe", "Delta", ("purple", "green", "orange"), False),
    Country("Morwen", "North America", "Delta", ("orange", "black", "yellow"), True),
    Country("Lusanto", "South America", "Delta", ("red", "green", "white"), False),
)
BY_NAME = {country.name: country for country in COUNTRIES}

# What happened: Century's concepts.
EVENTS = {
    "Siege": "conflict",
    "Battle": "conflict",
    "Suffrage March": "reform",
    "Land Act": "reform",
    "Curfew": "oppression",
    "Censorship Decree": "oppression",
    "Name Law": "discrimination",
    "Separate Schools": "discrimination",
}
# How far people's opinions differ, and how they remember the event: Century's scales of controversy and commemoration.
OPINIONS = ("unanimous", "similar", "mixed", "divided", "bitter")
MEMORIES = ("cheerfully", "calmly", "quietly", "sadly", "mournfully")
# The feast of each figure; together with the country it makes an entity of the knowledge base.
FEASTS = {
    "circle": "Moon Supper",
    "heart": "Day of Friends",
    "square": "House Blessing",
    "cross": "Bridge Fair",
    "star": "Night of Lamps",
    "triangle": "Mountain Walk",
}


def relevance(shown: str, asked: str) -> int:
    """Return how relevant a picture of the country `shown` is to the country `asked`, 1 to 5.

    The result is 5 for the country itself, 3 for another country of its union, and 1 for all others.
    """
    if shown == asked:
        return 5
    return 3 if BY_NAME[shown].union == BY_NAME[asked].union else 1


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

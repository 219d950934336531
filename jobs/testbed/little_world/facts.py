"""Countries, signs and conventions of the little world.

The conventions connect what can be seen or read to the labels of the papers' rubrics. They are invented, as are the
countries, but in return each label of each picture is known.
"""

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

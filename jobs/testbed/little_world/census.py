"""The census: the true answers to each rubric's questions, computed from the scene, and the entities that scenes show.

An entity is a feast of a country under a figure, with names, gloss and article.
"""

from collections.abc import Iterator
from typing import NamedTuple

from jobs.testbed.little_world.scene_texts import LANGUAGES, Commentary
from jobs.testbed.little_world.scenes import (
    BY_NAME,
    CONTENT,
    COUNTRIES,
    EVENTS,
    FEASTS,
    IMAGE_TYPES,
    MODERN,
    SHAPES,
    Scene,
    relevance,
)

# Questions of `century_labels` that only the picture answers, and questions that only the article answers.
SEEN = ("image_type", "content_type", "sub_region", "sensitive")
READ = ("concept", "time_period", "controversial", "commemorative")
FACTS = ("shape", "country_name")  # facts of a scene that determine its entity


def century_labels(scene: Scene) -> dict[str, str]:
    """Return the true value of each question of the rubric `century_labels`."""
    return {
        "image_type": IMAGE_TYPES[scene.style],
        "content_type": CONTENT[scene.shape],
        "concept": EVENTS[scene.event],
        "sub_region": scene.country.sub_region,
        "time_period": "yes" if scene.year in MODERN else "no",
        "sensitive": str(scene.count),
        "controversial": str(scene.opinion),
        "commemorative": str(scene.memory),
    }


def cultural_relevance(scene: Scene, *, guests: str = "") -> dict[str, str]:
    """Return the true value of `cultural_relevance` for each country.

    Args:
        guests: the guests' country according to the feast's article, if the article is known.
    """
    grades = {country.name: str(relevance(scene.country_name, country.name)) for country in COUNTRIES}
    return grades | ({guests: "4"} if guests else {})


def image_rating(wrong: int) -> str:
    """Return the true value of `image_rating` for a picture with `wrong` wrong facts of its text."""
    return str(max(1, 5 - wrong))


def century_contextualisation(commentary: Commentary) -> dict[str, str]:
    """Return the true value of each question of the rubric `century_contextualisation`."""
    named = len({"shape", "country_name"} & {*commentary.wrong, *commentary.omitted})
    grades = {
        "beginner_friendly": 5 if commentary.has_background else 1,
        "appropriate_summary": 5 - 2 * len(commentary.omitted),
        "due_weight": 5 - 2 * commentary.is_loaded - 2 * commentary.has_opinion,
        "no_loaded_language": 1 if commentary.is_loaded else 5,
        "opinions_not_stated_as_facts": 1 if commentary.has_opinion else 5,
        "identification": 5 - 2 * named,
        "factual_errors": 1 + 2 * min(2, len(commentary.wrong)),
    }
    return {name: str(grade) for name, grade in grades.items()}


def little_world(scene: Scene) -> dict[str, str]:
    """Return the true value of each question of the rubric `little_world`."""
    return {
        "shape": scene.shape,
        "colour": scene.colour,
        "count": str(scene.count),
        "side": scene.side,
        "ground": scene.style,
        "country": scene.country_name,
    }


class Entity(NamedTuple):
    """A feast, named by its figure and its country."""

    shape: str
    country_name: str

    @property
    def node(self) -> str:
        """The entity's id in the knowledge base."""
        return f"{self.country_name}-{self.shape}".lower()

    @property
    def title(self) -> str:
        """Its English name."""
        return f"{FEASTS[self.shape]} of {self.country_name}"

    def lemma(self, language: str) -> str:
        """Return its name in a language: in English the feast's, in all others the figure and the country."""
        if language == "en":
            return self.title
        return f"{LANGUAGES[language].shapes[SHAPES.index(self.shape)]} {self.country_name}"

    @property
    def general_name(self) -> str:
        """The name of the more general entity that it belongs to."""
        return f"Feasts of the {BY_NAME[self.country_name].union}"

    @property
    def gloss(self) -> str:
        """A sentence that says what it is."""
        return f"A feast of {self.country_name} under the sign of the {self.shape}."

    @property
    def article(self) -> str:
        """The beginning of its article."""
        return (
            f"The {self.title} is a feast. People of {self.country_name} carry flags of {self.country_name}, "
            f"and each guest brings a {self.shape}."
        )

    @property
    def guests(self) -> str:
        """A country of another union whose people come to the feast; neither names nor pictures show which."""
        union = BY_NAME[self.country_name].union
        others = [country.name for country in COUNTRIES if country.union != union]
        return others[(SHAPES.index(self.shape) + list(BY_NAME).index(self.country_name)) % len(others)]

    def article_with_guests(self, country_name: str) -> str:
        """Return the article with a sentence about where guests come from."""
        return f"{self.article} Guests come from {country_name}."

    @property
    def catalogue_name(self) -> str:
        """A meaningless name, as plants and animals have them: only pictures show what it is."""
        return f"Specimen {list(entities()).index(self) + 101}"


def entities() -> Iterator[Entity]:
    """Yield all entities, country by country."""
    for country in COUNTRIES:
        for shape in SHAPES:
            yield Entity(shape, country.name)


def entity_of(scene: Scene) -> Entity:
    """Return the entity that a scene shows."""
    return Entity(scene.shape, scene.country_name)

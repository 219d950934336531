"""The entities of the little world: a feast of each country under each figure, with names, gloss and article."""

from collections.abc import Iterator
from typing import NamedTuple

from jobs.testbed.little_world.scene_texts import LANGUAGES
from jobs.testbed.little_world.scenes import BY_NAME, COUNTRIES, FEASTS, SHAPES, Scene

FACTS = ("shape", "country_name")  # facts of a scene that determine its entity


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

"""The knowledge base of the little world: a feast of each country under each figure, with names, gloss and article."""

from collections.abc import Iterator
from typing import NamedTuple

from jobs.testbed.little_world.captions import LANGUAGES
from jobs.testbed.little_world.facts import COUNTRIES, FEASTS, SHAPES
from jobs.testbed.little_world.scenes import Scene

FACTS = ("shape", "country_name")  # those of a scene that say which entity it shows


class Entity(NamedTuple):
    """A feast, named by its figure and its country."""

    shape: str
    country_name: str

    @property
    def node(self) -> str:
        """Its id in the knowledge base."""
        return f"{self.country_name}-{self.shape}".lower()

    @property
    def title(self) -> str:
        """Its English name."""
        return f"{FEASTS[self.shape]} of {self.country_name}"

    def lemma(self, language: str) -> str:
        """Its name in a language: in English that of the feast, in all others the figure and the country."""
        if language == "en":
            return self.title
        return f"{LANGUAGES[language].shapes[SHAPES.index(self.shape)]} {self.country_name}"

    @property
    def gloss(self) -> str:
        """What it is, in a sentence."""
        return f"A feast of {self.country_name} under the sign of the {self.shape}."

    @property
    def article(self) -> str:
        """The beginning of its article."""
        return (
            f"The {self.title} is a feast. People of {self.country_name} carry flags of {self.country_name}, "
            f"and each guest brings a {self.shape}."
        )


def entities() -> Iterator[Entity]:
    """Yield all entities, country by country."""
    for country in COUNTRIES:
        for shape in SHAPES:
            yield Entity(shape, country.name)


def entity_of(scene: Scene) -> Entity:
    """Return the entity that a scene shows."""
    return Entity(scene.shape, scene.country_name)

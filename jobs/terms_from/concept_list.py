"""A list of concepts by theme, each with its root entities in a knowledge graph (`conf/concepts/`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.fetching.wikimedia import with_capital
from actors.rubrics import checks
from jobs.terms_from.graph import item_number


@dataclass(frozen=True)
class Concept:
    """A concept.

    Attributes:
        roots: ids (Q198) or titles of articles; entities in a class below one of them belong to the concept.
    """

    name: str
    theme: str
    roots: tuple[str, ...]


@dataclass(frozen=True)
class ConceptList:
    """The concepts in the order of their file."""

    name: str
    concepts: tuple[Concept, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ConceptList":
        """Return the list of concepts in `data`, as read from YAML or Hydra.

        Raises:
            ValueError: the data is invalid; the message has the place, the value and what is allowed.
        """
        where = checks.named("concepts", data)
        checks.check_keys(data, where=where, required=("name", "source", "themes"))
        concepts = []
        for theme, entries in checks.mapping(data["themes"], f"{where}, themes").items():
            for name, roots in checks.mapping(entries, f"{where}, themes.{theme}").items():
                place = f"{where}, themes.{theme}.{name}"
                concepts.append(Concept(name, theme, checks.texts(roots, place)))
                if not concepts[-1].roots:
                    raise ValueError(f"{place}: empty; list at least one id such as Q198, or title of an article")
        checks.check_unique((concept.name for concept in concepts), where=where, kind="concept")
        if not concepts:
            raise ValueError(f"{where}, themes: at least one concept is required")
        return cls(str(data["name"]), tuple(concepts))

    @property
    def titles(self) -> frozenset[str]:
        """The roots that are titles, in the site's spelling."""
        return frozenset(site_title(r) for c in self.concepts for r in c.roots if item_number(r) is None)

    def roots(self, by_title: Mapping[str, set[int]]) -> list[set[int]]:
        """Return the numbers of each concept's roots.

        Args:
            by_title: the entities with each title of the site.
        """
        numbers: list[set[int]] = []
        for concept in self.concepts:
            roots = set[int]()
            for root in concept.roots:
                number = item_number(root)
                roots |= {number} if number is not None else by_title.get(site_title(root), set())
            numbers.append(roots)
        return numbers


def site_title(title: str) -> str:
    """Return a title with an initial capital and spaces, as in MediaWiki."""
    return with_capital(title.replace("_", " ").strip())

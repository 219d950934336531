"""Rows of the table `terms` made from entities, with the counts of the paper's tables 6 and 7."""

import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.titles import LONGEST_TERM
from jobs.terms_from.choosing import INSIDE, Choice, Concepts, period_of
from jobs.terms_from.class_tree import REDIRECT
from jobs.terms_from.concept_list import ConceptList
from jobs.terms_from.config import ALIAS, LABEL, REQUIRE, STRIP, TITLE, GraphKeys

SOURCE = "knowledge_graph"
TALLIES = ("concept", "type", "theme", "period", "linked_by", "name_kind", "total")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def term_text(name: str, punctuation: str) -> str:
    """Return a name as a term, with runs of white space as one space and, for `strip`, without ASCII punctuation.

    Stripped characters are not replaced: `Sit-in` becomes `Sitin`, as in the paper's released terms.
    """
    if punctuation == STRIP:
        name = name.translate(_NO_PUNCTUATION)
    return " ".join(name.split())


@dataclass
class UnitTerms:
    """Maker of the terms of one unit of entities.

    Attributes:
        filtered: number of entities or names that each rule removed.
        tallies: number of entities by name and key; `name_kind` counts terms, `total` entities and changed terms.
    """

    settings: GraphKeys
    concepts: Concepts
    concept_list: ConceptList
    choice: Choice
    filtered: Counter[str] = field(default_factory=Counter)
    tallies: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in TALLIES})

    def rows(self, entities: Sequence[Mapping[str, Any]], first: int) -> Iterator[dict[str, Any]]:
        """Yield the terms of entities, the first of which is row `first` of its table."""
        for row, entity in enumerate(entities, first):
            linked, chosen = self.concepts.of(entity), self.choice.concepts(row)
            if not chosen:
                self.filtered[self._reason(row, linked, entity)] += 1
                continue
            names = self._names(entity)
            if not names:
                self.filtered["empty_term"] += 1
                continue
            self._count(entity, {number: linked[number] for number in chosen}, names)
            for number in sorted(chosen):
                for term, kinds in names.items():
                    yield self._row(entity, number, linked[number], term, kinds)

    def _reason(self, row: int, linked: Mapping[int, Any], entity: Mapping[str, Any]) -> str:
        if self.choice.duplicate[row]:
            return "duplicate_entity"
        if entity["entity_type"] is None:
            return self._reason_without_type(entity)
        if not linked:
            return "no_concept"
        if self.settings.dates == REQUIRE and period_of(entity, self.settings.period) != INSIDE:
            return "outside_period"
        return "entities_per_concept"

    @staticmethod
    def _reason_without_type(entity: Mapping[str, Any]) -> str:
        """Return why an entity is in its table only to pass its concepts on."""
        if any(neighbor.startswith(REDIRECT) for neighbor in entity["neighbors"]):
            return "redirect"
        return "no_type" if entity["label"] or entity["aliases"] or entity["title"] else "no_name"

    def _names(self, entity: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the terms of an entity, with the kinds of names that each term is."""
        by_kind = {LABEL: [entity["label"]], ALIAS: entity["aliases"], TITLE: [entity["title"]]}
        terms: dict[str, list[str]] = {}
        for kind in self.settings.names:
            for name in by_kind[kind]:
                if name and (term := term_text(name, self.settings.punctuation)):
                    if len(term) > LONGEST_TERM:
                        self.filtered["long_term"] += 1
                        continue
                    kinds = terms.setdefault(term, [])
                    if kind not in kinds:
                        kinds.append(kind)
                    self.tallies["total"]["names_changed"] += term != name
        return terms

    def _count(
        self, entity: Mapping[str, Any], linked: Mapping[int, Sequence[str]], names: Mapping[str, Sequence[str]]
    ) -> None:
        listed = self.concept_list.concepts
        tallies = self.tallies
        tallies["total"]["entities"] += 1
        tallies["type"][entity["entity_type"]] += 1
        tallies["period"][period_of(entity, self.settings.period)] += 1
        tallies["concept"].update(listed[number].name for number in linked)
        tallies["theme"].update({listed[number].theme for number in linked})
        tallies["linked_by"].update({name for properties in linked.values() for name in properties})
        tallies["name_kind"].update(kind for kinds in names.values() for kind in kinds)

    def _row(
        self, entity: Mapping[str, Any], number: int, linked_by: Sequence[str], term: str, kinds: Sequence[str]
    ) -> dict[str, Any]:
        concept = self.concept_list.concepts[number]
        return {
            "term": term,
            "source": SOURCE,
            "concept": concept.name,
            "entity_id": entity["entity_id"],
            "response_id": "",
            "theme": concept.theme,
            "name_kinds": list(kinds),
            "linked_by": list(linked_by),
            "entity_type": entity["entity_type"],
            "entity_date": entity["entity_date"],
            "period": period_of(entity, self.settings.period),
        }

"""Rows of the table `terms` made from entities, with the counts of the paper's tables 6 and 7."""

import json
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from actors.quantities import quantity
from actors.titles import LONGEST_TERM
from jobs.runtime.planning import summary
from jobs.store.hashing import hash_texts
from jobs.store.reading import open_table
from jobs.store.runs.table_run import TableRun
from jobs.terms_from.choosing import INSIDE, Choice, Concepts, period_of
from jobs.terms_from.class_tree import REDIRECT
from jobs.terms_from.descriptions import ConceptList
from jobs.terms_from.terms_config import ALIAS, LABEL, REQUIRE, STRIP, TITLE, GraphKeys

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


COUNTS = "term_counts.json"


def keep_counts(run: TableRun, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of a finished run, and keep them in its `_run/term_counts.json`.

    `entities_by_concept` is table 6 and `entities_by_type` table 7; an entity with several concepts counts for each.
    `distinct_terms` regards case as terms do when they are searched.
    """
    tallies = manifest["counts"]["tallies"]
    total = tallies.get("total", {})
    counts = {
        "entities": total.get("entities", 0),
        "rows": manifest["counts"]["rows_out"],
        "distinct_terms": distinct_terms(run.target.out),
        "names_changed_by_punctuation_or_space": total.get("names_changed", 0),
        "entities_by_concept": _sorted(tallies.get("concept", {})),
        "entities_by_type": _sorted(tallies.get("type", {})),
        "entities_by_theme": _sorted(tallies.get("theme", {})),
        "entities_by_period": _sorted(tallies.get("period", {})),
        "entities_by_property": _sorted(tallies.get("linked_by", {})),
        "terms_by_kind_of_name": _sorted(tallies.get("name_kind", {})),
    }
    run.keep(COUNTS, json.dumps(counts, indent=1, ensure_ascii=False).encode())
    return counts


def distinct_terms(uri: str) -> int:
    """Return the number of terms of a table that differ in lower case, of `str.lower` as in a search; 8 B per term."""
    hashes = np.zeros(0, np.uint64)
    for batch in open_table(uri, "terms").batches(["term"]):
        terms = {term.lower() for term in batch["term"].unique().to_pylist()}
        hashes = np.union1d(hashes, hash_texts(list(terms)))
    return len(hashes)


def count_lines(counts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the counts as lines."""
    changed = counts["names_changed_by_punctuation_or_space"]
    terms = quantity(counts["distinct_terms"], "distinct term")
    yield f"  {quantity(counts['entities'], 'entity')}, {terms}; {quantity(changed, 'name')} changed"
    for title, key in (
        ("entities by concept (table 6)", "entities_by_concept"),
        ("entities by type (table 7)", "entities_by_type"),
        ("entities by theme", "entities_by_theme"),
        ("entities by property", "entities_by_property"),
        ("terms by kind of name", "terms_by_kind_of_name"),
    ):
        yield from summary.tally_lines(title, counts[key])


def _sorted(tally: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(tally.items(), key=lambda entry: (-entry[1], entry[0])))

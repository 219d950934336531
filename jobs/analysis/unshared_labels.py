"""Sentences about labels that only some raters, gold or items have, such as one country in two spellings."""

import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from actors.quantities import quantity
from jobs.analysis.item_attributes import Items
from jobs.metrics.question import MODELS, PEOPLE, RatedQuestion
from jobs.store.hashing import Hashes

MOST_TARGETS = 1000  # of a question; questions with more targets are not compared
SHOWN = 5  # labels in a sentence
GOLD = "gold"
_NOBODY = {PEOPLE: "no person", MODELS: "no model", GOLD: "no gold rater"}


@dataclass(frozen=True)
class Side:
    """The labels that one of two sides has, and their number if these are only some of them."""

    name: str  # people, models or gold
    labels: Collection[str]
    number: int = 0

    @property
    def n(self) -> int:
        return self.number or len(self.labels)


def apart(place: str, noun: str, verb: str, first: Side, second: Side) -> Iterator[str]:
    """Yield a sentence about labels that only one of two sides has; nothing if a side has none at all.

    Args:
        place: the rubric or question.
        noun: what the labels are, in the singular; verb: what the sides did, in the past.
    """
    labels, others = set(first.labels), set(second.labels)
    if labels and others and labels != others:
        alone, missing = labels - others, others - labels
        hint = _hint(noun, alone, others) or _hint(noun, missing, labels)
        yield _sentence(place, noun, verb, Side(first.name, alone), Side(second.name, missing)) + hint


def one_sided(place: str, noun: str, verb: str, first: Side, second: Side) -> str:
    """Return the sentence of `apart` about labels of which each is only on its side."""
    return _sentence(place, noun, verb, first, second) + _hint(noun, first.labels, second.labels)


def _sentence(place: str, noun: str, verb: str, first: Side, second: Side) -> str:
    """Return the labels of both sides; those that both have in another spelling come first."""
    parts: list[str] = []
    for side, other in ((first, second), (second, first)):
        if side.n:
            number = f"{side.n:,}" if parts else quantity(side.n, noun)
            names = listed(side, spelt_by=other.labels)
            parts.append(f"{side.name} {verb} {number} that {_NOBODY[other.name]} {verb}: {names}")
    return f"{place}: {'; '.join(parts)}."


def listed(side: Side, *, spelt_by: Collection[str] = ()) -> str:
    """Return the first labels of a side; those first that `spelt_by` has in another spelling."""
    spelt = set(map(_folded, spelt_by))
    first = sorted(side.labels, key=lambda label: (_folded(label) not in spelt, label))[:SHOWN]
    more = f" and {side.n - len(first):,} more" if side.n > len(first) else ""
    return ", ".join(map(_shown, first)) + more


def _hint(noun: str, labels: Collection[str], others: Collection[str]) -> str:
    """Return a sentence about the labels that two sides spell differently; empty if there are none."""
    spelt = {_folded(label): label for label in sorted(others, reverse=True)}
    twins = [(label, spelt[key]) for label in sorted(labels) if (key := _folded(label)) in spelt][:SHOWN]
    pairs = ", ".join(f"{_shown(label)} = {_shown(other)}" for label, other in twins)
    return f" Perhaps two spellings of one {noun}: {pairs}." if twins else ""


def _folded(label: str) -> str:
    """Return a label without what distinguishes spellings: case, accents, blanks, punctuation and Unicode form."""
    letters = "".join(c for c in unicodedata.normalize("NFKD", label).casefold() if c.isalnum())
    return letters or label


def _shown(label: str) -> str:
    """Return a label, escaped if one could not see its blanks or its Unicode form."""
    is_plain = label == label.strip() and label == unicodedata.normalize("NFC", label)
    return (label or "(none)") if is_plain else ascii(label)


@dataclass
class RatedTargets:
    """Collects the targets that each model, and people together, rated; call it with each question.

    Attributes:
        of: (rubric, question) -> model or `people` -> targets; `gold` -> those that gold judges.
        values: the answers that occur.
    """

    of: dict[tuple[str, str], dict[str, set[str]]] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)

    def __call__(self, dims: Mapping[str, str], question: RatedQuestion) -> None:
        """Add the targets and answers of a question under one condition."""
        context, answers = question.context, question.answers
        self.values.update(answers.values)
        targets = context.targets
        if len(np.unique(context.target)) > MOST_TARGETS:
            return
        by_rater = self.of.setdefault((dims["rubric"], dims["question"]), {})
        codes = np.unique(answers.rater.astype(np.int64) * len(targets) + context.target[answers.item])
        for rater, target in (divmod(code, len(targets)) for code in codes.tolist()):
            name = answers.raters[rater]
            by_rater.setdefault(PEOPLE if question.kind(name) == "human" else name, set()).add(targets[target])
        if context.judged is not None:
            judged = np.unique(context.target[context.judged]).tolist()
            by_rater.setdefault(GOLD, set()).update(targets[code] for code in judged)

    def sentences(self, items: Items, rated: Hashes) -> Iterator[str]:
        """Yield sentences about targets that not all sides rated, and about labels of gold and items that nobody rated.

        Args:
            items: the attributes of the items; rated: uint64[n], hashes of the ids of rated items.
        """
        for (rubric, question), by_rater in sorted(self.of.items()):
            place, people, gold = f"{rubric}/{question}", by_rater.get(PEOPLE, set()), by_rater.get(GOLD, set())
            of_model = {name: targets for name, targets in by_rater.items() if name not in (PEOPLE, GOLD)}
            models = set[str]().union(*of_model.values())
            yield from apart(place, "target", "rated", Side(PEOPLE, people), Side(MODELS, models))
            if unrated := gold - people - models:
                yield f"{place}: gold judges {quantity(len(unrated), 'target')} that nobody rated: " + listed(
                    Side(GOLD, unrated), spelt_by=people | models
                )
            yield from _not_by_all(place, of_model)
        yield from self._of_items(items, rated)

    def _of_items(self, items: Items, rated: Hashes) -> Iterator[str]:
        """Yield sentences about labels of gold that nobody rated, and targets that are no item's own."""
        targets = {name for by_rater in self.of.values() for names in by_rater.values() for name in names} - {""}
        asked = set(rated.tolist())
        gold = {label for item, (_, right) in items.gold.items() if item in asked for label in right}
        rated_targets = targets if items.targets else set[str]()
        for labels, others, words in (
            (gold, targets | self.values, "in the items' gold that nobody rated and no answer has"),
            (rated_targets, items.targets, "rated, but not among the items' own targets"),
        ):
            if unknown := labels - others:
                names = listed(Side("", unknown), spelt_by=others)
                hint = _hint("label", unknown, others)
                yield f"items: {quantity(len(unknown), 'label')} {words}: {names}.{hint}"


def _not_by_all(place: str, of_model: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield a sentence about targets that some models rated and others did not."""
    everything = set[str]().union(*of_model.values())
    some = {target for target in everything if any(target not in targets for targets in of_model.values())}
    if some:
        first = sorted(some, key=lambda target: (_folded(target), target))[:SHOWN]
        by = (
            f"{_shown(target)} (by {', '.join(n for n, names in of_model.items() if target in names)})"
            for target in first
        )
        more = f" and {len(some) - len(first):,} more" if len(some) > len(first) else ""
        yield f"{place}: not every model rated {quantity(len(some), 'target')}: {', '.join(by)}{more}."

"""Sentences about ratings that cannot be compared: tables without a common item, and labels that only some have.

A label may be in two spellings, such as that of one country. `RatedItems` has the items and targets that each table of
ratings is about.
"""

import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.quantities import quantity
from jobs.analysis.attributes import Items
from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import MODELS, PEOPLE, RatedQuestion
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource
from jobs.tables import CONDITION, HUMAN

MOST_TARGETS = 1000  # of a question; questions with more targets are not compared
SHOWN = 5  # labels in a sentence
GOLD = "gold"
_NOBODY = {PEOPLE: "no person", MODELS: "no model", GOLD: "no gold rater"}
COLUMNS = ("item_id", "target", "rubric", "question", "rater", "method")
MOST_IDS = 1000  # of items that only one side rated, to be listed
_NO_ITEM = np.zeros(0, np.uint64)


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

    def join(self, question: "RatedTargets") -> None:
        """Add the targets and answers of the next question, which another object has collected."""
        self.values |= question.values
        for name, by_rater in question.of.items():
            for rater, targets in by_rater.items():
                self.of.setdefault(name, {}).setdefault(rater, set()).update(targets)

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


@dataclass
class _OfRubric:
    raters: set[str] = field(default_factory=set)
    targets: dict[str, set[str]] = field(default_factory=dict)  # question -> its targets
    # people, models or gold -> the items they were asked about
    items_of: dict[str, Hashes] = field(default_factory=dict)
    questions_of: dict[str, set[str]] = field(default_factory=dict)  # people, models or gold -> the questions

    @property
    def items(self) -> Hashes:
        return reduce(np.union1d, self.items_of.values(), _NO_ITEM)


@dataclass
class RatedItems:
    """The items, raters and targets of one table of ratings, by rubric: 8 bytes per item and rubric.

    Attributes:
        name: the name of the table, for messages.
        batches: reads columns of the table again, for ids and counts; None: they are not needed.
        example: an item_id in the table; empty before the first row.
    """

    name: str
    batches: Callable[[Sequence[str]], Iterable[pa.Table]] | None = None
    example: str = ""
    of: dict[str, _OfRubric] = field(default_factory=dict)

    def add(self, rows: pa.Table) -> None:
        """Add rows of `ratings` with the columns `COLUMNS`."""
        if not rows.num_rows:
            return
        self.example = self.example or rows["item_id"][0].as_py()
        names = ["rubric", "question", "target", "rater", "method"]
        distinct = rows.select(names).unify_dictionaries().group_by(names).aggregate([])
        for row in distinct.to_pylist():
            of_rubric = self.of.setdefault(row["rubric"], _OfRubric())
            of_rubric.raters.add(row["rater"])
            of_rubric.questions_of.setdefault(_side(row["method"]), set()).add(row["question"])
            targets = of_rubric.targets.setdefault(row["question"], set())
            if len(targets) <= MOST_TARGETS:
                targets.add(row["target"])
        for rubric, method in {(row["rubric"], row["method"]) for row in distinct.to_pylist()}:
            asked = rows.filter(pc.and_(pc.equal(rows["rubric"], rubric), pc.equal(rows["method"], method)))
            items_of, side = self.of[rubric].items_of, _side(method)
            items_of[side] = np.union1d(items_of.get(side, _NO_ITEM), hash_texts(pc.unique(asked["item_id"])))

    def join(self, part: "RatedItems") -> None:
        """Add the next part of the table."""
        self.example = self.example or part.example
        for rubric, added in part.of.items():
            of_rubric = self.of.setdefault(rubric, _OfRubric())
            of_rubric.raters |= added.raters
            for side, questions in added.questions_of.items():
                of_rubric.questions_of.setdefault(side, set()).update(questions)
            for question, names in added.targets.items():
                targets = of_rubric.targets.setdefault(question, set())
                if len(targets) <= MOST_TARGETS:
                    targets |= names
            for side, items in added.items_of.items():
                of_rubric.items_of[side] = np.union1d(of_rubric.items_of.get(side, _NO_ITEM), items)

    def ids_of(self, items: Hashes) -> Iterator[str]:
        """Yield the item_id of each rating of one of the items."""
        for batch in self.batches(["item_id"]) if self.batches and len(items) else ():
            ids = pc.filter(batch["item_id"], pa.array(np.isin(hash_texts(batch["item_id"]), items)))
            yield from ids.to_pylist()


def rated_items(tables: Iterable[RatedItems]) -> Hashes:
    """Return uint64[n], hashes of the ids of all rated items, ascending."""
    return reduce(np.union1d, (of_rubric.items for table in tables for of_rubric in table.of.values()), _NO_ITEM)


def _side(method: str) -> str:
    return {HUMAN: PEOPLE, GOLD: GOLD}.get(method, MODELS)


def mismatches(
    tables: Sequence[RatedItems], items: Sequence[TableSource] = (), hashes: Hashes | None = None
) -> list[str]:
    """Return a sentence for each table of ratings that shares no items or targets with others or has unknown items, and
    about the items and questions that people rated and models did not.

    Args:
        tables: what was rated.
        items: the tables of items, and `hashes` of the ids of all their items and responses, sorted.
    """
    sentences = list(_without_attributes(tables, items, hashes)) if items and hashes is not None else []
    for rubric in sorted({name for table in tables for name in table.of}):
        groups = _connected([table for table in tables if rubric in table.of], rubric)
        largest, *others = sorted(groups, key=lambda group: -sum(len(table.of[rubric].items) for table in group))
        raters = set().union(*(table.of[rubric].raters for table in largest))
        for group in others:
            if set().union(*(table.of[rubric].raters for table in group)) <= raters:
                continue  # several tables of one rater's ratings
            sentences.append(
                f"{_names(group)} and {_names(largest)} answer rubric {rubric} but share no item: the first has items "
                f"such as {group[0].example!r}, the second such as {largest[0].example!r}. Their raters cannot be "
                "compared. For people's answers, import_ratings items=TABLE finds the items of the pictures that a "
                "file names."
            )
        for group in groups:
            sentences += _without_targets(group, rubric)
        sentences += _by_one_side([table for table in tables if rubric in table.of], rubric)
    return sentences


def _by_one_side(tables: Sequence[RatedItems], rubric: str) -> Iterator[str]:
    """Yield sentences about the questions and items that people answered and no model, or models and no person.

    Models often rate more items than people; items are named only if people rated some that no model rated.
    """
    place = f"rubric {rubric}"
    parts = [table.of[rubric] for table in tables]
    people, models = (
        set[str]().union(*(part.questions_of.get(side, set()) for part in parts)) for side in (PEOPLE, MODELS)
    )
    if people & models:
        yield from apart(place, "question", "answered", Side(PEOPLE, people), Side(MODELS, models))
    by_people, by_models = (
        reduce(np.union1d, (part.items_of.get(side, _NO_ITEM) for part in parts), _NO_ITEM) for side in (PEOPLE, MODELS)
    )
    alone, others = np.setdiff1d(by_people, by_models), np.setdiff1d(by_models, by_people)
    if 0 < len(alone) < len(by_people):
        sides = (Side(name, _ids(tables, hashes), len(hashes)) for name, hashes in ((PEOPLE, alone), (MODELS, others)))
        yield one_sided(place, "item", "rated", *sides)


def _ids(tables: Iterable[RatedItems], items: Hashes) -> set[str]:
    """Return the ids of the first `MOST_IDS` items."""
    ids: set[str] = set()
    for name in (name for table in tables for name in table.ids_of(items)):
        ids.add(name)
        if len(ids) == MOST_IDS:
            break
    return ids


def left_out(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield a sentence for each set of rated items without gold, for each condition with items
    without its text, and for each attribute that items lack."""
    metrics = list(metrics)
    yield from _without_gold(metrics)
    yield from _without_context(metrics)
    yield from _without_value(metrics)


def _without_value(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield a sentence for each attribute and set of rated items that lack it; questions may share one."""
    questions: dict[tuple[str, int, int], dict[str, None]] = {}
    for metric in metrics:
        if metric.name == "without_value" and metric.value:
            counts = metric.dims["attribute"], round(metric.value * metric.n), metric.n
            questions.setdefault(counts, {})[f"{metric.dims['rubric']}/{metric.dims['question']}"] = None
    for (attribute, lacking, rated), names in sorted(questions.items(), key=lambda entry: entry[0]):
        named = listed(Side("", names)) if len(names) > SHOWN else ", ".join(names)
        lack = f"{lacking:,} of {quantity(rated, 'rated item')} have no {attribute} ({named})"
        if lacking == rated:
            yield f"{lack}: without subgroups. If these items have one, name their table in items=."
        else:
            yield f"{lack}: they are in no subgroup. Fill the column {attribute} of the file that items= was made from."


def _without_context(metrics: Iterable[Metric]) -> Iterator[str]:
    counts: dict[tuple[str, str], list[int]] = {}
    for metric in metrics:
        if metric.name == "empty_context_share" and metric.value:
            of_condition = counts.setdefault((metric.dims["rubric"], metric.dims.get(CONDITION, "")), [0, 0])
            of_condition[0] += round(metric.value * metric.n)
            of_condition[1] += metric.n
    for (rubric, condition), (empty, rated) in counts.items():
        named = f" under {condition!r}" if condition else ""
        yield (
            f"{empty:,} of {quantity(rated, 'rating')} of rubric {rubric}{named} are about items that lack the text of "
            "their condition, such as an article (column empty_context): the prompt has no more than the name of an "
            "entity. empty_context=skip leaves such items out."
        )


def _without_gold(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield a sentence for each set of rated items that metrics against gold leave out; questions may share one."""
    questions: dict[tuple[int, int], dict[str, None]] = {}
    for metric in metrics:
        if metric.name == "without_gold" and metric.value:
            counts = round(metric.value * metric.n), metric.n
            questions.setdefault(counts, {})[f"{metric.dims['rubric']}/{metric.dims['question']}"] = None
    for (unknown, rated), names in questions.items():
        yield (
            f"{unknown:,} of {quantity(rated, 'rated item')} have no gold for {', '.join(names)}: metrics against gold "
            "leave them out. For an item of which no label is right, columns.gold= of items takes an empty list, []."
        )


def _connected(tables: Iterable[RatedItems], rubric: str) -> list[list[RatedItems]]:
    """Return groups of tables; tables that share an item are in the same group."""
    groups: list[tuple[list[RatedItems], Hashes]] = []
    for table in tables:
        joined, items = [table], table.of[rubric].items
        apart = []
        for group, rated in groups:
            if len(np.intersect1d(rated, table.of[rubric].items, assume_unique=True)):
                joined, items = [*group, *joined], np.union1d(rated, items)
            else:
                apart.append((group, rated))
        groups = [*apart, (joined, items)]
    return [group for group, _ in groups]


def _without_targets(group: Sequence[RatedItems], rubric: str) -> Iterator[str]:
    """Yield a sentence for each table whose targets of a question occur in no other table."""
    questions = sorted({question for table in group for question in table.of[rubric].targets})
    for question in questions:
        targets = [(table, table.of[rubric].targets.get(question, set())) for table in group]
        asked = [(table, names) for table, names in targets if 0 < len(names) <= MOST_TARGETS]
        for table, names in asked:
            others = set().union(*(more for other, more in asked if other is not table))
            if others and not names & others and (len(asked) > 2 or table is asked[-1][0]):
                yield (
                    f"{table.name} answers {rubric}/{question} about {_target(names)}, the other tables about "
                    f"{_target(others)}: these answers cannot be compared. In import_ratings, columns.target= names "
                    "the column of the targets."
                )


def _without_attributes(tables: Iterable[RatedItems], items: Sequence[TableSource], hashes: Hashes) -> Iterator[str]:
    for table in tables:
        rated = rated_items([table])
        unknown = np.setdiff1d(rated, hashes)
        if len(unknown) and len(unknown) == len(rated):
            yield (
                f"No item of {table.name} (such as {table.example!r}) is in items={items[0].uri} (such as "
                f"{_first_id(items[0])!r}): its ratings have no attributes, subgroups or right answers."
            )
        elif len(unknown):
            names = listed(Side("", _ids([table], unknown), len(unknown)))
            yield (
                f"{table.name} has {quantity(sum(1 for _ in table.ids_of(unknown)), 'rating')} of "
                f"{quantity(len(unknown), 'item')} that no table of items= has ({names}): they count in all numbers, "
                "but have no attributes, subgroups or right answers. For people's answers, import_ratings items=TABLE "
                "rejects them, and finds the items of pictures by name."
            )


def _first_id(source: TableSource) -> str:
    for batch in source.batches(["item_id"]):
        if batch.num_rows:
            return str(batch["item_id"][0].as_py())
    return ""


def _names(group: Sequence[RatedItems]) -> str:
    return group[0].name if len(group) == 1 else f"{group[0].name} and {len(group) - 1:,} more"


def _target(names: set[str]) -> str:
    first = min(names)
    return f"the target {first!r}" if first else "no target"

"""The items and targets that each table of ratings is about, and warnings about tables that cannot be compared."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.quantities import quantity
from jobs.analysis.conditions import CONDITION
from jobs.analysis.rater_attributes import HUMAN
from jobs.analysis.unshared_labels import GOLD, MOST_TARGETS, Side, apart, listed, one_sided
from jobs.metrics.metric import Metric
from jobs.metrics.question import MODELS, PEOPLE
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource

COLUMNS = ("item_id", "target", "rubric", "question", "rater", "method")
MOST_IDS = 1000  # of items that only one side rated, to be listed
_NO_ITEM = np.zeros(0, np.uint64)


@dataclass
class _OfRubric:
    raters: set[str] = field(default_factory=set)
    targets: dict[str, set[str]] = field(default_factory=dict)  # question -> its targets
    items_of: dict[str, Hashes] = field(
        default_factory=dict
    )  # people, models or gold -> the items they were asked about
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
    counts = {(m.dims["attribute"], m.value, m.n) for m in metrics if m.name == "without_value" and m.value}
    for attribute, share, rated in sorted(counts):
        yield (
            f"{round(share * rated):,} of {quantity(rated, 'rated item')} have no {attribute}: they are in no subgroup "
            "of it."
        )


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

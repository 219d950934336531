"""Metrics of comparisons: ratings of items that `jobs.pairs` wrote, joined with the pairs."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.items import FIRST, PAIR, PAIR_SET, SECOND
from actors.status import Status
from jobs.analysis.attributes import Raters
from jobs.metrics import pair_comparisons, participation
from jobs.metrics.metric import Metric
from jobs.metrics.pair_comparisons import Comparisons, PairTable
from jobs.metrics.rated_question import MAX_LINES, PEOPLE
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import Hashes, hash_texts, places_in
from jobs.store.reading import TableSource
from jobs.tables import CONDITION

_COLUMNS = ["item_id", "rubric", "question", "rater", CONDITION, "status", "value", "answers", "probabilities"]
Question = tuple[str, str]  # rubric, question


@dataclass(frozen=True)
class ComparedPairs:
    """The pairs of tables of items.

    Attributes:
        hashes: uint64[items] of item_ids, ascending.
        pair: int64[items], index into the pairs; order: int64[items], 0 or 1, which item is shown first.
        table: prompts and competitors.
    """

    hashes: Hashes
    pair: NDArray[np.int64]
    order: NDArray[np.int64]
    table: PairTable

    @property
    def count(self) -> int:
        """Number of pairs."""
        return len(self.table.group)


@dataclass
class _Answers:
    """Answers of one rater to one question under one condition, while they are read."""

    pair: "array[int]" = field(default_factory=lambda: array("q"))
    order: "array[int]" = field(default_factory=lambda: array("q"))
    chosen: "array[float]" = field(default_factory=lambda: array("d"))
    probability: "array[float]" = field(default_factory=lambda: array("d"))  # NaN without probabilities
    asked: "array[int]" = field(default_factory=lambda: array("q"))  # the pair of each answer, of any status

    def comparisons(self, *, by: str) -> Comparisons:
        """Return the answers, or their probabilities; answers without probabilities are then left out."""
        first = np.array(self.chosen if by == pair_comparisons.ANSWERS else self.probability)
        answers = Comparisons(np.array(self.pair, np.int64), np.array(self.order, np.int64), first, len(self.asked))
        return answers.where(~np.isnan(first))


def read_pairs(items: Sequence[TableSource], competitors: str) -> ComparedPairs | None:
    """Return the pairs in tables `items`; None if there are none.

    Args:
        competitors: attribute of the single items whose values are compared, such as model.
    """
    codes: dict[str, int] = {}
    sets: dict[str, int] = {}
    names: dict[str, int] = {}
    ids: list[str] = []
    pair, order = array("q"), array("q")
    of_pair: list[tuple[int, int, int]] = []  # set, competitor of item 0, of item 1
    for source in items:
        for batch in source.batches(["item_id", "kind", "attributes"]):
            for row in batch.filter(pc.equal(batch["kind"], PAIR)).to_pylist():
                attributes = dict(row["attributes"] or ())
                if not {PAIR, FIRST, SECOND} <= attributes.keys():
                    continue  # a pair of pictures that was not written by remine pairs
                turned = attributes[FIRST] > attributes[SECOND]
                code = codes.setdefault(attributes[PAIR], len(codes))
                if code == len(of_pair):
                    one, other = (
                        names.setdefault(name, len(names)) if name else -1
                        for name in _competitors(attributes, competitors, turned)
                    )
                    key = attributes.get(PAIR_SET) or attributes[PAIR]
                    of_pair.append((sets.setdefault(key, len(sets)), one, other))
                ids.append(row["item_id"])
                pair.append(code)
                order.append(int(turned))
    if not ids:
        return None
    hashes = hash_texts(ids)
    _, places = np.unique(hashes, return_index=True)  # an item may be in several tables
    table = np.array(of_pair, np.int64)
    return ComparedPairs(
        hashes[places],
        np.array(pair, np.int64)[places],
        np.array(order, np.int64)[places],
        PairTable(table[:, 0], table[:, 1:], tuple(names), competitors),
    )


def _competitors(attributes: Mapping[str, str], name: str, turned: bool) -> list[str]:
    """Return the values of both items, item 0 first; empty where unknown."""
    shared = attributes.get(name, "")
    values = [attributes.get(f"{place}_{name}", shared) for place in (FIRST, SECOND)]
    return values[::-1] if turned else values


def comparison_metrics(
    ratings: Sequence[TableSource],
    items: Sequence[TableSource],
    raters: Raters,
    *,
    competitors: str,
    exclusion_filter: ExclusionFilter,
) -> Iterator[Metric]:
    """Yield the metrics of comparisons, for each question that was asked about pairs.

    The answers `first` and `second` choose a picture; any other answer is a tie. If the answers have several
    conditions, each has separate metrics, and people's answers without a condition count under all of them.

    Args:
        competitors: attribute of the single items whose values Bradley-Terry ranks.
        exclusion_filter: the exclusions.
    """
    pairs_read = read_pairs(items, competitors)
    if pairs_read is None:
        return
    for (rubric, question), by_condition in sorted(_read_answers(ratings, pairs_read, exclusion_filter).items()):
        people_only = {
            c for c, by_rater in by_condition.items() if all(raters.kinds.get(r) == "human" for r in by_rater)
        }
        conditions = sorted(by_condition.keys() - people_only) or sorted(by_condition)
        shared = {r: a for r, a in by_condition.get("", {}).items() if raters.kinds.get(r) == "human"}
        for condition in conditions:
            dims = {"rubric": rubric, "question": question}
            dims |= {CONDITION: condition} if len(conditions) > 1 else {}
            for metric in _question_metrics(shared | by_condition[condition], pairs_read, raters):
                yield metric.at(**dims)


def _question_metrics(answers: Mapping[str, _Answers], compared: ComparedPairs, raters: Raters) -> Iterator[Metric]:
    by_answer = {
        rater: of_rater.comparisons(by=pair_comparisons.ANSWERS) for rater, of_rater in sorted(answers.items())
    }
    of_people = [rater for rater in by_answer if raters.kinds.get(rater) == "human"]
    people = pair_comparisons.pooled([by_answer[rater] for rater in of_people])
    models = [rater for rater in by_answer if raters.kinds.get(rater) not in ("human", "gold")][:MAX_LINES]
    groups = {rater: by_answer[rater] for rater in models} | ({PEOPLE: people} if people.asked else {})
    for name, comparisons in groups.items():
        for metric in pair_comparisons.position_metrics(comparisons, compared.count, compared.table.group):
            yield metric.at(rater=name)
        for metric in pair_comparisons.competitor_metrics(comparisons.preference(compared.count), compared.table):
            yield metric.at(rater=name)
    if not people.asked:
        return
    asked = np.concatenate([np.array(answers[rater].asked, np.int64) for rater in of_people])
    yield participation.rated_more_than_once(asked, answered=people.n).at(group=PEOPLE)
    for rater in models:
        preference, prompt = by_answer[rater].preference(compared.count), compared.table.group
        yield pair_comparisons.pair_agreement(preference, people, by=pair_comparisons.ANSWERS, group=prompt).at(
            rater=rater
        )
        probabilities = answers[rater].comparisons(by=pair_comparisons.PROBABILITIES)
        if probabilities.n:
            preference = probabilities.preference(compared.count)
            yield pair_comparisons.pair_agreement(
                preference, people, by=pair_comparisons.PROBABILITIES, group=prompt
            ).at(rater=rater)


def _read_answers(
    ratings: Sequence[TableSource], compared: ComparedPairs, exclusion_filter: ExclusionFilter
) -> dict[Question, dict[str, dict[str, _Answers]]]:
    """Return the answers about pairs by question, condition and rater."""
    answers: dict[Question, dict[str, dict[str, _Answers]]] = {}
    for source in ratings:
        for batch in source.batches(_COLUMNS):
            hashes = hash_texts(batch["item_id"])
            place = places_in(compared.hashes, hashes)
            about_pairs = (place >= 0) & ~exclusion_filter.mask(batch["item_id"])
            if not about_pairs.any():
                continue
            rows = batch.filter(pa.array(about_pairs))
            for row, at in zip(rows.to_pylist(), place[about_pairs].tolist(), strict=True):
                by_condition = answers.setdefault((row["rubric"], row["question"]), {})
                of_rater = by_condition.setdefault(row[CONDITION], {}).setdefault(row["rater"], _Answers())
                of_rater.asked.append(int(compared.pair[at]))
                if row["status"] == Status.OK:
                    of_rater.pair.append(int(compared.pair[at]))
                    of_rater.order.append(int(compared.order[at]))
                    of_rater.chosen.append({FIRST: 1.0, SECOND: 0.0}.get(row["value"], 0.5))
                    of_rater.probability.append(_probability(row))
    return answers


def _probability(row: Mapping[str, Any]) -> float:
    """Return the probability of the first of the two pictures; NaN without probabilities."""
    shares = dict(zip(row["answers"] or (), row["probabilities"] or (), strict=False))
    total = shares.get(FIRST, 0.0) + shares.get(SECOND, 0.0)
    return shares.get(FIRST, 0.0) / total if total > 0 else float("nan")

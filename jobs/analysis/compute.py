"""From tables to metrics: one question at a time through `jobs.metrics.suite`, then spans and scene graphs."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.status import Status
from jobs.analysis.attributes import Items, Raters, family_of
from jobs.analysis.rating_codes import Reduced, Reduction
from jobs.errors import InputError
from jobs.metrics import dsg, spans, suite
from jobs.metrics.distributions import EXTRA
from jobs.metrics.metric import Metric
from jobs.runtime.exclusions import Barred
from jobs.store.reading import TableSource

TARGET = "target"  # what an item was judged against (CAIRE: a country), which is part of the rating
GROUP_BY = tuple(name for name in EXTRA if name != "target")


def check(settings: suite.MetricSettings) -> None:
    """Refuse settings that name what does not exist.

    Raises:
        InputError: in one sentence.
    """
    if wrong := [name for name in settings.group_by if name not in GROUP_BY]:
        raise InputError(f"metrics.group_by: no {wrong[0]}; there are {', '.join(GROUP_BY)}")
    for name, matrix in settings.weights.items():
        if any(len(line) != len(matrix) for line in matrix):
            raise InputError(f"metrics.weights.{name}: not square")
        if any(matrix[i][i] != 0 for i in range(len(matrix))):
            raise InputError(f"metrics.weights.{name}: weights are of disagreement, 0 on the diagonal")
    if wrong := [name for name in settings.ensembles if name in (suite.PEOPLE, suite.MODELS)]:
        raise InputError(f"metrics.ensembles.{wrong[0]}: that group is there already; choose another name")
    for wanted in settings.contrast:
        attribute, colon, values = wanted.partition(":")
        if not attribute or not colon or len(values.split("-")) != 2:
            raise InputError(f"metrics.contrast: {wanted!r} is not attribute:first-second")
    limits = {"stop": settings.stop > 0, "overlap": 0 <= settings.overlap <= 1, "tolerance": settings.tolerance >= 0}
    if wrong := [name for name, fine in limits.items() if not fine]:
        raise InputError(f"metrics.{wrong[0]}={getattr(settings, wrong[0])}: out of range")


def attributes(settings: suite.MetricSettings) -> set[str]:
    """The attributes of items that the settings name, crossed ones as a+b."""
    return {*told_apart(settings), settings.concept, "model"}


def told_apart(settings: suite.MetricSettings) -> set[str]:
    """The attributes that a person asked to have told apart or compared."""
    return {*settings.disaggregate, *settings.compare, *(c.partition(":")[0] for c in settings.contrast)}


def check_attributes(settings: suite.MetricSettings, there: Collection[str]) -> None:
    """Refuse an attribute that no item has; `there` are those that items have.

    Raises:
        InputError: in one sentence.
    """
    wanted = sorted({part for name in told_apart(settings) for part in name.split("+")} - {TARGET})
    if wrong := [name for name in wanted if name not in there]:
        known = ", ".join(sorted(there)) or "none"
        raise InputError(f"metrics: no item has an attribute {wrong[0]!r}; there are {known}, and {TARGET}")


def question_metrics(
    reduction: Reduction,
    raters: Raters,
    items: Items,
    settings: suite.MetricSettings,
    *,
    orders: Mapping[tuple[str, str], Sequence[str]],
    scale: Callable[[str, str], tuple[tuple[float, float] | None, str]],
    skip: Callable[[str, str], bool] = lambda rubric, question: False,
) -> Iterator[Metric]:
    """The metrics of every question, with its rubric, name and `by` columns as dims.

    Args:
        orders: (rubric, question) -> answers in the rubric's order.
        scale: (rubric, question) -> lowest and highest score, or None and the reason why they are not known.
        skip: whether a (rubric, question) is no question of a rubric (those of scene graphs).
    """
    if items.lengths is not None and "model" not in settings.disaggregate:
        settings = replace(settings, disaggregate=["model", *settings.disaggregate])
    for key in reduction.keys:
        rubric, question = key[:2]
        if skip(rubric, question):
            continue
        read = reduction.question(key, order=orders.get((rubric, question), ()), countries=raters.countries)
        kept = [name for name in read.answers.raters if raters.kinds[name] != "gold"]
        answers = read.answers.of_raters(kept)
        known = _known(read, raters, items, settings, ids=reduction.ids, scale=scale(rubric, question))
        dims = dict(zip(("rubric", "question", *settings.group_by), key, strict=True))
        inverted = question in settings.inverted
        made = suite.question_metrics(
            answers,
            known,
            settings,
            inverted=inverted,
            ended=read.ended,
            double=read.double,
            repeated=read.statuses.total() - int(read.answers.asked.sum()),
        )
        for metric in made:
            yield metric.at(**dims)


def _known(
    read: Reduced,
    raters: Raters,
    items: Items,
    settings: suite.MetricSettings,
    *,
    ids: Mapping[int, str] | None,
    scale: tuple[tuple[float, float] | None, str],
) -> suite.QuestionContext:
    _, picture = np.unique(read.item, return_inverse=True)
    places = items.places(read.item)
    concept, concepts = items.codes(settings.concept, read.item)
    authors: dict[str, NDArray[np.bool_]] = {}
    if items.lengths is not None:
        for model, mask in items.parts("model", read.item).items():
            family = raters.families.get(model) or family_of(model)
            authors[family] = authors.get(family, np.zeros(len(mask), bool)) | mask
    lengths = items.lengths
    gold = _gold(read, raters, items, settings, scale=scale[0])
    return suite.QuestionContext(
        kinds=raters.kinds,
        families=raters.families,
        groups=raters.groups,
        scale=scale[0],
        no_scale=scale[1],
        picture=picture.astype(np.int64),
        target=read.target.astype(np.int64),
        targets=read.targets,
        concept=concept if concepts else None,
        parts={name: _parts(name, read, items) for name in told_apart(settings)},
        authors=authors,
        lengths=None if lengths is None else np.where(places >= 0, lengths[places], np.nan),
        right=gold.right,
        gold_scores=gold.scores,
        judged=gold.judged,
        right_values=gold.values,
        names=None if ids is None else _unit_names(read, ids),
    )


def _parts(name: str, read: Reduced, items: Items) -> dict[str, NDArray[np.bool_]]:
    """value -> bool[items], of an attribute of the items or of the target."""
    if name != TARGET or name in items.named:
        return items.parts(name, read.item)
    return {read.targets[code] or "none": read.target == code for code in np.unique(read.target)}


def _unit_names(read: Reduced, ids: Mapping[int, str]) -> list[str]:
    pairs = zip(read.item.tolist(), read.target.tolist(), strict=True)
    return [ids[item] + (f" · {read.targets[target]}" if read.targets[target] else "") for item, target in pairs]


@dataclass(frozen=True)
class _Gold:
    """What is right of one question's items: labels, scores or values of categories (see `suite.Known`), or nothing."""

    right: NDArray[np.bool_] | None = None
    scores: NDArray[np.float64] | None = None
    judged: NDArray[np.bool_] | None = None
    values: list[frozenset[str]] | None = None


def _gold(
    read: Reduced,
    raters: Raters,
    items: Items,
    settings: suite.MetricSettings,
    *,
    scale: tuple[float, float] | None,
) -> _Gold:
    certain = [name for name in read.answers.raters if raters.kinds[name] == "gold"]
    own = read.answers.of_raters(certain)
    if certain and own.n:
        if own.scored:
            means, _ = own.means()
            if _are_labels(own.levels(), scale):
                return _Gold(right=means >= 0.5, judged=~np.isnan(means))
            return _Gold(scores=means, judged=~np.isnan(means))
        values: list[set[str]] = [set() for _ in range(own.items)]
        for item, value in zip(own.item.tolist(), own.value.tolist(), strict=True):
            if value >= 0:
                values[item].add(own.values[value])
        return _Gold(values=[frozenset(v) for v in values])
    found = [items.gold.get(item) for item in read.item.tolist()] if items.gold else []
    if not any(found):
        return _Gold()
    targets = [read.targets[code] for code in read.target.tolist()]
    if any(targets):
        judged = [bool(f and t and (not f[0] or t in f[0])) for f, t in zip(found, targets, strict=True)]
        right = [bool(f and t in f[1]) for f, t in zip(found, targets, strict=True)]
        return _Gold(right=np.array(right), judged=np.array(judged))
    return _Gold(values=[f[1] if f else frozenset() for f in found])


def _are_labels(levels: NDArray[np.float64], scale: tuple[float, float] | None) -> bool:
    """Whether scores of gold are labels, 1 (holds) and 0, and no scores of a scale that goes further than 1."""
    if not np.isin(levels, (0.0, 1.0)).all():
        return False
    return scale is None or scale[1] <= 1 or bool((levels < scale[0]).any())


def span_metrics(
    sources: Sequence[TableSource], texts: TableSource | None, raters: Mapping[str, str], overlap: float
) -> Iterator[Metric]:
    """Metrics of the tables `spans`, by kind: against gold raters if there are any, and between the others."""
    marks = _marks(sources)
    wanted = {text for kind in marks.values() for seen in kind.values() for text in seen}
    known = _texts(texts, wanted) if texts else None
    for kind, by_rater in sorted(marks.items()):
        certain: dict[str, list[spans.Span]] = {}
        for rater in sorted(by_rater):
            if raters.get(rater) == "gold":
                certain |= by_rater[rater]
        others = {rater: own for rater, own in sorted(by_rater.items()) if raters.get(rater) != "gold"}
        if certain:
            for rater, seen in others.items():
                for metric in spans.against_gold(seen, certain, texts=known, overlap=overlap):
                    yield metric.at(rater=rater, kind=kind)
        for metric in spans.span_agreement(others, texts=known, overlap=overlap):
            yield metric.at(kind=kind)


def _marks(sources: Sequence[TableSource]) -> dict[str, dict[str, dict[str, list[spans.Span]]]]:
    """kind -> rater -> text_id -> spans.

    A rater saw an item that a row of theirs names whose status is ok (one from 0 to 0 says that nothing was marked,
    jobs.import_ratings), and with it all texts of the item in which anybody marked something of the kind.
    """
    marks: dict[str, dict[str, dict[str, list[spans.Span]]]] = defaultdict(lambda: defaultdict(dict))
    seen_items: dict[str, set[str]] = defaultdict(set)
    texts_of: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    columns = ["item_id", "rater", "text_id", "kind", "start", "end", "status"]
    for source in sources:
        for batch in source.batches(columns):
            for row in batch.to_pylist():
                if row["status"] != Status.OK:
                    continue
                start, end = row["start"], row["end"]
                if start < 0 or end < start:
                    raise InputError(f"{source.uri}: a span of {row['text_id']} from {start} to {end}")
                seen_items[row["rater"]].add(row["item_id"])
                texts_of[row["kind"]][row["item_id"]].add(row["text_id"])
                own = marks[row["kind"]][row["rater"]].setdefault(row["text_id"], [])
                if end > start:
                    own.append((start, end))
    for kind, texts_of_kind in texts_of.items():
        for rater, items in seen_items.items():
            for text in {t for item in items for t in texts_of_kind.get(item, ())}:
                marks[kind][rater].setdefault(text, [])
    return marks


def _texts(source: TableSource, wanted: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for batch in source.batches(["text_id", "text"]):
        rows = zip(batch["text_id"].to_pylist(), batch["text"].to_pylist(), strict=True)
        found |= {text_id: text for text_id, text in rows if text_id in wanted and text is not None}
    return found


def dsg_metrics(
    ratings: Sequence[TableSource], questions: TableSource, *, rubric: str, likert: str | None, barred: Barred
) -> Iterator[Metric]:
    """Scene-graph metrics of each model: answers are ratings of `rubric` whose question is a question_id.

    A picture's set of questions is the ratings' target, or the picture's own id where that is empty.

    Args:
        likert: `rubric/question` of the people's ratings that scores are correlated with.
        barred: the list of exclusions.
    """
    sets: dict[str, list[dsg.DsgQuestion]] = defaultdict(list)
    for batch in questions.batches(["set_id", "question_id", "parents", "valid"]):
        for row in batch.to_pylist():
            valid = row["valid"] is not False
            sets[row["set_id"]].append(dsg.DsgQuestion(row["question_id"], dsg.parents_of(row["parents"]), valid))
    answers: dict[str, dict[tuple[str, str], dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    people: dict[str, list[float]] = defaultdict(list)
    columns = ["item_id", "target", "rubric", "question", "rater", "value", "score", "status"]
    of_people = tuple((likert or "/").split("/", 1))
    for source in ratings:
        for batch in source.batches(columns):
            chosen = batch.filter(pc.is_in(batch["rubric"], pa.array([rubric, of_people[0]], batch["rubric"].type)))
            for row in chosen.to_pylist():
                if barred.hit(row["item_id"]):
                    continue
                if row["rubric"] == rubric:
                    asked = answers[row["rater"]][row["item_id"], row["target"] or row["item_id"]]
                    if row["status"] == Status.OK:
                        asked[row["question"]] = row["value"]
                elif row["question"] == of_people[1] and row["status"] == Status.OK and row["score"] is not None:
                    people[row["item_id"]].append(row["score"])
    means = {item: float(np.mean(scores)) for item, scores in people.items()}
    for rater, given in sorted(answers.items()):
        pictures = {
            item: [replace(q, answer=own.get(q.question)) for q in sets.get(of_set, ())]
            for (item, of_set), own in given.items()
        }
        for metric in dsg.dsg_metrics(pictures, means):
            yield metric.at(rater=rater, rubric=rubric)

"""The settings of `loglik`: their agreement with reference ratings, and the choice among them (`calibrate`).

Settings are chosen by gold labels or by people's ratings on one half of the items and applied to the other half.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from actors.ids import content_id
from actors.loglik_rater import METHOD
from actors.quantities import quantity
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import Question
from actors.settings import ConditionSettings, Location
from actors.status import Status
from jobs.errors import InputError, as_input_error, check_choice
from jobs.judging.rating_tables import open_ratings
from jobs.metrics.gold import best_threshold, f1_at
from jobs.runtime.configuration.config import Writing
from jobs.runtime.configuration.key_types import MISSING, conf_group
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import TableRun

# Per pair of item and label: the model's score, and gold (1 or 0) or people's score.
Scores = tuple[list[float], list[float]]
Reference = dict[tuple[str, str], float]  # (item_id, target) -> mean score
CRITERIA = ("f1", "pearson")
CALIBRATED = "loglik_threshold"  # column `method` of answers that a threshold determines
HALVES = ("a", "b")


@dataclass
class CalibrateConfig(ConditionSettings, Writing):
    """Keys of `calibrate`."""

    input: Location[str] = MISSING  # a table of ratings by remine loglik, of one model and one condition
    items: Location[list[str]] = field(default_factory=list)  # tables of items with gold, or globs; also for split_by=
    criterion: str = "f1"  # f1 with the gold of items=, or pearson with reference=
    reference: Location[str | None] = None  # people's ratings, for criterion=pearson: a table or a glob
    threshold: float | None = None  # log-likelihood from which a label holds; null: chosen with lambda and T
    choose_on: str = "a"  # the half on which the settings are chosen; the other half is rated
    cross: bool = False  # choose on the other half too, so that all items are rated
    split_by: str | None = None  # attribute of items=, such as prompt_id, whose values stay in one half; null: none
    seed: int = 0  # seed of the split into halves
    rubric: dict[str, Any] = conf_group(
        "cultural_relevance"
    )  # with criterion=f1: whose highest and lowest answers are used


def checked_question(cfg: CalibrateConfig) -> Question | None:
    """Return the question whose answers are used; None with criterion=pearson.

    Raises:
        InputError: the value of a key is not allowed.
    """
    check_choice("criterion", cfg.criterion, CRITERIA)
    check_choice("choose_on", cfg.choose_on, HALVES)
    if cfg.split_by and not cfg.items:
        raise InputError("set items= to the tables with this attribute", key="split_by", value=cfg.split_by)
    if cfg.criterion == "pearson":
        if not cfg.reference or cfg.threshold is not None:
            raise InputError("reference= is required, and threshold= is not allowed", key="criterion", value="pearson")
        return None
    if not cfg.items or cfg.reference:
        raise InputError("items= with gold is required, and reference= is not allowed", key="criterion", value="f1")
    try:
        questions = Rubric.from_dict(cfg.rubric).questions
    except ValueError as error:
        raise as_input_error(error) from error
    if len(questions) != 1 or questions[0].scale != "ordinal":
        raise InputError("must have one question, whose answers have scores", key="rubric")
    return questions[0]


def half_of(key: str, seed: int) -> str:
    """Return the half, one of `HALVES`, of the item `key`, or of the items whose attribute has the value `key`."""
    return HALVES[int(content_id("half", str(seed), key)[:8], 16) % 2]


def other_half(half: str) -> str:
    """Return the other half."""
    return HALVES[1 - HALVES.index(half)]


def halves(items: Iterable[str], seed: int, keys: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return item -> half (one of `HALVES`), drawn by a hash of the seed.

    Args:
        keys: item -> value of the attribute `split_by=`; items with the same value are in the same half. None: each
            item is drawn separately.

    Raises:
        InputError: an item is not in `keys`.
    """
    parts = {}
    for item in items:
        if keys is not None and item not in keys:
            why = f"item {item} does not have the attribute"
            raise InputError(why, key="split_by", remedy="omit split_by=, or set it to another attribute")
        parts[item] = half_of(keys[item] if keys is not None else item, seed)
    return parts


def attribute_values(sources: Iterable[TableSource], name: str) -> dict[str, str]:
    """Return the value of an attribute for each item that has it, by item."""
    return {
        row["item_id"]: value
        for source in sources
        for batch in source.batches(["item_id", "attributes"])
        for row in batch.to_pylist()
        if (value := dict(row["attributes"] or ()).get(name))
    }


@dataclass(frozen=True)
class SettingChoice:
    """The setting that was chosen on one half.

    Attributes:
        chosen_on: the half.
        setting: the condition of its ratings in the table of `loglik`, such as `article; lambda=0.5,T=-inf`.
        threshold: log-likelihood from which a label holds; None for criterion pearson.
        value: the value of the criterion on the half that it was chosen on.
        value_of_other: the value of the criterion on the other half; None if it is undefined.
        pairs, pairs_of_other: the numbers of pairs of item and label.
    """

    chosen_on: str
    setting: str
    threshold: float | None
    value: float
    value_of_other: float | None
    pairs: int
    pairs_of_other: int

    @property
    def text(self) -> str:
        """Return the choice in one line."""
        threshold = "" if self.threshold is None else f", threshold {self.threshold:.6g}"
        return f"{self.setting}{threshold}, chosen on half {self.chosen_on}"

    def to_json(self) -> dict[str, Any]:
        """Return the choice as JSON values."""
        return asdict(self)


def facts(source: TableSource) -> tuple[str, list[str]]:
    """Return the condition of the ratings without the setting, and the raters.

    Raises:
        InputError: the ratings are not those of a single run of `loglik`.
    """
    names: dict[str, set[str]] = {name: set() for name in ("method", "condition", "rater")}
    for batch in source.batches(list(names)):
        for name, values in names.items():
            values.update(pc.unique(batch[name]).to_pylist())
    bases = {condition.rpartition("; ")[0] for condition in names["condition"]}
    if names["method"] != {METHOD} or len(bases) != 1:
        raise InputError("must be ratings by remine loglik under one condition", key="input", value=source.uri)
    return bases.pop(), sorted(names["rater"])


def read_reference(pattern: str | None) -> Reference:
    """Return the mean score of each item and target over the raters of the tables at `pattern`.

    Raises:
        InputError: there is no such table, or none of its ratings has a score; or as `open_ratings`.
    """
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0])
    for source in open_ratings([pattern]) if pattern else ():
        for rows in source.batches(["item_id", "target", "score", "status"]):
            for row in rows.to_pylist():
                if row["status"] == Status.OK and row["score"] is not None:
                    entry = sums[row["item_id"], row["target"]]
                    entry[0] += row["score"]
                    entry[1] += 1
    if pattern and not sums:
        why = "none of its ratings has a score"
        raise InputError(why, key="reference", value=pattern, remedy="name ratings on an ordinal scale")
    return {key: total / n for key, (total, n) in sums.items()}


def gold_labels(sources: Iterable[TableSource]) -> dict[str, frozenset[str]]:
    """Return the right labels of each item that has gold, by item."""
    return {
        row["item_id"]: frozenset(row["gold"])
        for source in sources
        for batch in source.batches(["item_id", "gold"])
        for row in batch.to_pylist()
        if row["gold"] is not None
    }


def read_scores(
    ratings: TableSource, halves: Mapping[str, str], expected: Mapping[str, Collection[str]] | Reference
) -> dict[str, dict[str, Scores]]:
    """Return the scores of each half's items and what is expected of them, by half and condition.

    Args:
        halves: item -> half.
        expected: item -> its right labels, or people's mean ratings by item and label; other pairs are left out.
    """
    pairs: dict[str, dict[str, Scores]] = defaultdict(lambda: defaultdict(lambda: ([], [])))
    for batch in ratings.batches(["item_id", "target", "condition", "score", "status"]):
        for row in batch.to_pylist():
            value = _expected(expected, row["item_id"], row["target"])
            if row["status"] != Status.OK or value is None or row["score"] is None:
                continue
            scores, right = pairs[halves[row["item_id"]]][row["condition"]]
            scores.append(row["score"])
            right.append(value)
    return pairs


def choose(
    scores: Mapping[str, Mapping[str, Scores]], *, half: str, other: str, criterion: str, threshold: float | None
) -> SettingChoice:
    """Return the setting with the best value of the criterion on `half`; at a tie, the first by name.

    Args:
        scores: by half and condition (`read_scores`).
        threshold: a fixed threshold for F1; None: the threshold is chosen too.

    Raises:
        InputError: the criterion is undefined for every setting.
    """
    best: tuple[float, float | None, str] | None = None
    for setting, (values, right) in sorted(scores.get(half, {}).items()):
        value, at = _value(values, right, criterion=criterion, threshold=threshold)
        if value is not None and (best is None or value > best[0]):
            best = (value, at, setting)
    if best is None:
        needs = "no right label" if criterion == "f1" else "fewer than three different pairs with people's ratings"
        why = f"{criterion} is undefined for every setting: {needs} among the items of this half"
        raise InputError(why, key="choose_on", value=half, remedy="set another seed= or choose_on=, or add items")
    value, at, setting = best
    values, right = scores.get(other, {}).get(setting, ([], []))
    value_of_other, _ = _value(values, right, criterion=criterion, threshold=at)
    pairs = len(scores[half][setting][0])
    return SettingChoice(half, setting, at, value, value_of_other, pairs, len(values))


def calibrated(
    rows: pa.Table,
    parts: Mapping[str, str],
    choices: Mapping[str, SettingChoice],
    answered: tuple[str, Question] | None,
    condition: str,
) -> pa.Table:
    """Return the ratings of the chosen settings among `rows`, under `condition`.

    Args:
        parts: item -> half.
        choices: half -> the choice for it; ratings of other halves are left out.
        answered: a rubric's name and question: scores from the threshold on become its highest answer, other scores its
            lowest. None: scores stay log-likelihoods.
    """
    kept = []
    for row in rows.to_pylist():
        choice = choices.get(parts[row["item_id"]])
        if choice is None or row["condition"] != choice.setting:
            continue
        row["condition"] = condition
        if answered is not None:
            rubric, question = answered
            row |= {"method": CALIBRATED, "rubric": rubric, "question": question.name}
            if row["status"] == Status.OK:
                assert choice.threshold is not None
                answers = sorted(question.answers, key=lambda answer: answer.score or 0.0)
                answer = answers[-1 if row["score"] >= choice.threshold else 0]
                row |= {"value": answer.value, "score": answer.score, "comment": choice.text}
        kept.append(row)
    return schemas.to_table(kept, rows.schema)


def with_choices(raters: Iterable[Mapping[str, Any]], choices: Iterable[SettingChoice]) -> list[dict[str, Any]]:
    """Return rows of table `raters` whose engine includes the choices."""
    text = "; ".join(choice.text for choice in choices)
    return [{**row, "engine": f"{row['engine'] or ''}; labels by likelihood: {text}".lstrip("; ")} for row in raters]


def _value(
    values: Sequence[float], right: Sequence[float], *, criterion: str, threshold: float | None
) -> tuple[float | None, float | None]:
    """Return the criterion's value, None if undefined, and the threshold."""
    if criterion == "pearson":
        moments = Moments()
        moments.add(np.array(values, np.float64), np.array(right, np.float64))
        return moments.pearson, None
    holds = np.array(right, bool)
    if threshold is not None:
        return (f1_at(values, holds, threshold) if holds.any() else None), threshold
    chosen = best_threshold(values, holds)
    return (chosen.f1, chosen.value) if chosen else (None, None)


def _expected(expected: Mapping[Any, Any], item: str, target: str) -> float | None:
    if (item, target) in expected:
        return float(expected[item, target])
    right = expected.get(item)
    return None if right is None else float(target in right)


def keep_sweep(run: TableRun, reference: Reference, conditions: Sequence[str]) -> list[str]:
    """Store Pearson's r of each condition's scores with the reference with the run; return lines, the best first."""
    moments = {condition: Moments() for condition in conditions}
    items = pa.array(sorted({item for item, _ in reference}), pa.string())
    for footer in open_table(run.target.out, "ratings").footers:
        rows = read_unit(footer.object.uri, columns=["item_id", "target", "condition", "score", "status"])
        for condition, (scores, expected) in _pairs(rows.filter(pc.is_in(rows["item_id"], items)), reference).items():
            moments[condition].add(np.array(scores), np.array(expected))
    ranked = sorted(moments.items(), key=lambda entry: (entry[1].pearson is None, -(entry[1].pearson or 0.0)))
    sweep = [{"setting": name, "pearson": moment.pearson, "n": moment.n} for name, moment in ranked]
    run.keep("sweep.json", json.dumps(sweep, indent=1).encode())
    lines = []
    for name, moment in ranked:
        value = "undefined" if moment.pearson is None else f"{moment.pearson:.3f}"
        lines.append(f"  {name:24} Pearson's r {value} with the reference, {quantity(moment.n, 'pair')}")
    return lines


def _pairs(rows: pa.Table, reference: Reference) -> dict[str, tuple[list[float], list[float]]]:
    """Return the scores of each condition, and the reference's for the same items and targets."""
    pairs: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for row in rows.to_pylist():
        expected = reference.get((row["item_id"], row["target"]))
        if row["status"] == Status.OK and expected is not None:
            scores, references = pairs[row["condition"]]
            scores.append(row["score"])
            references.append(expected)
    return pairs


@dataclass
class Moments:
    """Running sums of pairs (x, y) for Pearson's correlation."""

    n: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    yy: float = 0.0
    xy: float = 0.0

    def add(self, x: np.ndarray, y: np.ndarray) -> None:
        """Add pairs of finite numbers, 1-D float64 of equal length."""
        self.n += len(x)
        self.x, self.y = self.x + float(x.sum()), self.y + float(y.sum())
        self.xx, self.yy = self.xx + float((x * x).sum()), self.yy + float((y * y).sum())
        self.xy += float((x * y).sum())

    @property
    def pearson(self) -> float | None:
        """Pearson's r; None with fewer than three pairs or if one variable is constant."""
        if self.n < 3:
            return None
        spread = [self.n * square - total**2 for square, total in ((self.xx, self.x), (self.yy, self.y))]
        if min(spread) <= 1e-12 * self.n * max(self.xx, self.yy, 1e-300):
            return None
        return float(np.clip((self.n * self.xy - self.x * self.y) / (spread[0] * spread[1]) ** 0.5, -1, 1))

"""Choice among the settings of `loglik` on some items, by gold labels or by people's ratings."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from actors.loglik_rater import METHOD
from actors.rubrics.rubric_questions import Question
from actors.status import Status
from actors.vlm.debiasing import Moments
from jobs.errors import InputError
from jobs.judging.reference import Reference
from jobs.metrics.thresholds import best_threshold, f1_at
from jobs.store.reading import TableSource

# Per pair of item and label: the model's score, and gold (1 or 0) or people's score.
Scores = tuple[list[float], list[float]]
CRITERIA = ("f1", "pearson")
CALIBRATED = "loglik_threshold"  # column `method` of answers that a threshold determines


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
        raise InputError(f"input={source.uri}: must be ratings by remine loglik under one condition")
    return bases.pop(), sorted(names["rater"])


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
        raise InputError(
            f"choose_on={half}: {criterion} is undefined for every setting: {needs} among the items of this half; "
            "set another seed= or choose_on=, or add items"
        )
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

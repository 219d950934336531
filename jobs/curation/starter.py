"""The starter set (Century, section 5.1): pictures that are sensitive on average, few of each sub-region.

"All images with a mean rating of 'sensitive' > 3.0 across human and automated evaluation, with each geographical
sub-region downsampled to no more than six images." The keys of `StarterConfig` decide what this sentence leaves open.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status
from jobs.curation.record_arrays import HashIndex
from jobs.errors import InputError, check_choice, check_least
from jobs.store.reading import TableSource
from jobs.tables import HUMAN

UNSURE = "unsure"  # the answer's code, in the rubric and in the paper
EVERYONE, PEOPLE, MODELS = "everyone", "people", "models"
MEANS, MAJORITIES = ("pooled", "of_means"), ("half", "most")
UNSURES, UNLABELLED = ("abstain", "region", "drop"), ("drop", "region")
NO_LABEL = "no label"
MAX_LABELS = 255
FIXED = 1_000_000  # scores are summed as whole millionths, so that the order of the ratings does not matter
COLUMNS = ["item_id", "rubric", "question", "rater", "method", "status", "value", "score"]


@dataclass
class StarterConfig:
    """Keys for selecting the starter set."""

    rubric: str | None = "century_labels"  # rubric whose ratings count; null: any
    question: str = "sensitive"  # question whose scores are averaged
    above: float = 3.0  # the mean score must be greater
    mean: str = "pooled"  # pooled: of all ratings; of_means: of the people's mean and the models' mean
    region_question: str = "sub_region"  # question whose label is the picture's sub-region
    # Whose labels count: a rater's name, people, models or everyone; of several entries, the first that gives a label.
    region_by: list[str] = field(default_factory=lambda: [EVERYONE])
    region_majority: str = "half"  # half: the label of more than half of them; most: the most frequent, none at a tie
    unsure: str = "abstain"  # abstain: not counted; region: counts as a region; drop: drops pictures labelled unsure
    unlabelled: str = "drop"  # pictures without a label: drop, or region: they form a region
    per_region: int = 6  # maximum number of pictures per sub-region

    def check(self) -> None:
        """Raise InputError for a value that is not allowed."""
        check_choice("starter.mean", self.mean, MEANS)
        check_choice("starter.region_majority", self.region_majority, MAJORITIES)
        check_choice("starter.unsure", self.unsure, UNSURES)
        check_choice("starter.unlabelled", self.unlabelled, UNLABELLED)
        if not math.isfinite(self.above):
            raise InputError("must be a finite number", key="starter.above", value=self.above)
        check_least("starter.per_region", self.per_region, 1)
        if not self.region_by:
            why = f"must name at least one of {PEOPLE}, {MODELS}, {EVERYONE} or a rater"
            raise InputError(why, key="starter.region_by", value="[]")


@dataclass(frozen=True)
class PictureRatings:
    """Scores and labels of each picture.

    Attributes:
        total: int64 [pictures, 2], sums of the ok scores of people and of models, in millionths.
        count: int32 [pictures, 2], numbers of these scores.
        labels: the answers to the question about regions.
        votes: int32 [pictures, labels] for each entry of `region_by`.
        tally: ratings by question and status, and `of other pictures`.
    """

    total: np.ndarray
    count: np.ndarray
    labels: tuple[str, ...]
    votes: tuple[np.ndarray, ...]
    tally: dict[str, int]


class RatingReader:
    """Aggregates tables of ratings about `pictures`, one row group at a time."""

    def __init__(self, config: StarterConfig, pictures: HashIndex) -> None:
        self._config, self._pictures = config, pictures
        n = len(pictures)
        self.total, self.count = np.zeros((n, 2), np.int64), np.zeros((n, 2), np.int32)
        self._labels: dict[str, int] = {}
        self._votes = [np.zeros((n, 0), np.int32) for _ in config.region_by]
        self.tally: Counter[str] = Counter()
        self._seen: set[tuple[str, str]] = set()
        self._raters: set[str] = set()
        self._kinds: set[str] = set()

    def add(self, batch: pa.Table) -> None:
        """Add rows of a table of ratings."""
        self._seen |= _pairs(batch)
        rows = batch
        if self._config.rubric is not None:
            rows = rows.filter(pc.equal(rows["rubric"], self._config.rubric))
        self._add_scores(*self._answers(rows, self._config.question))
        self._add_votes(*self._answers(rows, self._config.region_question))

    def result(self) -> PictureRatings:
        """Return the aggregates.

        Raises:
            InputError: the tables lack one of the questions, no rating is about `pictures`, the answers have no
                scores, or a rater of `region_by` is unknown.
        """
        config = self._config
        for key, question in (("question", config.question), ("region_question", config.region_question)):
            self._check_question(key, question)
        if len(self._pictures) and not any(self.tally[f"{config.question}/{s.value}"] for s in Status):
            rated = self.tally[f"{config.question}/of other pictures"]
            why = f"none of the {rated:,} ratings of {config.question} is about these pictures"
            raise InputError(why, key="ratings", remedy="use ratings of the pictures of the records")
        if self.tally[f"{config.question}/ok"] and not self.count.any():
            why = "its answers have no scores"
            raise InputError(why, key="starter.question", value=config.question, remedy="choose an ordinal question")
        for entry in config.region_by:
            if entry not in {*self._raters, *self._kinds, EVERYONE}:
                raters = ", ".join(sorted(self._raters)) or "none"
                why = (
                    f"no such rater of {config.region_question} for these pictures; there are {raters}, and the "
                    f"groups {PEOPLE}, {MODELS} and {EVERYONE}"
                )
                raise InputError(why, key="starter.region_by", value=entry)
        return PictureRatings(self.total, self.count, tuple(self._labels), tuple(self._votes), dict(self.tally))

    def _check_question(self, key: str, question: str) -> None:
        rubric = self._config.rubric
        if any(q == question and rubric in (None, r) for r, q in self._seen):
            return
        asked = sorted({q for r, q in self._seen if rubric in (None, r)})
        if asked:
            why = f"no such question in these ratings; there are {', '.join(asked)}"
            raise InputError(why, key=f"starter.{key}", value=question)
        rubrics = ", ".join(sorted({r for r, _ in self._seen})) or "none"
        raise InputError(f"no ratings by this rubric; there are {rubrics}", key="starter.rubric", value=rubric)

    def _answers(self, rows: pa.Table, question: str) -> tuple[pa.Table, np.ndarray]:
        """Return the ok answers to `question` about `pictures`, and the pictures' indices; count the others."""
        rows = rows.filter(pc.equal(rows["question"], question))
        picture = self._pictures.find(rows["item_id"])
        self.tally[f"{question}/of other pictures"] += int((picture < 0).sum())
        rows, picture = rows.filter(pa.array(picture >= 0)), picture[picture >= 0]
        for entry in pc.value_counts(rows["status"]).to_pylist():
            self.tally[f"{question}/{entry['values']}"] += entry["counts"]
        ok = pc.fill_null(pc.equal(rows["status"], Status.OK.value), False).to_numpy().astype(bool)
        return rows.filter(pa.array(ok)), picture[ok]

    def _add_scores(self, rows: pa.Table, picture: np.ndarray) -> None:
        score = rows["score"].to_numpy()
        has_score = ~np.isnan(score.astype(float))
        kind = np.where(_by_people(rows), 0, 1)[has_score]
        np.add.at(self.total, (picture[has_score], kind), np.rint(score[has_score] * FIXED).astype(np.int64))
        np.add.at(self.count, (picture[has_score], kind), 1)

    def _add_votes(self, rows: pa.Table, picture: np.ndarray) -> None:
        has_label = pc.is_valid(rows["value"]).to_numpy().astype(bool)
        rows, picture = rows.filter(pa.array(has_label)), picture[has_label]
        coded = rows["value"].combine_chunks().dictionary_encode()
        numbers = [self._label(word) for word in coded.dictionary.to_pylist()]
        label = np.array(numbers or [0], np.int64)[coded.indices.to_numpy(zero_copy_only=False)]
        self._raters |= set(pc.unique(rows["rater"]).to_pylist())
        people = _by_people(rows)
        self._kinds |= {kind for kind, some in ((PEOPLE, people.any()), (MODELS, (~people).any())) if some}
        for number, entry in enumerate(self._config.region_by):
            match entry:
                case "everyone":
                    counts = np.ones(rows.num_rows, bool)
                case "people":
                    counts = people
                case "models":
                    counts = ~people
                case _:
                    counts = pc.equal(rows["rater"], entry).to_numpy().astype(bool)
            np.add.at(self._widened(number), (picture[counts], label[counts]), 1)

    def _label(self, word: str) -> int:
        if word not in self._labels and len(self._labels) == MAX_LABELS:
            question = self._config.region_question
            why = f"more than {MAX_LABELS} different answers"
            raise InputError(why, key="starter.region_question", value=question, remedy="use a closed question")
        return self._labels.setdefault(word, len(self._labels))

    def _widened(self, number: int) -> np.ndarray:
        votes = self._votes[number]
        if (more := len(self._labels) - votes.shape[1]) > 0:
            votes = self._votes[number] = np.pad(votes, ((0, 0), (0, more)))
        return votes


def _pairs(batch: pa.Table) -> set[tuple[str, str]]:
    groups = batch.group_by(["rubric", "question"]).aggregate([])
    return set(zip(groups["rubric"].to_pylist(), groups["question"].to_pylist(), strict=True))


def _by_people(rows: pa.Table) -> np.ndarray:
    return pc.equal(rows["method"], HUMAN).to_numpy().astype(bool)


def read_ratings(sources: Iterable[TableSource], pictures: HashIndex, config: StarterConfig) -> PictureRatings:
    """Read tables of ratings in one pass; holds about 24 B per picture, and 4 B per label and entry of region_by.

    Raises:
        InputError: see `RatingReader.result`.
    """
    reader = RatingReader(config, pictures)
    for source in sources:
        for batch in source.batches(COLUMNS):
            reader.add(batch)
    return reader.result()


def rated_above(ratings: PictureRatings, config: StarterConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return two bool [pictures]: whether the mean score is defined, and whether it is greater than `above`.

    `pooled`: the mean of all ok ratings with equal weights. `of_means`: the mean of the people's mean and the models'
    mean; undefined if one of them is missing. If all ratings are of one kind, it is the mean of that kind. The
    comparison is in integers, so that a mean of exactly `above` is not above it.
    """
    above = round(config.above * FIXED)
    kinds = np.flatnonzero(ratings.count.any(axis=0))
    if config.mean == "pooled" or len(kinds) < 2:
        total, count = ratings.total.sum(axis=1), ratings.count.sum(axis=1)
        return count > 0, total > above * count
    (first, second), (n, m) = ratings.total.T, ratings.count.T.astype(np.int64)
    return (n > 0) & (m > 0), first * m + second * n > 2 * above * n * m


def region_labels(ratings: PictureRatings, config: StarterConfig) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return int64 [pictures] label numbers (-1: none, -2: unsure with unsure=drop), and the sorted labels.

    After them comes the label `no label`, for pictures that `unlabelled=region` keeps.
    """
    names = sorted(ratings.labels)
    order = np.array([ratings.labels.index(name) for name in names], np.int64)
    unsure = names.index(UNSURE) if UNSURE in names else None
    label = np.full(len(ratings.total), -1, np.int64)
    for votes in ratings.votes:
        padded = np.pad(votes, ((0, 0), (0, len(names) - votes.shape[1])))[:, order]
        if unsure is not None and config.unsure == "abstain":
            padded[:, unsure] = 0
        label = np.where(label < 0, majority_label(padded, config.region_majority), label)
    if unsure is not None and config.unsure == "drop":
        label[label == unsure] = -2
    if config.unlabelled == "region":
        label[label == -1] = len(names)
    return label, (*names, NO_LABEL)


def majority_label(votes: np.ndarray, majority: str) -> np.ndarray:
    """Return int64 [pictures]: the label with the majority of votes int [pictures, labels], -1 if there is none.

    `half`: more than half of the votes. `most`: more votes than any other.
    """
    if not votes.shape[1]:
        return np.full(len(votes), -1, np.int64)
    best = votes.argmax(axis=1)
    maximum = votes.max(axis=1)
    if majority == "half":
        clear = 2 * maximum > votes.sum(axis=1)
    else:
        clear = (maximum > 0) & ((votes == maximum[:, None]).sum(axis=1) == 1)
    return np.where(clear, best, -1)


def question_counts(tally: dict[str, int], question: str) -> Sequence[tuple[str, int]]:
    """Return (status or `of other pictures`, number of ratings) of a question, ok first, then by frequency."""
    counts = [(key.removeprefix(f"{question}/"), n) for key, n in tally.items() if key.startswith(f"{question}/") and n]
    return sorted(counts, key=lambda kv: (kv[0] != "ok", -kv[1], kv[0]))

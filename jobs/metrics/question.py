"""One question of a rubric with all that its metrics need: answers, raters, attributes of items, settings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.crowdtruth import REFERENCE
from jobs.metrics.model_scores import RaterGroup

Bools = NDArray[np.bool_]
PEOPLE, MODELS = "people", "models"
ENOUGH_PEOPLE = 3  # Century uses people's means of three ratings
MAX_LINES = 200  # raters with lines of their own; beyond that only groups are reported


@dataclass
class MetricSettings:
    """Keys of `metrics`: what is computed in addition to the default."""

    group_by: list[str] = field(default_factory=list)  # of condition, method, order: what must not be pooled
    tolerance: float = 1  # points of the scale for agreement "within"
    weights: dict[str, list[list[float]]] = field(default_factory=dict)  # name -> disagreement of levels, for alpha
    # Shares of items with this score or more, if it is on the scale; subgroups and contrasts use the highest.
    at_least: list[float] = field(default_factory=lambda: [3.0, 4.0])
    people: int | None = None  # ratings by people that an item needs; null: 3, or the most that any item has
    ensembles: dict[str, list[str]] = field(default_factory=dict)  # name -> raters (globs) evaluated as one
    leave_out: list[str] = field(default_factory=list)  # raters (globs) left out of the group of all models
    inverted: list[str] = field(default_factory=lambda: ["factual_errors"])  # questions where high is bad
    gold: list[str] = field(default_factory=list)  # raters (globs) that are right, next to those of kind gold
    positive: float = 4  # a score from which on the label holds
    groups: list[str] = field(default_factory=lambda: ["country"])  # columns of raters= that make groups of people
    disaggregate: list[str] = field(default_factory=list)  # attributes of items, or target; a+b crosses two
    minimum: int = 30  # items below which a subgroup's metric is marked
    compare: list[str] = field(default_factory=list)  # attributes whose values are compared by Welch's t
    contrast: list[str] = field(default_factory=list)  # attribute:first-second, a difference of shares
    concept: str = "concept"  # attribute of items that CAIRE's averages are grouped by
    crowdtruth: bool = False  # qualities of units, workers and annotations
    crowdtruth_raters: str = PEOPLE  # the group of raters that CrowdTruth uses
    stop: float = REFERENCE  # largest change at which CrowdTruth ends; 1e-10 is strict
    overlap: float = 0.5  # intersection / union that matched spans need


@dataclass(frozen=True)
class QuestionContext:
    """What is known about one question's raters and items. Arrays have the length of `answers.items`.

    Attributes:
        kinds: rater -> human, model, encoder or gold.
        families: rater -> model family.
        groups: further groups of raters: name -> raters.
        scale: lowest and highest score; None: unknown, and `no_scale` says why. Metrics that depend on the scale are
            then undefined: the lowest and highest score that occur may not be its ends.
        picture: int64[items], which picture or response; target: int64[items]; concept: int64[items], -1 unknown.
        targets: the names of targets.
        subgroups: attribute -> value -> bool[items].
        authors: family -> bool[items], the responses that it wrote.
        lengths: float64[items], characters of the response, NaN where unknown; None without responses.
        right: bool[items], whether the label holds; gold_scores: float64[items], gold's scores on the scale of the
            answers. At most one of them is given; judged: bool[items], where it is known.
        right_values: the right answers of each item, of categories; empty where they are unknown.
        names: str[items] for CrowdTruth's units; None: no CrowdTruth.
    """

    kinds: Mapping[str, str]
    picture: NDArray[np.int64]
    target: NDArray[np.int64]
    targets: Sequence[str] = ()
    families: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scale: tuple[float, float] | None = None
    no_scale: str = "the scale is not known"
    concept: NDArray[np.int64] | None = None
    subgroups: Mapping[str, Mapping[str, Bools]] = field(default_factory=dict)
    authors: Mapping[str, Bools] = field(default_factory=dict)
    lengths: NDArray[np.float64] | None = None
    right: Bools | None = None
    gold_scores: NDArray[np.float64] | None = None
    judged: Bools | None = None
    right_values: Sequence[frozenset[str]] | None = None
    names: Sequence[str] | None = None


@dataclass(frozen=True)
class RatedQuestion:
    """A question's answers with their context and settings.

    Attributes:
        inverted: whether the scale is reversed for scores of models, because high is bad.
        ended: rater -> its ratings by status; double, repeated: see `gold.accounting`; None: no accounting.
    """

    answers: RatingTable
    context: QuestionContext
    settings: MetricSettings
    inverted: bool = False
    ended: Mapping[str, Counter[str]] | None = None
    double: int = 0
    repeated: int = 0

    def kind(self, rater: str) -> str:
        """human, model, encoder or gold; a rater without a kind is a model."""
        return self.context.kinds.get(rater, "model")

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Groups of raters that answered the question: people, models, ensembles, countries."""
        raters, settings = self.answers.raters, self.settings
        models = tuple(name for name in raters if self.kind(name) in ("model", "encoder"))
        left_out = {name for pattern in settings.leave_out for name in matching(models, pattern)}
        groups = {
            PEOPLE: tuple(name for name in raters if self.kind(name) == "human"),
            MODELS: tuple(name for name in models if name not in left_out),
        }
        for name, patterns in settings.ensembles.items():
            groups[name] = tuple(r for r in raters if any(matching((r,), pattern) for pattern in patterns))
        for name, members in self.context.groups.items():
            groups[name] = tuple(r for r in raters if r in members)
        return {name: members for name, members in groups.items() if members}

    @cached_property
    def thresholds(self) -> list[float]:
        """The configured thresholds on the scale, above its lowest score; all if the scale is unknown.

        Whether a score occurs does not matter: if nobody answers 4, the share at 4 is 0.
        """
        scale = self.context.scale
        return [t for t in self.settings.at_least if scale is None or scale[0] < t <= scale[1]]

    def averaged_groups(self, answers: RatingTable) -> list[RaterGroup]:
        """The groups whose means are taken, and each model by itself. `answers` may be inverted."""
        groups = []
        for name, raters in self.groups.items():
            human = all(self.context.kinds.get(r) == "human" for r in raters)
            needed = people_needed(answers.of_raters(raters), self.settings) if human else 1
            groups.append(RaterGroup(name, raters, needed))
        single = [r for r in answers.raters if self.kind(r) in ("model", "encoder")][:MAX_LINES]
        return groups + [RaterGroup(name, (name,)) for name in single if name not in self.groups]


def matching(raters: Sequence[str], pattern: str) -> list[str]:
    """The raters that a glob names; it may leave out the revision after @."""
    return [name for name in raters if fnmatchcase(name, pattern) or fnmatchcase(name.partition("@")[0], pattern)]


def people_needed(answers: RatingTable, settings: MetricSettings) -> int:
    """Ratings by people that an item needs: as configured, or three, or the most that any item has if that is less."""
    if settings.people is not None:
        return settings.people
    return min(ENOUGH_PEOPLE, int(answers.per_item().max(initial=1)))

"""One question of a rubric with the inputs of its metrics: answers, raters, attributes of items, settings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.crowdtruth import REFERENCE
from jobs.metrics.model_scores import RaterGroup

Bools = NDArray[np.bool_]
PEOPLE, MODELS = "people", "models"
ACROSS = "people and models"  # group of the kappas of raters of different kinds
SINGLE_RATINGS = "people, single ratings"  # group of people's ratings, not averaged by item
ENOUGH_PEOPLE = 3  # Century averages three ratings by people
MAX_LINES = 200  # raters that are also reported one by one; the others only in groups


@dataclass
class MetricSettings:
    """Keys of `metrics`: what to compute, and thresholds."""

    group_by: list[str] = field(default_factory=list)  # of method, order: columns to separate
    tolerance: float = 1.0  # rarely: points of the scale, for percent_agreement_within
    # rarely: name -> matrix of disagreement between levels, for alpha
    weights: dict[str, list[list[float]]] = field(default_factory=dict)
    # Thresholds of share_at_least, if they are on the scale; subgroups and contrasts use the highest.
    at_least: list[float] = field(default_factory=lambda: [3.0, 4.0])
    people: int | None = None  # rarely: ratings by people that an item needs; null: 3, or the most of any item
    # name -> raters (globs) evaluated as one, for all rubrics or as a mapping of rubrics to raters
    ensembles: dict[str, Any] = field(default_factory=dict)
    # rarely: raters (globs) left out of the group of all models, for all rubrics or as a mapping of rubrics to raters
    leave_out: Any = None
    inverted: list[str] = field(default_factory=lambda: ["factual_errors"])  # rarely: questions where high is bad
    # raters (globs) whose answers are right, in addition to those of kind gold
    gold: list[str] = field(default_factory=list)
    positive: float = 4.0  # rarely: lowest score at which the label holds
    # columns of raters=, or of the file input=, that divide people into groups; null: country of raters=
    groups: list[str] | None = None
    disaggregate: list[str] = field(default_factory=list)  # attributes of items, or target; a+b crosses two
    # rarely: attribute of items whose values are the independent units of intervals, such as prompt; null: the picture
    unit: str | None = None
    # people rated a random part of the items, so that their answers to all items can be estimated (docs/estimates.md):
    # your word, if there are no assignments=
    random_part: bool = False
    # rarely: attributes of disaggregate whose estimates of all items are also given partially pooled: each subgroup is
    # drawn towards the mean of all
    pooling: list[str] = field(default_factory=list)
    minimum: int = 30  # rarely: metrics of subgroups with fewer units are marked
    compare: list[str] = field(default_factory=list)  # attributes whose values Welch's t-test compares
    # rarely: how the p-values of all pairs are adjusted: holm, or benjamini_hochberg for many pairs
    adjustment: str = "holm"
    contrast: list[str] = field(default_factory=list)  # attribute:first-second, a difference of shares
    # rarely: condition that the others are compared with; null: all pairs of at most 4 conditions
    baseline_condition: str | None = None
    reference_condition: str | None = None  # rarely: condition by whose F1 that of each other condition is divided
    concept: str = "concept"  # rarely: attribute of items by which CAIRE's averages are grouped
    competitors: str = "model"  # rarely: attribute of the items of pairs whose values Bradley-Terry ranks
    crowdtruth: bool = False  # compute the qualities of units, workers and annotations
    crowdtruth_raters: str = PEOPLE  # rarely: the group of raters that CrowdTruth uses
    stop: float = REFERENCE  # rarely: CrowdTruth iterates until no quality changes by this much
    overlap: float = 0.5  # rarely: least intersection / union of matched spans
    # rarely: overlaps of generated and correct descriptions to compare with people: bleu, rouge_l, cider
    text_overlap: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class AssignedItems:
    """Which items people were given, from the assignment of the study.

    Attributes:
        could_be_drawn: bool[items], whether the item was among those from which people's were drawn.
        assigned: bool[items], whether somebody was given it.
        probability: float64[items], with which it was drawn; NaN without a draw.
        raters: number of people who were given tasks.
    """

    could_be_drawn: Bools
    assigned: Bools
    probability: NDArray[np.float64]
    raters: int


@dataclass(frozen=True)
class QuestionContext:
    """Attributes of one question's raters and items. Arrays have the length of `answers.items`.

    Attributes:
        kinds: rater -> human, model, encoder or gold.
        families: rater -> model family.
        groups: name -> raters, for other groups.
        scale: lowest and highest score; None: unknown, for the reason `no_scale`. Metrics that depend on the scale are
            then undefined, because the lowest and highest scores that occur may not be its ends.
        picture: int64[items], code of the picture or response; target: int64[items]; concept: int64[items], -1 unknown.
        targets: the names of targets.
        subgroups: attribute -> value -> bool[items].
        authors: family of models -> bool[items], the responses that it wrote.
        lengths: float64[items], characters of the response, NaN where unknown; None without responses.
        right: bool[items], whether the label holds; gold_scores: float64[items], gold's scores on the scale of the
            answers. At most one of the two is set; judged: bool[items], whether it is known.
        right_values: the right categories of each item, empty if none is right; None if they are unknown.
        names: str[items], names of CrowdTruth's units; None: no CrowdTruth.
        assigned: which items people were given; None: unknown.
        first_half: bool[items], a half of the independent units, by the hash of their names; None: no metric needs it.
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
    right_values: Sequence[frozenset[str] | None] | None = None
    names: Sequence[str] | None = None
    assigned: AssignedItems | None = None
    first_half: Bools | None = None


@dataclass(frozen=True)
class RatedQuestion:
    """A question's answers with their context and settings.

    Attributes:
        inverted: whether to invert the scale, because a high score is bad.
        unscaled: raters whose scores are not on the question's scale, such as log-likelihoods. They are only correlated
            with people, and belong to no group.
        ended: rater -> status -> number of ratings; None: no accounting. double, repeated: see
            `participation.accounting`; double_by_people: double of people's ratings alone.
        asked_people, reported: bool[items], whether a person was asked about the item, and whether a person reported
            it; None: unknown. knows_reports: whether all people's answers say whether they reported the item.
    """

    answers: RatingTable
    context: QuestionContext
    settings: MetricSettings
    inverted: bool = False
    unscaled: frozenset[str] = frozenset()
    ended: Mapping[str, Counter[str]] | None = None
    asked_people: Bools | None = None
    reported: Bools | None = None
    knows_reports: bool = True
    double: int = 0
    double_by_people: int = 0
    repeated: int = 0

    def kind(self, rater: str) -> str:
        """Return human, model, encoder or gold; a rater without a kind is a model."""
        return self.context.kinds.get(rater, "model")

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Name -> raters that answered the question: people, models, ensembles, countries."""
        settings = self.settings
        raters = tuple(name for name in self.answers.raters if name not in self.unscaled)
        models = tuple(name for name in raters if self.kind(name) in ("model", "encoder"))
        left_out = {name for pattern in settings.leave_out or () for name in matching(models, pattern)}
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
        """The configured thresholds on the scale, above its lowest score; all of them if the scale is unknown.

        They need not occur among the answers: if nobody answers 4, the share at 4 is 0.
        """
        scale = self.context.scale
        return [t for t in self.settings.at_least if scale is None or scale[0] < t <= scale[1]]

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The models and encoders on the scale that are also reported one by one, whether or not they are left out of
        the group of all models."""
        names = (name for name in self.answers.raters if name not in self.unscaled)
        return tuple(name for name in names if self.kind(name) in ("model", "encoder"))[:MAX_LINES]

    def averaged(self, name: str, answers: RatingTable) -> RaterGroup:
        """Return a group with the ratings that an item needs. `answers` may be inverted."""
        raters = self.groups[name]
        human = all(self.kind(rater) == "human" for rater in raters)
        return RaterGroup(name, raters, people_needed(answers.of_raters(raters), self.settings) if human else 1)

    def averaged_groups(self, answers: RatingTable) -> list[RaterGroup]:
        """Return the groups to average, and each model as a group. `answers` may be inverted."""
        groups = [self.averaged(name, answers) for name in self.groups]
        return groups + [RaterGroup(name, (name,)) for name in self.models if name not in self.groups]


def of_rubric(settings: MetricSettings, rubric: str) -> MetricSettings:
    """Return the settings with the lists of raters for one rubric."""
    ensembles = {name: globs_for(raters, rubric) for name, raters in settings.ensembles.items()}
    return replace(settings, ensembles=ensembles, leave_out=globs_for(settings.leave_out, rubric))


def globs_for(setting: Any, rubric: str) -> list[str]:
    """Return the globs of raters for a rubric: those of a list, which is for all rubrics, or a mapping's for it."""
    return list((setting.get(rubric) if isinstance(setting, Mapping) else setting) or ())


def matching(raters: Sequence[str], pattern: str) -> list[str]:
    """Return the raters that a glob matches, with or without their revision after @."""
    return [name for name in raters if fnmatchcase(name, pattern) or fnmatchcase(name.partition("@")[0], pattern)]


def people_needed(answers: RatingTable, settings: MetricSettings) -> int:
    """Return how many ratings by people an item needs for their mean or majority: the setting; if unset, 3 or the most
    that any item has, if lower."""
    if settings.people is not None:
        return settings.people
    return min(ENOUGH_PEOPLE, int(answers.per_item().max(initial=1)))

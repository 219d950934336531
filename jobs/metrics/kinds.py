"""The registry of metrics: the words, the unit and the tables of each name, declared once.

A new metric needs one line in `KINDS`. The report's tables and plots, the papers' tables and the tests read it.
"""

import string
from dataclasses import dataclass
from enum import StrEnum

from jobs.metrics.distributions import SHARE
from jobs.metrics.metric import Metric


class Quantity(StrEnum):
    """What the values of a metric are, which decides how they are printed and plotted."""

    SHARE = "share"  # 0 to 1, printed as a percentage
    DIFFERENCE = "difference of shares"  # -1 to 1, printed as a percentage
    FRACTION = "fraction"  # 0 to 1, printed as a number
    COEFFICIENT = "coefficient"  # at most 1, such as a correlation
    SCORE = "score"  # on the scale of its question
    NUMBER = "number"
    COUNT = "count"
    MEAN_OF_COUNTS = "mean of counts"
    P_VALUE = "p"

    @property
    def percent(self) -> bool:
        """Whether values are printed as percentages."""
        return self in (Quantity.SHARE, Quantity.DIFFERENCE)


class Topic(StrEnum):
    """Metrics that share a table; the value is its title."""

    RATINGS = "Ratings"
    COMPARISONS = "Comparisons"
    COMPETITORS = "Comparisons: competitors"
    STATUSES = "Ratings without an answer"
    PEOPLE = "People"
    AGREEMENT = "Agreement among raters"
    AGREEMENT_BY_SUBGROUP = "Agreement by subgroup"
    VERSIONS = "One rater asked in several ways"
    TWO_RATERS = "Agreement of two raters"
    OTHERS = "Each rater and the other raters"
    MAJORITIES = "Answers by majority"
    MAJORITIES_BY_SUBGROUP = "Answers by majority, by subgroup"
    ANSWERS_BY_SUBGROUP = "Answers by subgroup"
    SCORES = "Scores"
    SCORES_BY_SUBGROUP = "Scores by subgroup"
    SUBGROUPS = "Comparison of subgroups"
    CHANGES = "Changes between conditions"
    OVER_BEST = "Models without ratings under the baseline, and the best one there"
    BIASES = "Biases of judges"
    WITH_PEOPLE = "Models and people"
    SINGLE_RATERS = "Models and single raters of a target"
    DEVIATIONS = "Model’s score minus a person’s"
    GOLD = "Against gold"
    WITHOUT_GOLD = "Rated items without gold"
    WITHOUT_VALUE = "Rated items without a value of an attribute"
    CROWDTRUTH = "CrowdTruth"
    WORKERS = "CrowdTruth: workers"
    TERMS = "Search terms"
    REFUSALS = "Refusals"
    REMARKS = "Items that people wrote about"
    SPAN_STATUSES = "Texts with marked spans by status"
    SPANS = "Marked spans"
    DESCRIPTIONS = "Descriptions: mistakes and omissions"
    MISTAKES = "Descriptions: kinds of mistakes"
    DESCRIPTION_SCORES = "Scores of descriptions and people"
    SCENE_GRAPHS = "Scene graphs"


@dataclass(frozen=True)
class MetricKind:
    """What the metrics of one name have in common.

    Attributes:
        name: column `metric` of the table `metrics`.
        label: words for it; `detailed` also names dims, in braces.
        topics: the tables of the report that show it; without any, `place` says where its numbers are.
        interval: whether it can have an interval; if not, it is not plotted and needs no remark about a missing one.
    """

    name: str
    label: str
    unit: Quantity
    topics: tuple[Topic, ...] = ()
    detailed: str = ""
    place: str = ""
    interval: bool = True

    @property
    def details(self) -> tuple[str, ...]:
        """The dims that `detailed` names."""
        return tuple(name for _, name, _, _ in string.Formatter().parse(self.detailed) if name)


def _kind(
    name: str,
    unit: Quantity,
    *topics: Topic,
    label: str = "",
    detailed: str = "",
    place: str = "",
    interval: bool = True,
) -> MetricKind:
    can_vary = interval and unit not in (Quantity.COUNT, Quantity.P_VALUE)
    return MetricKind(name, label or name.replace("_", " "), unit, topics, detailed, place, can_vary)


_AGREEMENT = (Topic.AGREEMENT, Topic.AGREEMENT_BY_SUBGROUP, Topic.VERSIONS)
_DISTRIBUTIONS = "the distributions of ratings"
KINDS = (
    _kind("ratings_total", Quantity.COUNT, Topic.RATINGS, label="ratings"),
    _kind("ratings_double", Quantity.COUNT, Topic.RATINGS, label="rated more than once"),
    _kind("pairs_double", Quantity.COUNT, Topic.RATINGS, label="pairs rated more than once"),
    _kind("ratings_repeated", Quantity.COUNT, Topic.RATINGS, label="repeated ratings"),
    _kind("ratings_excluded", Quantity.COUNT, Topic.RATINGS, label="excluded ratings"),
    _kind("ratings_left", Quantity.COUNT, Topic.RATINGS, label="ratings used"),
    _kind("ratings_per_person", Quantity.MEAN_OF_COUNTS, Topic.RATINGS, label="per person", interval=False),
    _kind("ratings_per_person_sd", Quantity.MEAN_OF_COUNTS, Topic.RATINGS, label="per person, SD", interval=False),
    _kind("position_bias", Quantity.SHARE, Topic.COMPARISONS),
    _kind("first_position_share", Quantity.SHARE, Topic.COMPARISONS),
    _kind("pair_agreement", Quantity.SHARE, Topic.COMPARISONS),
    _kind("win_rate", Quantity.SHARE, Topic.COMPETITORS),
    _kind("bradley_terry", Quantity.NUMBER, Topic.COMPETITORS, label="Bradley-Terry"),
    _kind("status_share", Quantity.SHARE, Topic.STATUSES, label="share"),
    _kind("people_total", Quantity.COUNT, Topic.PEOPLE, label="people"),
    _kind("items_per_person", Quantity.MEAN_OF_COUNTS, Topic.PEOPLE),
    _kind("items_per_person_sd", Quantity.MEAN_OF_COUNTS, Topic.PEOPLE, label="items per person, SD"),
    _kind("reported_share", Quantity.SHARE, Topic.PEOPLE, detailed="share of {of}"),
    _kind("percent_agreement", Quantity.SHARE, *_AGREEMENT, label="equal answers"),
    _kind("percent_agreement_within", Quantity.SHARE, *_AGREEMENT, label="answers within",
          detailed="answers within {tolerance}"),
    _kind("alpha", Quantity.COEFFICIENT, *_AGREEMENT, label="Krippendorff’s α", detailed="Krippendorff’s α ({level})"),
    _kind("icc1", Quantity.COEFFICIENT, *_AGREEMENT, label="ICC(1)"),
    _kind("icc2", Quantity.COEFFICIENT, *_AGREEMENT, label="ICC(2,1)"),
    _kind("icc2k", Quantity.COEFFICIENT, *_AGREEMENT, label="ICC(2,k)"),
    _kind("pairwise_pearson", Quantity.COEFFICIENT, *_AGREEMENT, label="Pearson, mean of pairs"),
    _kind("pairwise_spearman", Quantity.COEFFICIENT, *_AGREEMENT, label="Spearman, mean of pairs"),
    _kind("kappa", Quantity.COEFFICIENT, Topic.VERSIONS, Topic.TWO_RATERS, label="Cohen’s κ"),
    _kind("agreement_with_majority", Quantity.SHARE, Topic.OTHERS),
    _kind("agreement_with_mean", Quantity.SHARE, Topic.OTHERS),
    _kind("majority_share", Quantity.SHARE, Topic.MAJORITIES, Topic.MAJORITIES_BY_SUBGROUP, label="share"),
    _kind("answer_share", Quantity.SHARE, Topic.ANSWERS_BY_SUBGROUP, label="share"),
    _kind("share_lowest", Quantity.SHARE, Topic.SCORES, Topic.VERSIONS, label="share of lowest score"),
    _kind("share_at_least", Quantity.SHARE, Topic.SCORES, Topic.SCORES_BY_SUBGROUP, Topic.VERSIONS,
          label="share of scores from a threshold", detailed="share with {rule} ≥ {threshold}"),
    _kind("group_mean_score", Quantity.SCORE, Topic.SCORES, Topic.SCORES_BY_SUBGROUP, Topic.VERSIONS, label="mean"),
    _kind("average_of_shares", Quantity.SHARE, Topic.SCORES_BY_SUBGROUP,
          label="share of scores from a threshold, averaged over raters",
          detailed="share ≥ {threshold}, average over {raters} raters"),
    _kind("part_mean", Quantity.SCORE, Topic.SUBGROUPS, label="mean", interval=False),
    _kind("part_sd", Quantity.NUMBER, Topic.SUBGROUPS, label="SD", interval=False),
    _kind("mean_difference", Quantity.NUMBER, Topic.SUBGROUPS),
    _kind("welch_p", Quantity.P_VALUE, Topic.SUBGROUPS, label="Welch’s p"),
    _kind("share_difference", Quantity.DIFFERENCE, Topic.SUBGROUPS),
    _kind("score_change", Quantity.NUMBER, Topic.CHANGES),
    _kind("share_at_least_change", Quantity.DIFFERENCE, Topic.CHANGES),
    _kind("f1_change", Quantity.NUMBER, Topic.CHANGES),
    _kind("f1_ratio", Quantity.NUMBER, Topic.CHANGES),
    _kind("f1_over_best", Quantity.NUMBER, Topic.OVER_BEST, label="F1 minus that of the best"),
    _kind("accuracy_change", Quantity.DIFFERENCE, Topic.CHANGES),
    _kind("pearson_with_people_change", Quantity.NUMBER, Topic.CHANGES),
    _kind("pearson_by_image_change", Quantity.NUMBER, Topic.CHANGES),
    _kind("self_preference", Quantity.NUMBER, Topic.BIASES),
    _kind("length_bias", Quantity.COEFFICIENT, Topic.BIASES),
    _kind("length_slope", Quantity.NUMBER, Topic.BIASES),
    _kind("pearson_with_people", Quantity.COEFFICIENT, Topic.WITH_PEOPLE, label="Pearson with people’s mean"),
    _kind("spearman_with_people", Quantity.COEFFICIENT, Topic.WITH_PEOPLE, label="Spearman with people’s mean"),
    _kind("kendall_with_people", Quantity.COEFFICIENT, Topic.WITH_PEOPLE, label="Kendall with people’s mean"),
    _kind("pearson_by_image", Quantity.COEFFICIENT, Topic.WITH_PEOPLE, label="Pearson by picture"),
    _kind("pearson_by_target", Quantity.COEFFICIENT, Topic.WITH_PEOPLE, label="Pearson by target"),
    _kind("pearson_by_concept_and_target", Quantity.COEFFICIENT, Topic.WITH_PEOPLE,
          label="Pearson by concept and target"),
    _kind("pearson_concept_average", Quantity.COEFFICIENT, Topic.WITH_PEOPLE),
    _kind("pearson_global_average", Quantity.COEFFICIENT, Topic.WITH_PEOPLE),
    _kind("preference_agreement", Quantity.SHARE, Topic.WITH_PEOPLE),
    _kind("mean_deviation", Quantity.NUMBER, Topic.WITH_PEOPLE, label="mean deviation from people"),
    _kind("rater_correlation_mean", Quantity.COEFFICIENT, Topic.SINGLE_RATERS, label="mean"),
    _kind("rater_correlation_max", Quantity.COEFFICIENT, Topic.SINGLE_RATERS, label="max"),
    _kind("rater_correlation_min", Quantity.COEFFICIENT, Topic.SINGLE_RATERS, label="min"),
    _kind("rater_correlation_median", Quantity.COEFFICIENT, Topic.SINGLE_RATERS, label="median"),
    _kind("rater_correlation_sd", Quantity.NUMBER, Topic.SINGLE_RATERS, label="sd"),
    _kind("correlation_with_average", Quantity.COEFFICIENT, Topic.SINGLE_RATERS),
    _kind("deviation_share", Quantity.SHARE, Topic.DEVIATIONS),
    _kind("accuracy", Quantity.SHARE, Topic.GOLD),
    _kind("precision", Quantity.FRACTION, Topic.GOLD),
    _kind("recall", Quantity.FRACTION, Topic.GOLD),
    _kind("f1", Quantity.FRACTION, Topic.GOLD, label="F1"),
    _kind("without_gold", Quantity.SHARE, Topic.WITHOUT_GOLD, interval=False),
    _kind("without_value", Quantity.SHARE, Topic.WITHOUT_VALUE, interval=False),
    _kind("unit_quality_mean", Quantity.FRACTION, Topic.CROWDTRUTH),
    _kind("unit_quality_zero", Quantity.SHARE, Topic.CROWDTRUTH),
    _kind("worker_quality_mean", Quantity.FRACTION, Topic.CROWDTRUTH),
    _kind("annotation_quality", Quantity.FRACTION, Topic.CROWDTRUTH),
    _kind("crowdtruth_rounds", Quantity.COUNT, Topic.CROWDTRUTH),
    _kind("unit_quality", Quantity.FRACTION, place="one for each item"),
    _kind("unit_annotation_score", Quantity.FRACTION, place="one for each item and answer"),
    _kind("worker_quality", Quantity.FRACTION, Topic.WORKERS),
    _kind("worker_worker_agreement", Quantity.FRACTION, Topic.WORKERS),
    _kind("worker_unit_agreement", Quantity.FRACTION, Topic.WORKERS),
    _kind("entities", Quantity.COUNT, Topic.TERMS),
    _kind("distinct_terms", Quantity.COUNT, Topic.TERMS),
    _kind("refusal_rate", Quantity.SHARE, Topic.REFUSALS, label="rate"),
    _kind("remark_share", Quantity.SHARE, Topic.REMARKS, label="share"),
    _kind("span_status_share", Quantity.SHARE, Topic.SPAN_STATUSES, label="share"),
    _kind("span_precision", Quantity.FRACTION, Topic.SPANS),
    _kind("span_recall", Quantity.FRACTION, Topic.SPANS),
    _kind("span_f1", Quantity.FRACTION, Topic.SPANS, label="F1"),
    _kind("span_auc", Quantity.FRACTION, Topic.SPANS, label="AUC"),
    _kind("span_agreement", Quantity.FRACTION, Topic.SPANS),
    _kind("span_alpha", Quantity.COEFFICIENT, Topic.SPANS, label="Krippendorff’s α"),
    _kind("description_mistakes", Quantity.NUMBER, Topic.DESCRIPTIONS, Topic.MISTAKES, label="mistakes"),
    _kind("description_mistake_share", Quantity.SHARE, Topic.DESCRIPTIONS, label="mistakes, share of tokens"),
    _kind("description_precision", Quantity.SHARE, Topic.DESCRIPTIONS, label="precision"),
    _kind("description_omissions", Quantity.NUMBER, Topic.DESCRIPTIONS, label="omissions"),
    _kind("description_omission_share", Quantity.SHARE, Topic.DESCRIPTIONS, label="omissions, share of tokens"),
    _kind("description_coverage", Quantity.SHARE, Topic.DESCRIPTIONS, label="coverage"),
    _kind("description_pearson", Quantity.COEFFICIENT, Topic.DESCRIPTION_SCORES, label="Pearson"),
    _kind("description_spearman", Quantity.COEFFICIENT, Topic.DESCRIPTION_SCORES, label="Spearman"),
    _kind("dsg_score", Quantity.FRACTION, Topic.SCENE_GRAPHS, label="score"),
    _kind("dsg_spearman", Quantity.COEFFICIENT, Topic.SCENE_GRAPHS),
    _kind("dsg_kendall", Quantity.COEFFICIENT, Topic.SCENE_GRAPHS),
    _kind("dsg_invalid", Quantity.COUNT, Topic.SCENE_GRAPHS),
    _kind("dsg_unclear", Quantity.COUNT, Topic.SCENE_GRAPHS),
    _kind(SHARE, Quantity.SHARE, place=_DISTRIBUTIONS),
    _kind("mean_score", Quantity.SCORE, place=_DISTRIBUTIONS),
    _kind("outside_mass_mean", Quantity.FRACTION, place=_DISTRIBUTIONS),
    _kind("truncated_share", Quantity.SHARE, place=_DISTRIBUTIONS),
    _kind("empty_context_share", Quantity.SHARE, place=_DISTRIBUTIONS),
    _kind("coverage", Quantity.SHARE, place=_DISTRIBUTIONS),
)  # fmt: skip
KIND_OF = {kind.name: kind for kind in KINDS}


def kind_of(metric: Metric) -> MetricKind:
    """Return the kind of a metric; of a name that is not registered, a number without a table."""
    return KIND_OF.get(metric.name) or _kind(metric.name, Quantity.NUMBER)


def of_topic(topic: Topic) -> tuple[str, ...]:
    """Return the names of the metrics that a table shows, in its order."""
    return tuple(kind.name for kind in KINDS if topic in kind.topics)

"""Comparison of the versions in which models answered a question: methods and orders of the prompt."""

from collections.abc import Iterator

from jobs.analysis.conditions import ConditionGroup
from jobs.analysis.rating_codes import Reduction
from jobs.metrics.metric import Metric
from jobs.metrics.question import RatedQuestion
from jobs.metrics.versions import version_metrics


def versions_of_models(reduction: Reduction, group: ConditionGroup, rated: RatedQuestion) -> Iterator[Metric]:
    """Yield the comparison of the versions in which each model answered, for models with several.

    Likelihoods, which are not on the scale, are left out.
    """
    for rater, versions in sorted(reduction.versions_of(group.key).items()):
        if len(versions) < 2 or rated.kind(rater) != "model" or rater in rated.unscaled:
            continue
        answers = reduction.question(group.key, order=rated.answers.values, versions_of=rater).answers
        thresholds = rated.thresholds if rated.context.scale else ()
        for metric in version_metrics(answers, tolerance=rated.settings.tolerance, thresholds=thresholds):
            yield metric.at(rater=rater, versions=", ".join(sorted(answers.raters)))

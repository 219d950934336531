"""The registry of metrics: the kinds that the modules of `jobs.metrics` declare next to their functions.

The report's tables and plots, the papers' tables and the tests read it. A table shows its metrics in the order of
`MODULES` and of the declarations in each of them.
"""

from collections.abc import Iterator
from functools import cache
from types import ModuleType

from jobs.metrics import (
    agreement,
    condition_changes,
    confidence,
    correlation,
    crowdtruth,
    description_scores,
    descriptive,
    distributions,
    dsg,
    estimates,
    gold,
    judge_fitness,
    majority,
    model_scores,
    multiple_comparisons,
    pair_comparisons,
    participation,
    ranking,
    rating_plans,
    refused_texts,
    reliability,
    spans,
)
from jobs.metrics.metric import Metric, MetricKind, Topic

MODULES = (
    estimates,
    rating_plans,
    participation,
    pair_comparisons,
    agreement,
    reliability,
    majority,
    condition_changes,
    correlation,
    judge_fitness,
    confidence,
    gold,
    model_scores,
    multiple_comparisons,
    crowdtruth,
    refused_texts,
    spans,
    description_scores,
    dsg,
    distributions,
    ranking,
    descriptive,
)


def declared(module: ModuleType) -> Iterator[MetricKind]:
    """Yield the kinds that are constants of a module, or values of a constant that is a dictionary."""
    for constant in vars(module).values():
        for value in constant.values() if isinstance(constant, dict) else (constant,):
            if isinstance(value, MetricKind) and value.definition:  # else it is what several definitions share
                yield value


KIND_OF: dict[str, MetricKind] = {}
for _module in MODULES:
    for _kind in declared(_module):
        KIND_OF.setdefault(_kind.name, _kind)


def kind_of(metric: Metric) -> MetricKind:
    """Return the kind of a metric; of a name that is not registered, a number without a table."""
    return KIND_OF.get(metric.name) or MetricKind(metric.name)


@cache
def of_topic(topic: Topic) -> tuple[str, ...]:
    """Return the names of the metrics that a table shows, in its order."""
    return tuple(kind.name for kind in KIND_OF.values() if topic in kind.topics)

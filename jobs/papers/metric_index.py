"""An index of metrics by name and dims, in which arrangements look them up."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from actors.status import Status
from jobs.analysis.conditions import CONDITION
from jobs.metrics.metric import Metric, MetricKind, undefined

ABSENT = "Not computed in this report; n counts nothing."


class MetricIndex:
    """Metrics of a report by name and dims.

    Args:
        condition: the condition whose metrics are used if the ratings have several.

    Attributes:
        all: all metrics, whatever their condition.
        conditions: the conditions of the ratings, if they have several.
    """

    def __init__(self, metrics: Iterable[Metric], *, condition: str | None = None) -> None:
        self.all = list(metrics)
        self._by_name: dict[str, list[Metric]] = defaultdict(list)
        self._exact: dict[tuple[str, frozenset[tuple[str, str]]], Metric] = {}
        self.conditions: set[str] = set()
        for metric in self.all:
            dims = dict(metric.dims)
            if CONDITION in dims and "question" in dims:
                of_ratings = dims.pop(CONDITION)
                self.conditions.add(of_ratings)
                if of_ratings != condition:
                    continue
            dims.pop("inverted", None)
            self._by_name[metric.name].append(metric)
            self._exact[metric.name, frozenset(dims.items())] = metric
        self._condition = condition
        self._others: dict[str | None, MetricIndex] = {}

    def under(self, condition: str | None) -> "MetricIndex":
        """Return the metrics of another condition, or this index if the ratings have only one."""
        if condition == self._condition or not self.conditions:
            return self
        if condition not in self._others:  # arrangements ask for the same few conditions hundreds of times
            self._others[condition] = MetricIndex(self.all, condition=condition)
        return self._others[condition]

    def get(self, name: str, dims: Mapping[str, str], *, reason: str = "") -> Metric:
        """Return the metric with exactly these dims, apart from condition and inverted, or an undefined one.

        Args:
            reason: why the metric is undefined if the report does not have it.
        """
        if (metric := self._exact.get((name, frozenset(dims.items())))) is not None:
            return metric
        if self.conditions and self._condition not in self.conditions:
            key = name, frozenset(dims.items())
            having = [condition for condition in sorted(self.conditions) if key in self.under(condition)._exact]
            if having:
                listed = ", ".join(map(repr, having))
                reason = f"the ratings have several conditions; set paper.condition to one of {listed}"
        described = ", ".join(f"{key} {value}" for key, value in sorted(dims.items()))
        return undefined(
            MetricKind(name, definition=ABSENT),
            reason or f"this report has no {name} of {described}",
            status=Status.MISSING_INPUT,
            dims=dict(dims),
        )

    def find(self, name: str, **dims: str) -> list[Metric]:
        """Return all metrics of this name that have at least these dims, in the report's order."""
        return [m for m in self._by_name.get(name, ()) if all(m.dims.get(key) == v for key, v in dims.items())]

    def first(self, name: str, dims: Mapping[str, str], *, reason: str = "", **preferred: str) -> Metric:
        """Return a metric of all items that has at least these dims and, if possible, the `preferred` dims.

        Use it for metrics with dims that depend on the ratings, such as the number of slots of an ICC.
        """
        candidates = [m for m in self.find(name, **dims) if "attribute" in dims or "attribute" not in m.dims]
        if not candidates:
            return self.get(name, dims, reason=reason)
        return min(candidates, key=lambda m: sum(m.dims.get(key) != value for key, value in preferred.items()))

    def values(self, dim: str, name: str, **dims: str) -> list[str]:
        """Return the values of a dim among the metrics that `find` returns, in their order, without duplicates."""
        return list(dict.fromkeys(m.dims[dim] for m in self.find(name, **dims) if dim in m.dims))

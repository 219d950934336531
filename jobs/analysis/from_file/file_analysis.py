"""The results of the analysis of a file."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.metrics.distributions import Distribution
from jobs.metrics.metric import Metric
from jobs.metrics.observations import Observations


@dataclass(frozen=True)
class FileAnalysis:
    """The metrics of a file, and the other contents of its page: distributions by rater, and data for plots."""

    metrics: Sequence[Metric]
    distributions: Sequence[Distribution] = ()
    observations: Observations = field(default_factory=Observations)

"""What the analysis of a file yields."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.metrics.distributions import Distribution
from jobs.metrics.metric import Metric
from jobs.metrics.observations import Observations


@dataclass(frozen=True)
class FileAnalysis:
    """The metrics of a file, and what its page shows besides them: distributions by rater, and what plots need."""

    metrics: Sequence[Metric]
    distributions: Sequence[Distribution] = ()
    observations: Observations = field(default_factory=Observations)

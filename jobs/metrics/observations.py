"""The data of each question that plots need besides its metrics: confusion matrices and pairs of scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobs.metrics.confusion import Confusion, confusions
from jobs.metrics.paired_scores import PairedScores, paired_scores
from jobs.metrics.question import RatedQuestion

MAX_KEPT = 500  # matrices, and sets of points, so that memory does not grow with the number of questions


@dataclass
class Observations:
    """Collects what the plots need while the metrics of each question are computed; call it with each question."""

    confusions: list[tuple[Mapping[str, str], Confusion]] = field(default_factory=list)
    pairs: list[tuple[Mapping[str, str], PairedScores]] = field(default_factory=list)

    def __call__(self, dims: Mapping[str, str], question: RatedQuestion) -> None:
        """Keep the confusion matrices and the points of a question."""
        if len(self.confusions) < MAX_KEPT:
            self.confusions += [(dims, confusion) for confusion in confusions(question)]
        if len(self.pairs) < MAX_KEPT:
            self.pairs += [(dims, pairs) for pairs in paired_scores(question)]

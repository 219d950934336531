"""The two stages of `judge` in one process, as the job runs them one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from actors.judge import Judge
from actors.preparers import RubricPreparer
from actors.reasoning_judge import REASONING_INSTRUCTION, ReasoningJudge
from actors.vlm.settings import ClosedSettings, ModelSettings, ReasoningSettings
from tests.actors.vlm.helpers import MODEL


@dataclass
class RubricStages:
    """A preparer and a rater that are called as one."""

    preparer: RubricPreparer
    rater: Any

    def __call__(self, batch: pa.Table) -> pa.Table:
        return self.rater(self.preparer(batch))

    def take_tally(self) -> dict[str, int]:
        """Return the counts of both stages."""
        return self.preparer.take_tally() | self.rater.take_tally()


def model_settings(checkpoint: str = MODEL, **keys: Any) -> ModelSettings:
    """Return a local model in float32."""
    return ModelSettings(checkpoint=checkpoint, dtype="float32", **keys)


def closed(
    rubric: dict[str, Any], *, checkpoint: str = MODEL, targets: Sequence[str] | None = None, **keys: Any
) -> RubricStages:
    """Return the stages of method=closed on one thread."""
    settings, model = ClosedSettings(rubric=rubric, **keys), model_settings(checkpoint)
    preparer = RubricPreparer(settings, model=model, targets=targets)
    return RubricStages(preparer, Judge(settings, model=model, targets=targets, threads=1))


def reasoned(
    rubric: dict[str, Any], *, checkpoint: str = MODEL, targets: Sequence[str] | None = None, **keys: Any
) -> RubricStages:
    """Return the stages of method=reasoned on one thread."""
    settings, model = ReasoningSettings(rubric=rubric, **keys), model_settings(checkpoint)
    preparer = RubricPreparer(
        settings,
        model=model,
        targets=targets,
        instruction=REASONING_INSTRUCTION,
        answer_tokens=settings.reserved_tokens,
    )
    return RubricStages(preparer, ReasoningJudge(settings, model=model, targets=targets, threads=1))

"""Settings of the stages that rate items with a rubric, apart from the stages: `judge`'s keys need only these."""

from dataclasses import dataclass, field
from typing import Any

from actors.conditions import ConditionSettings
from actors.vlm.settings import ContextSettings, MemorySettings, SamplingSettings

CLOSING_TOKENS = 32  # for the answer's line, and if the reasoning's text has more tokens than were generated


@dataclass(kw_only=True)
class RubricSettings(ContextSettings, ConditionSettings):
    """Settings of a rating: the questions, the order of their prompts' parts, and the condition."""

    rubric: dict[str, Any] = field(default_factory=dict)  # the questions and their closed answers
    layout: str | None = None  # rarely: one of the rubric's orders of parts; null: its default

    def __post_init__(self) -> None:
        from actors.rubrics.rubric import Rubric

        Rubric.from_dict(self.rubric).resolve_layout(self.layout)
        super().__post_init__()


@dataclass(kw_only=True)
class ClosedSettings(RubricSettings, MemorySettings):
    """Settings of `actors.judge.Judge`."""

    engine: str = "auto"  # rarely: auto, packed, cascade, batched, naive, vllm (docs/judging.md)
    rescore_fraction: float = 0.0  # rarely: share of the rows to score twice, which measures rounding

    def __post_init__(self) -> None:
        from actors.vlm.engines import ENGINES

        if self.engine not in (*ENGINES, "vllm"):
            raise ValueError(f"engine={self.engine}: must be one of {', '.join((*ENGINES, 'vllm'))}")
        if not 0 <= self.rescore_fraction <= 1:
            raise ValueError(f"rescore_fraction={self.rescore_fraction:g}: must be from 0 to 1")
        super().__post_init__()


@dataclass(kw_only=True)
class ReasoningSettings(RubricSettings, SamplingSettings):
    """Settings of `actors.reasoning_judge.ReasoningJudge`: the questions, and the sampling of the reasoning."""

    engine: str = "auto"  # rarely: auto (transformers) or vllm

    @property
    def reserved_tokens(self) -> int:
        """Return how many positions the longest reasoning and its answer need."""
        return self.max_tokens + CLOSING_TOKENS

"""Settings of stages with a vision-language model: the model, its prompts, how texts are drawn, ratings by a rubric.

Apart from the stages, because the keys of jobs need only these.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from actors.errors import SettingError
from actors.settings import ConditionSettings, RuntimeOnly, Settings, check_positive
from actors.vlm import context
from actors.vlm.picture_size import PixelBounds

EngineName = Literal["auto", "packed", "cascade", "batched", "naive"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
MAX_TOKENS = 1024
CLOSING_TOKENS = 32  # for the answer's line, and if the reasoning's text has more tokens than were generated


@dataclass(kw_only=True)
class ModelSettings(Settings):
    """Settings of a model, and of the size at which it is shown pictures."""

    checkpoint: str  # hub name, folder, s3://bucket/folder or local:NAME
    revision: str | None = None  # rarely: of the hub's repository: a branch, tag or commit
    dtype: str = "auto"  # rarely: auto: bfloat16 on a GPU, float32 on a CPU; or float32, bfloat16, float16
    device_map: RuntimeOnly[str] = "auto"  # rarely: accelerate's: auto spreads a model that is larger than one GPU
    offload: RuntimeOnly[bool] = (
        False  # rarely: whether weights that no GPU has room for may stay in main memory or on disk: 100 times slower
    )
    max_pixels: int | None = 1_003_520  # width x height of a picture as the model sees it; null: the model's own bound
    min_pixels: int | None = None  # rarely: smaller pictures are enlarged to it; null: as the model's processor does
    # rarely: variables of the model's chat template, such as {enable_thinking: false} (docs/judging.md, thinking)
    template: dict[str, Any] = field(default_factory=dict)

    @property
    def bounds(self) -> PixelBounds:
        """Return the bounds of a picture's pixels.

        Raises:
            ValueError: a bound below 1, or a lower bound above the upper one.
        """
        return PixelBounds(self.max_pixels, self.min_pixels)


@dataclass(kw_only=True)
class ContextSettings(Settings):
    """Settings of an item's context in a prompt."""

    max_context_tokens: int | None = None  # rarely: a longer context is cut; null: only where the model's positions end
    empty_context: str = "answer"  # rarely: items without context: answer without it, or skip

    def __post_init__(self) -> None:
        context.check_options(self.max_context_tokens, self.empty_context)
        super().__post_init__()


@dataclass(kw_only=True)
class MemorySettings(Settings):
    """Setting of the device memory besides the weights."""

    # rarely: for one forward pass, or the caches of a batch; null: half of what is free
    memory_budget_gb: RuntimeOnly[float | None] = None

    def __post_init__(self) -> None:
        check_positive(memory_budget_gb=self.memory_budget_gb)
        super().__post_init__()


@dataclass(frozen=True)
class Sampling:
    """Sampling settings.

    Attributes:
        temperature: 0 always takes the most likely token.
        top_p: probability of the nucleus that tokens are drawn from (Holtzman et al. 2020, arXiv:1904.09751).
        max_tokens: largest number of tokens of a text.

    Raises:
        ValueError: a value outside its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = MAX_TOKENS

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise SettingError("must be a finite number of at least 0", "temperature", self.temperature)
        if not 0 < self.top_p <= 1:
            raise SettingError("must be more than 0 and at most 1", "top_p", self.top_p)
        if self.max_tokens < 1:
            raise SettingError("must be at least 1", "max_tokens", self.max_tokens)


@dataclass(kw_only=True)
class SamplingSettings(MemorySettings):
    """Settings that determine how texts are drawn."""

    samples: int = 1  # texts per prompt
    temperature: float = 1.0  # 0: always the most likely token
    top_p: float = 1.0  # rarely: nucleus sampling: the share of the most likely tokens to draw from
    max_tokens: int = MAX_TOKENS  # most tokens of a text; longer ones are truncated
    seed: int = 0  # each sample's seed is derived from it
    group_rows: RuntimeOnly[int | None] = (
        None  # rarely: most prompts x samples in a batch; null: what the memory budget holds
    )

    def __post_init__(self) -> None:
        check_positive(samples=self.samples, group_rows=self.group_rows)
        Sampling(self.temperature, self.top_p, self.max_tokens)
        super().__post_init__()

    @property
    def sampling(self) -> Sampling:
        """Return the settings for drawing each text.

        Raises:
            ValueError: a value outside its range.
        """
        return Sampling(self.temperature, self.top_p, self.max_tokens)

    @property
    def drawing(self) -> dict[str, float | int]:
        """Return the values that a text depends on besides its prompt and its sample number."""
        return {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
        }


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
    rescore_fraction: RuntimeOnly[float] = 0.0  # rarely: share of the rows to score twice, which measures rounding

    def __post_init__(self) -> None:
        if self.engine not in (*ENGINES, "vllm"):
            raise SettingError(f"must be one of {', '.join((*ENGINES, 'vllm'))}", "engine", self.engine)
        if not 0 <= self.rescore_fraction <= 1:
            raise SettingError("must be from 0 to 1", "rescore_fraction", self.rescore_fraction)
        super().__post_init__()


@dataclass(kw_only=True)
class ReasoningSettings(RubricSettings, SamplingSettings):
    """Settings of `actors.reasoning_judge.ReasoningJudge`: the questions, and the sampling of the reasoning."""

    engine: str = "auto"  # rarely: auto (transformers) or vllm

    @property
    def reserved_tokens(self) -> int:
        """Return how many positions the longest reasoning and its answer need."""
        return self.max_tokens + CLOSING_TOKENS

"""What the jobs that ask a vision-language model share: the keys for the model and the items, and their checks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from jobs.config import Common


@dataclass
class JudgeModelConfig:
    """Which model judges; `conf/judge/` has named ones."""

    name: str = MISSING
    model: str = MISSING  # hub name, folder or local:NAME
    revision: str | None = None  # of the hub's repository: a branch, tag or commit
    dtype: str = "auto"  # auto: bfloat16 on a GPU, float32 on a CPU; or float32, bfloat16, float16
    device_map: str = "auto"  # accelerate's: auto spreads a model that is larger than one GPU
    memory_gb: float | None = None  # what the weights need, for the plan
    licence: str | None = None  # of the weights; told, not checked

    @property
    def identity(self) -> dict[str, Any]:
        """What a run's identity says of the model."""
        return {"model": self.model, "revision": self.revision, "dtype": self.dtype}

    @property
    def processor(self) -> dict[str, Any]:
        """What an actor needs that loads no weights."""
        return {"model": self.model, "revision": self.revision}

    @property
    def weights(self) -> dict[str, Any]:
        """What an actor needs that loads the model."""
        return {**self.processor, "dtype": self.dtype, "device_map": self.device_map}

    @property
    def rater(self) -> str:
        """The model's name in the tables."""
        from actors.vlm.loading import rater_name

        return rater_name(self.model, revision=self.revision)


@dataclass
class AskingConfig(Common):
    """Keys of every job that asks a model about items."""

    input: str = MISSING  # a table of images, or of items
    images: str | None = None  # beside a table of items: their pictures
    texts: str | None = None  # beside a table of items: their texts
    records: str | None = None  # what is known about pictures, for the prompt's context
    judge: JudgeModelConfig = field(default_factory=JudgeModelConfig)
    max_context_tokens: int = 8192  # a longer context is cut and its rows are truncated


def check(cfg: AskingConfig, *, empty_context: str = "answer", shows: str = "") -> bool | None:
    """Refuse a model that cannot be had or loaded, and context options that mean nothing.

    Args:
        shows: what shows it pictures ("prompt 'explicit'"), if anything does; a model that sees none is then refused.

    Returns:
        whether the model sees pictures; None with plan=true, where it is not looked for.

    Raises:
        ValueError: what is wrong, in a sentence.
    """
    from actors.vlm import context
    from actors.vlm.loading import check_dtype, check_vlm

    context.check_options(cfg.max_context_tokens, empty_context)
    check_dtype(cfg.judge.dtype)
    if cfg.plan:
        return None
    sees = check_vlm(cfg.judge.model, revision=cfg.judge.revision)
    if shows and not sees:
        raise ValueError(
            f"model {cfg.judge.model!r} takes no pictures and {shows} shows one; "
            "name a vision-language model, or a prompt whose order has no `picture`"
        )
    return sees


def check_positive(cfg: Any, keys: Sequence[str]) -> None:
    """Refuse numbers of 0 or less; null stands for what is reckoned.

    Raises:
        ValueError: naming the key.
    """
    for key in keys:
        if (value := getattr(cfg, key)) is not None and not value > 0:
            raise ValueError(f"{key}={value:g}: more than 0")

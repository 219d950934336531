"""What the jobs that ask a vision-language model share: the keys for the model and the items, and their checks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from jobs.models.vlm import ModelConfig, check_bounds
from jobs.runtime.config import Common


@dataclass
class AskingConfig(Common):
    """Keys of every job that asks a model about items."""

    input: str = MISSING  # a table of images, or of items
    images: str | None = None  # beside a table of items: their pictures
    texts: str | None = None  # beside a table of items: their texts
    records: str | None = None  # what is known about pictures, for the prompt's context
    model: ModelConfig = field(default_factory=ModelConfig)
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
    from actors.devices import check_dtype
    from actors.vlm import context
    from actors.vlm.model_checks import check_vlm

    context.check_options(cfg.max_context_tokens, empty_context)
    check_dtype(cfg.model.dtype)
    check_bounds(cfg.model)
    if cfg.plan:
        return None
    sees = check_vlm(cfg.model.checkpoint, revision=cfg.model.revision)
    if shows and not sees:
        raise ValueError(
            f"model {cfg.model.checkpoint!r} takes no pictures and {shows} shows one; "
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

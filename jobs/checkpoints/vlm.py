"""The vision-language model of a job: its configuration, and the checks that do not need the weights.

`comparisons` is what small checkpoints of each architecture have shown next to transformers alone: `python -m
tests.models.architectures` writes conf/architectures.yaml, and docs/models.md from it.
"""

import functools
import json
from dataclasses import dataclass
from typing import Any

from actors.settings import RuntimeOnly
from actors.vlm.picture_size import PixelBounds
from actors.vlm.settings import ModelSettings
from jobs.checkpoints.placement import CheckpointConfig
from jobs.runtime.configuration.config import ReadingRows
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.configuration.key_types import conf_group

COMPARISONS = CONF / "architectures.yaml"
EQUAL = "equal"
WHOLE = "each label, or each token of a text, passes the whole prompt again"  # reason of an equal outcome
SHARING = ("cascade", "batched")  # engines of `judge` that pass a shared prefix once on any device


@dataclass
class ModelConfig(CheckpointConfig, ModelSettings):
    """The model that judges or generates; `conf/model.yaml` has named models."""

    # rarely: model_type of its config.json, by which a plan knows its engines if that file is not on this machine
    architecture: RuntimeOnly[str | None] = None

    @property
    def identity(self) -> dict[str, Any]:
        """The part of a run's identity that describes the model, the form of quantised weights included."""
        from actors.vlm.model_checks import weights_form

        form = weights_form(self.checkpoint, revision=self.revision)
        return {**super().identity, **({"form": form} if form else {})}

    @property
    def pixels(self) -> dict[str, int | None]:
        """The arguments of `actors.vlm.picture_size.PixelBounds`."""
        return {"max_pixels": self.max_pixels, "min_pixels": self.min_pixels}


@dataclass
class AsksModelConfig(ReadingRows):
    """Keys of every job that asks a model."""

    model: ModelConfig = conf_group("qwen2.5-vl-7b", ModelConfig)


def check_bounds(model: ModelConfig) -> None:
    """Check the bounds of a picture's pixels.

    Raises:
        ValueError: `model.max_pixels` or `model.min_pixels` is out of range; the message names the key.
    """
    try:
        PixelBounds(**model.pixels)
    except ValueError as error:
        raise ValueError(f"model.{error}") from None


@functools.lru_cache(maxsize=1)
def comparisons() -> dict[str, dict[str, Any]]:
    """Return, by architecture (`model_type`) and job, the outcome, the difference and the reason."""
    lines = COMPARISONS.read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line.removeprefix("- ")) for line in lines if line.startswith("- ")]
    return {entry["architecture"]: entry["jobs"] for entry in entries}


def shares_prefixes(architecture: str | None) -> bool | None:
    """Return whether an engine of `judge` passes prefixes once; None for an architecture without a comparison."""
    if (jobs := comparisons().get(architecture or "")) is None:
        return None
    return any(jobs[engine][0] == EQUAL for engine in SHARING)


def continues_prompts(architecture: str | None, job: str) -> bool | None:
    """Return whether labels (`loglik`) or texts (`generate`) continue from one pass of their prompt.

    Returns None for an architecture without a comparison.
    """
    if (jobs := comparisons().get(architecture or "")) is None:
        return None
    return bool(jobs[job][2] != WHOLE)


def comparison_summary(architecture: str | None) -> str:
    """Return what the comparison showed in a few words; empty without one."""
    if (jobs := comparisons().get(architecture or "")) is None:
        return ""
    results = {"judge": jobs["naive"][0], "generate": jobs["generate"][0], "loglik": jobs["loglik"][0]}
    words = [f"{job}: {word}" for job, word in results.items() if word != EQUAL] or ["equal"]
    return ", ".join([*words, *([] if shares_prefixes(architecture) else ["naive"])])

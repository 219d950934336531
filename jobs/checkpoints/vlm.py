"""The vision-language model of a job: its configuration, and the checks that do not need the weights."""

from dataclasses import dataclass
from typing import Any

from actors.settings import RuntimeOnly
from actors.vlm.picture_size import PixelBounds
from actors.vlm.settings import ModelSettings
from jobs.checkpoints.placement import CheckpointConfig
from jobs.runtime.configuration.config import ReadingRows
from jobs.runtime.configuration.key_types import conf_group


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

"""The vision-language model of a job: its configuration, and the checks that do not need the weights."""

from dataclasses import dataclass
from typing import Any

from actors.settings import RuntimeOnly
from actors.vlm.picture_size import PixelBounds
from actors.vlm.settings import ModelSettings
from jobs.runtime.configuration.key_types import MISSING
from jobs.store.identity import identity_of


@dataclass
class ModelConfig(ModelSettings):
    """The model that judges or generates; `conf/model/` has named models."""

    name: RuntimeOnly[str] = MISSING
    checkpoint: str = MISSING  # hub name, folder, s3://bucket/folder or local:NAME
    # rarely: GB that an actor needs with the weights loaded in 16-bit numbers (float32: twice); plan=true compares it
    memory_gb: RuntimeOnly[float | None] = None
    # rarely: licence of the weights; shown by plan=true and on the report's page, not checked
    licence: RuntimeOnly[str | None] = None

    @property
    def identity(self) -> dict[str, Any]:
        """The part of a run's identity that describes the model."""
        return identity_of(self, {"model": self.checkpoint}, instead_of=["checkpoint"])

    @property
    def pixels(self) -> dict[str, int | None]:
        """The arguments of `actors.vlm.picture_size.PixelBounds`."""
        return {"max_pixels": self.max_pixels, "min_pixels": self.min_pixels}

    @property
    def rater(self) -> str:
        """The model's name in the tables."""
        from actors.vlm.loading import rater_name

        return rater_name(self.checkpoint, revision=self.revision)


def check_bounds(model: ModelConfig) -> None:
    """Check the bounds of a picture's pixels.

    Raises:
        ValueError: `model.max_pixels` or `model.min_pixels` is out of range; the message names the key.
    """

    try:
        PixelBounds(**model.pixels)
    except ValueError as error:
        raise ValueError(f"model.{error}") from None

"""Which vision-language model a job uses: its configuration and the checks that need no weights."""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING


@dataclass
class ModelConfig:
    """Which model judges or generates; `conf/model/` has named ones."""

    name: str = MISSING
    checkpoint: str = MISSING  # hub name, folder or local:NAME
    revision: str | None = None  # of the hub's repository: a branch, tag or commit
    dtype: str = "auto"  # auto: bfloat16 on a GPU, float32 on a CPU; or float32, bfloat16, float16
    device_map: str = "auto"  # accelerate's: auto spreads a model that is larger than one GPU
    # GB that an actor needs with the weights loaded in 16-bit numbers (float32: twice); plan=true compares it
    memory_gb: float | None = None
    licence: str | None = None  # of the weights; shown by plan=true and on the report's page, not checked
    max_pixels: int | None = 1_003_520  # width x height of a picture as the model sees it; null: the model's own bound
    min_pixels: int | None = None  # smaller pictures are enlarged to it; null: as the model's processor does

    @property
    def identity(self) -> dict[str, Any]:
        """The part of a run's identity that names the model."""
        return {"model": self.checkpoint, "revision": self.revision, "dtype": self.dtype, **self.pixels}

    @property
    def pixels(self) -> dict[str, int | None]:
        """Arguments of `actors.vlm.picture_size.PixelBounds`."""
        return {"max_pixels": self.max_pixels, "min_pixels": self.min_pixels}

    @property
    def processor(self) -> dict[str, Any]:
        """Arguments of an actor that loads the processor only."""
        return {"model": self.checkpoint, "revision": self.revision}

    @property
    def weights(self) -> dict[str, Any]:
        """Arguments of an actor that loads the model."""
        return {**self.processor, "dtype": self.dtype, "device_map": self.device_map}

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
    from actors.vlm.picture_size import PixelBounds

    try:
        PixelBounds(**model.pixels)
    except ValueError as error:
        raise ValueError(f"model.{error}") from None

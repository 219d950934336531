"""Which text-to-image model a job uses: its configuration."""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from actors.diffusion.settings import ImageModelSettings


@dataclass
class ImageModelConfig(ImageModelSettings):
    """Which text-to-image model draws; `conf/image_model/` has named ones."""

    name: str = MISSING
    checkpoint: str = MISSING  # hub name, folder, s3://bucket/folder or local:NAME
    # rarely: GB that an actor needs with the weights loaded in 16-bit numbers (float32: twice); plan=true compares it
    memory_gb: float | None = None
    licence: str | None = None  # rarely: of the weights; kept with the pictures, not checked

    @property
    def identity(self) -> dict[str, Any]:
        """The part of a run's identity that names the model."""
        return {"model": self.checkpoint, "revision": self.revision, "dtype": self.dtype}

    @property
    def rater(self) -> str:
        """The model's name in the tables."""
        from actors.vlm.loading import rater_name

        return rater_name(self.checkpoint, revision=self.revision)

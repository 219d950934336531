"""Settings of text-to-image models: the model, and how its pictures are drawn."""

from dataclasses import dataclass

from actors.settings import Settings, check_positive


@dataclass(kw_only=True)
class ImageModelSettings(Settings):
    """Settings of a text-to-image pipeline of diffusers and its device."""

    checkpoint: str  # hub name, folder, s3://bucket/folder or local:NAME
    revision: str | None = None  # rarely: of the hub's repository: a branch, tag or commit
    dtype: str = "auto"  # rarely: auto: bfloat16 on a GPU, float32 on a CPU; or float32, bfloat16, float16
    device: str = "auto"  # rarely: auto: a GPU if there is one; else cpu, cuda, cuda:1


@dataclass(kw_only=True)
class DrawingSettings(Settings):
    """Settings that determine how a picture is drawn; null leaves a value to the model's pipeline."""

    width: int | None = None  # pixels; most models need a multiple of 8 or 16
    height: int | None = None  # pixels
    steps: int | None = None  # denoising steps
    guidance: float | None = None  # scale of classifier-free guidance
    negative_prompt: str = ""  # what the pictures must not show
    seed: int = 0  # each picture's seed is derived from it

    def __post_init__(self) -> None:
        check_positive(width=self.width, height=self.height, steps=self.steps)
        if self.guidance is not None and self.guidance < 0:
            raise ValueError(f"guidance={self.guidance:g}: must be at least 0")
        super().__post_init__()

    @property
    def options(self) -> dict[str, int | float | str]:
        """Return the values that are set, as arguments of a diffusers pipeline."""
        values = {
            "width": self.width,
            "height": self.height,
            "num_inference_steps": self.steps,
            "guidance_scale": self.guidance,
            "negative_prompt": self.negative_prompt or None,
        }
        return {name: value for name, value in values.items() if value is not None}

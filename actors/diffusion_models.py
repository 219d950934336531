"""Text-to-image models of diffusers: settings, checks before a run, and loading."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors import hub
from actors.devices import check_device, check_dtype, find_device, find_dtype
from actors.errors import ModelError, SettingError, first_line
from actors.local_models import is_local
from actors.model_files import check_stored_weights, check_weights, is_s3, read, resolve
from actors.settings import RuntimeOnly, Settings, check_positive
from actors.untrusted import parse_json

INDEX = "model_index.json"
LIBRARIES = ("diffusers", "transformers")


@dataclass(kw_only=True)
class ImageModelSettings(Settings):
    """Settings of a text-to-image pipeline of diffusers and its device."""

    checkpoint: str  # hub name, folder, s3://bucket/folder or local:NAME
    revision: str | None = None  # rarely: of the hub's repository: a branch, tag or commit
    dtype: str = "auto"  # rarely: auto: bfloat16 on a GPU, float32 on a CPU; or float32, bfloat16, float16
    device: RuntimeOnly[str] = "auto"  # rarely: auto: a GPU if there is one; else cpu, cuda, cuda:1


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
            raise SettingError("must be at least 0", "guidance", self.guidance)
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


def check_image_model(settings: ImageModelSettings) -> None:
    """Check that a text-to-image pipeline exists, from its small files and without loading weights.

    Raises:
        ValueError: the dtype or device is unknown; the model does not exist, or is not a pipeline of diffusers.
    """
    check_dtype(settings.dtype)
    check_device(settings.device)
    model = settings.checkpoint
    if is_s3(model):
        text = read(model, INDEX)
        check_stored_weights(model, nested=True)
    elif is_local(model) or Path(model).is_dir():
        check_weights(Path(resolve(model)), nested=True)
        file = Path(resolve(model)) / INDEX
        text = file.read_text(encoding="utf-8") if file.is_file() else None
    elif model.startswith(("/", ".", "~")):
        raise ModelError("no such folder", model)
    else:
        text = hub.read(model, INDEX, revision=settings.revision)
    try:
        index = parse_json(text or "")
        kind = index["_class_name"]
    except (ValueError, KeyError, TypeError):
        raise ModelError(
            f"not a pipeline of diffusers (no {INDEX} with a _class_name); use the folder or repository of a pipeline",
            model,
        ) from None
    import diffusers

    if str(kind).startswith("_") or not hasattr(diffusers, str(kind)):
        raise ModelError(f"the installed diffusers {diffusers.__version__} has no {kind}", model)
    for part, value in index.items():  # diffusers imports the library of each part
        library = value[0] if isinstance(value, list) and len(value) == 2 else None
        if part[:1] != "_" and isinstance(library, str) and not _is_known(library):
            raise ModelError(
                f"{INDEX}: {part} is of {library!r}; only parts of {' and '.join(LIBRARIES)} are allowed", model
            )


def _is_known(library: str) -> bool:
    from diffusers import pipelines

    return library in LIBRARIES or hasattr(pipelines, library)


def load_pipeline(settings: ImageModelSettings) -> Any:
    """Load a pipeline for inference on its device, from safetensors only and without running remote code.

    Raises:
        ValueError: the device or dtype is unknown, or the model cannot be loaded.
    """
    import torch
    from diffusers import DiffusionPipeline

    device = find_device(settings.device)
    dtype = getattr(torch, find_dtype(settings.dtype, device))
    name = resolve(settings.checkpoint, nested=True)
    if Path(name).is_dir():
        check_weights(Path(name), nested=True)
    try:
        pipeline = DiffusionPipeline.from_pretrained(
            name,
            revision=settings.revision,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
        )
    except (RuntimeError, MemoryError):  # an error of the device, such as too little memory
        raise
    except Exception as error:  # model files are untrusted, so any exception is possible
        raise ModelError(
            f"cannot load the text-to-image model at revision {settings.revision or 'main'} "
            f"({first_line(error)}); use a pipeline of diffusers with safetensors, or local:sd3-tiny",
            settings.checkpoint,
        ) from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device)

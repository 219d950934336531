"""Encoders of transformers: SigLIP, SigLIP 2 (fixed resolution), CLIP, and DINOv2 for pictures only.

They are named `transformers:org/name`, `transformers:FOLDER` or `transformers:local:NAME`. Pictures go through the
model's own processor: up to whole pixels on CPUs, then on the device. SigLIP's texts are canonicalised (SigLIP 2's
lower-cased) and padded to the length used in training, without an attention mask.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from actors import model_files
from actors.encoders.activations import make_contiguous
from actors.encoders.plain_files import CONFIG, PlainFiles, read_plain
from actors.errors import first_line
from actors.hub import check_reachable, commit, read
from actors.model_files import check_weights
from actors.special_tokens import DataTexts, special_tokens

if TYPE_CHECKING:
    import torch
    from PIL import Image

PREFIX = "transformers:"

_DIM: dict[str, Callable[[Any], int]] = {  # by config.model_type
    "siglip": lambda config: int(config.vision_config.hidden_size),
    "clip": lambda config: int(config.projection_dim),
    "dinov2": lambda config: int(config.hidden_size),
    "dinov2_with_registers": lambda config: int(config.hidden_size),
}
_GEMMA_VOCABULARY = 256_000  # SigLIP 2 uses Gemma's tokenizer
_UNCLEAN_AND_CLEAN = ("A cat, here!", "a cat here")


MOST_DIM = 65_536  # length of a vector
MOST_PIXELS = 4096  # per side of a model's input; the largest encoders have several hundred


def check_size(size: tuple[int, int]) -> None:
    """Check the height and width of a model's input. Raises ValueError for sizes that no encoder has."""
    if not all(isinstance(side, int) and 0 < side <= MOST_PIXELS for side in size):
        raise ValueError(f"its pictures have {size[0]} x {size[1]} pixels; allowed are 1 to {MOST_PIXELS} a side")


class HubEncoder:
    """An encoder that transformers can load: its config and processors, without weights."""

    def __init__(self, model: str, revision: str | None) -> None:
        """Read the configs.

        Raises:
            ValueError: the architecture is not supported; the folder does not exist; the model is neither in the hub's
                cache nor on the hub; files cannot be read or have absurd values.
            OSError: the config or the picture processor is missing.
        """
        self.name = model_files.resolve(model.removeprefix(PREFIX))
        self.folder = Path(self.name) if Path(self.name).is_dir() else None
        if self.folder and revision is not None:
            raise ValueError(f"pretrained={revision}: a folder has no revisions; use null")
        if self.folder is None:
            if self.name.startswith(("/", ".", "~")):
                raise ValueError(f"{model}: no such folder")
            # Checked first because transformers would retry an unreachable hub for half a minute.
            if read(self.name, CONFIG, revision=revision) is None:
                raise ValueError(f"{model}: the hub has no such model for transformers (no config.json)")
        self._model, self._revision = model, revision
        self._options: dict[str, Any] = {"revision": revision, "trust_remote_code": False}
        if self.folder:
            check_weights(self.folder)
        self._plain = self._read_plain()
        check_size(self.size)
        if not 0 < self.dim <= MOST_DIM:
            raise ValueError(f"{model}: its vectors have {self.dim} numbers; allowed are 1 to {MOST_DIM}")

    def _read_plain(self) -> PlainFiles | None:
        """Return the facts that the files contain by themselves; None if transformers is needed."""
        try:
            return read_plain(self._read_file)
        except (ValueError, OSError):  # unreadable files, or no answer from the hub
            return None

    def _read_file(self, name: str) -> str | None:
        if self.folder is None:
            return read(self.name, name, revision=self._revision)
        file = self.folder / name
        return file.read_text(encoding="utf-8") if file.is_file() else None

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """The config and picture processor that transformers loads."""
        try:
            config, processor = self._load()
        except (ValueError, OSError, MemoryError):
            raise
        except Exception as error:  # model files are untrusted, so any exception is possible
            raise ValueError(f"{self._model}: cannot be read ({type(error).__name__}: {first_line(error)})") from error
        if self._plain and (actual := _in_one_line(processor)) != self.preprocessing:
            raise RuntimeError(
                f"{self._model}: the installed transformers preprocesses pictures with {actual}, but the model's files "
                f"require {self.preprocessing}; install the version that constraints.txt pins"
            )
        return config, processor

    def _load(self) -> tuple[Any, Any]:
        from transformers import AutoConfig, AutoImageProcessor

        config = AutoConfig.from_pretrained(self.name, **self._options)
        if config.model_type == "siglip2":
            raise ValueError(f"{self._model}: NaFlex models are not supported; use a model with a fixed picture size")
        if config.model_type not in _DIM:
            raise ValueError(f"{self._model}: is a {config.model_type}; must be one of {', '.join(_DIM)}")
        loader: Any = AutoImageProcessor
        return config, loader.from_pretrained(self.name, **self._options)

    @property
    def config(self) -> Any:
        """The config of transformers."""
        return self._loaded[0]

    @property
    def processor(self) -> Any:
        """The picture processor of transformers."""
        return self._loaded[1]

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._plain.dim if self._plain else _DIM[self.config.model_type](self.config)

    @property
    def texts(self) -> bool:
        """Whether it has a text tower."""
        return self._plain.texts if self._plain else hasattr(self.config, "text_config")

    @property
    def preprocessing(self) -> str:
        """The picture processor's settings on one line."""
        return _one_line(self._plain.kind, self._plain.settings) if self._plain else _in_one_line(self.processor)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the model's input."""
        if self._plain:
            return self._plain.size
        settings = self.processor.crop_size if getattr(self.processor, "do_center_crop", False) else self.processor.size
        if settings.get("height") is None or settings.get("width") is None:
            raise ValueError(f"{self._model}: takes pictures of any shape; choose a model with a fixed size")
        return int(settings["height"]), int(settings["width"])

    @property
    def shortest(self) -> bool:
        """Whether a picture is resized by its shorter side."""
        return bool(dict(self.processor.size).get("shortest_edge"))

    def revision(self) -> str:
        """Return the hub's commit, or a hash of the folder's weights."""
        if self.folder is None:
            return commit(self.name, CONFIG, revision=self._revision) or self._revision or "main"
        files = sorted(self.folder.glob("*.safetensors"))
        if not files:
            raise FileNotFoundError(f"{PREFIX}{self.name}: the folder has no .safetensors files")
        digest = hashlib.sha256()
        for file in files:
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()[:16]

    def check_weights(self) -> None:
        """Check that the weights are in the hub's cache or on the hub; raises ValueError if not."""
        files = ("model.safetensors", "model.safetensors.index.json")
        check_reachable(self.name, files=files, revision=self._revision)

    def resize(self, picture: "Image.Image") -> np.ndarray:
        """Return the picture at the model's input size, [height, width, 3] uint8, before normalisation."""
        inputs = self.processor(images=[picture], do_rescale=False, do_normalize=False, return_tensors="pt")
        pixels: torch.Tensor = inputs["pixel_values"][0]
        if str(pixels.dtype) != "torch.uint8":
            raise RuntimeError(f"{type(self.processor).__name__} of this transformers resizes to {pixels.dtype}")
        return np.ascontiguousarray(pixels.permute(1, 2, 0).numpy())

    def load(self, *, device: "torch.device", dtype: "torch.dtype") -> "HubTower":
        """Load the model from safetensors onto the device."""
        return HubTower(self, device=device, dtype=dtype)

    def load_model(self, dtype: "torch.dtype") -> Any:
        """Load the transformers model."""
        from transformers import AutoModel

        return AutoModel.from_pretrained(self.name, dtype=dtype, use_safetensors=True, **self._options)

    def load_tokenizer(self) -> Any:
        """Load the tokenizer; raises ValueError or OSError if its files cannot be read."""
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(self.name, **self._options)
        except (ValueError, OSError, MemoryError):
            raise
        except Exception as error:  # model files are untrusted, so any exception is possible
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise ValueError(f"{self.name}: its tokenizer cannot be read ({reason})") from error


class HubTower:
    """A loaded encoder, whose features are not normalised yet."""

    def __init__(self, encoder: HubEncoder, *, device: "torch.device", dtype: "torch.dtype") -> None:
        from actors import onednn

        onednn.enable()
        self._encoder, self._device, self._dtype = encoder, device, dtype
        self._model = encoder.load_model(dtype).to(device).eval()
        if encoder.config.model_type == "siglip":  # the others have a class token
            make_contiguous(self._model.vision_model.embeddings)
        self.logit_scale = exponential(getattr(self._model, "logit_scale", None))
        self.dim, self.size = encoder.dim, encoder.size

    def pictures(self, pixels: "torch.Tensor") -> "torch.Tensor":
        """Encode uint8 [n, 3, height, width] on the device, normalised by the model's processor; return [n, dim]."""
        processor = self._encoder.processor
        scaled = processor.rescale_and_normalize(
            pixels,
            do_rescale=processor.do_rescale,
            rescale_factor=processor.rescale_factor,
            do_normalize=processor.do_normalize,
            image_mean=tuple(processor.image_mean),
            image_std=tuple(processor.image_std),
        ).to(self._dtype)
        if not self._encoder.texts:
            features: torch.Tensor = self._model(pixel_values=scaled).pooler_output
            return features
        return _features(self._model.get_image_features(pixel_values=scaled))

    def texts(self, texts: Sequence[str]) -> "torch.Tensor":
        """Encode texts; returns [n, dim]."""
        length = self._encoder.config.text_config.max_position_embeddings
        tokens = self._tokenizer(
            [self._clean(self._as_data(text)) for text in texts],
            padding="max_length",
            truncation=True,
            max_length=length,
            return_tensors="pt",
        ).to(self._device)
        inputs = {"input_ids": tokens["input_ids"]}
        if self._encoder.config.model_type == "clip":  # SigLIP was trained without a mask
            inputs["attention_mask"] = tokens["attention_mask"]
        return _features(self._model.get_text_features(**inputs))

    @cached_property
    def _tokenizer(self) -> Any:
        return self._encoder.load_tokenizer()

    @cached_property
    def _as_data(self) -> DataTexts:
        return DataTexts(special_tokens(self._tokenizer))

    @cached_property
    def _clean(self) -> Callable[[str], str]:
        """The text cleaning used in training that the tokenizer does not do itself."""
        config = self._encoder.config
        if config.model_type != "siglip":
            return str
        one, other = (self._tokenizer(text)["input_ids"] for text in _UNCLEAN_AND_CLEAN)
        if one == other:
            return str
        if config.text_config.vocab_size == _GEMMA_VOCABULARY:
            return str.lower
        from open_clip.tokenizer import canonicalize_text

        clean: Callable[[str], str] = canonicalize_text
        return clean


def exponential(scale: "torch.Tensor | None") -> float | None:
    """Return exp of a model's `logit_scale`; None if it has none."""
    return None if scale is None else float(scale.detach().exp())


def is_hub_encoder(model: str) -> bool:
    """Return whether `model` is the name of an encoder of transformers."""
    return model.startswith(PREFIX)


def _features(output: Any) -> "torch.Tensor":
    """Return the features in the output of transformers 5; before 5, the output itself."""
    features: torch.Tensor = output.pooler_output if hasattr(output, "pooler_output") else output
    return features


def _in_one_line(processor: Any) -> str:
    settings = {name: value for name, value in processor.to_dict().items() if value is not None}
    return _one_line(settings.pop("image_processor_type", type(processor).__name__), settings)


def _one_line(kind: str, settings: dict[str, Any]) -> str:
    return f"{kind};{json.dumps(settings, sort_keys=True, default=_plain, separators=(',', ':'))}"


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "items") else str(value)

"""Encoders of transformers: SigLIP, SigLIP 2 (fixed resolution), CLIP, and DINOv2 for pictures only.

They are named `transformers:org/name`, `transformers:FOLDER` or `transformers:local:NAME`. Pictures go through the
model's own processor: up to whole pixels on CPUs, then on the device. SigLIP's texts are canonicalised (SigLIP 2's
lower-cased) and padded to the length used in training, without an attention mask.

An encoder's identity is read from its files without importing transformers, which takes seconds of CPU: a driver needs
only a few numbers of two small JSON files. Files with anything out of the ordinary are left to transformers.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from actors import model_files
from actors.devices import enable_onednn
from actors.errors import ModelError, SettingError, first_line
from actors.hub import check_reachable, commit, read
from actors.model_files import check_weights
from actors.special_tokens import DataTexts, special_tokens
from actors.untrusted import parse_json

if TYPE_CHECKING:
    import torch
    from PIL import Image

PREFIX = "transformers:"
_GEMMA_VOCABULARY = 256_000  # SigLIP 2 uses Gemma's tokenizer
_UNCLEAN_AND_CLEAN = ("A cat, here!", "a cat here")
MOST_DIM = 65_536  # length of a vector
MOST_PIXELS = 4096  # per side of a model's input; the largest encoders have several hundred
CONFIG, PICTURES, OF_ALL = "config.json", "preprocessor_config.json", "processor_config.json"
_TOWERS = ("text_config", "vision_config")
_WORDS = {"model_type", "hidden_act", "dtype", "torch_dtype", "transformers_version", "_name_or_path"}
_LISTS = {"architectures", "out_features", "out_indices", "stage_names"}
_WHOLE = re.compile(r"num_.*|.*_(size|dim|id)|max_position_embeddings")
_MOST = 10**7  # larger than any number in these files; others are left to transformers
# Where transformers finds the length of a vector, by `model_type`; its default if the file has none; and whether the
# encoder has a text tower.
_DIM: dict[str, tuple[tuple[str, ...], int, bool]] = {
    "siglip": (("vision_config", "hidden_size"), 768, True),
    "clip": (("projection_dim",), 512, True),
    "dinov2": (("hidden_size",), 768, False),
    "dinov2_with_registers": (("hidden_size",), 768, False),
}
_CONVERT = "do_convert_rgb"  # True in all three by default
_IGNORED = {"image_processor_type", "processor_class"}


def check_size(size: tuple[int, int]) -> None:
    """Check the height and width of a model's input. Raises ValueError for sizes that no encoder has."""
    if not all(isinstance(side, int) and 0 < side <= MOST_PIXELS for side in size):
        raise ValueError(f"its pictures have {size[0]} x {size[1]} pixels; allowed are 1 to {MOST_PIXELS} a side")


class PlainFiles(NamedTuple):
    """The facts in an encoder's files."""

    dim: int  # length of a vector
    texts: bool  # whether it has a text tower
    kind: str  # class of the picture processor
    settings: dict[str, Any]  # settings of the picture processor, with defaults filled in

    @property
    def size(self) -> tuple[int, int]:
        """The height and width of the model's input."""
        size = self.settings.get("crop_size", self.settings["size"])
        return size["height"], size["width"]


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
            raise SettingError("a folder has no revisions; use null", "pretrained", revision)
        if self.folder is None:
            if self.name.startswith(("/", ".", "~")):
                raise ModelError("no such folder", model)
            # Checked first because transformers would retry an unreachable hub for half a minute.
            if read(self.name, CONFIG, revision=revision) is None:
                raise ModelError("the hub has no such model for transformers (no config.json)", model)
        self._model, self._revision = model, revision
        self._options: dict[str, Any] = {"revision": revision, "trust_remote_code": False}
        if self.folder:
            check_weights(self.folder)
        self._plain = self._read_plain()
        check_size(self.size)
        if not 0 < self.dim <= MOST_DIM:
            raise ModelError(f"its vectors have {self.dim} numbers; allowed are 1 to {MOST_DIM}", model)

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
            raise ModelError(f"cannot be read ({type(error).__name__}: {first_line(error)})", self._model) from error
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
            raise ModelError("NaFlex models are not supported; use a model with a fixed picture size", self._model)
        if config.model_type not in _DIM:
            raise ModelError(f"is a {config.model_type}; must be one of {', '.join(_DIM)}", self._model)
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
        return (
            self._plain.dim if self._plain else int(attrgetter(".".join(_DIM[self.config.model_type][0]))(self.config))
        )

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
            raise ModelError("takes pictures of any shape; choose a model with a fixed size", self._model)
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
            raise ModelError(f"its tokenizer cannot be read ({reason})", self.name) from error


class HubTower:
    """A loaded encoder, whose features are not normalised yet."""

    def __init__(self, encoder: HubEncoder, *, device: "torch.device", dtype: "torch.dtype") -> None:
        enable_onednn()
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


def make_contiguous(embedding: "torch.nn.Module") -> None:
    """Make the patches that a module returns, [n, patches, width], contiguous from now on, with the same values.

    A patch embedding ends in `flatten(2).transpose(1, 2)`, and additions keep the strides of their operands. Without a
    class token, whose concatenation copies, each addition and layer norm of the tower would be a strided kernel, which
    took a third of the time of ViT-B-16-SigLIP on a GPU.
    """

    def copy(module: Any, inputs: Any, output: Any) -> Any:
        # Some patch embeddings return feature maps [n, channels, height, width] or tuples, with other layouts.
        return output.contiguous() if getattr(output, "ndim", None) == 3 else output

    embedding.register_forward_hook(copy)


def _is_size(*sides: str) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        return isinstance(value, dict) and sorted(value) == sorted(sides) and all(map(_is_whole, value.values()))

    return check


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 < value < _MOST


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -_MOST < value < _MOST


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _are_channels(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_number, value))


_SETTINGS: dict[str, Callable[[Any], bool]] = {
    "do_normalize": _is_flag,
    "do_rescale": _is_flag,
    "do_resize": _is_flag,
    "image_mean": _are_channels,
    "image_std": _are_channels,
    "resample": lambda value: type(value) is int and 0 <= value < 6,
    "rescale_factor": _is_number,
}
_SQUASHED = _SETTINGS | {"size": _is_size("height", "width")}
_CROPPED = _SETTINGS | {
    "size": _is_size("shortest_edge"),
    "crop_size": _is_size("height", "width"),
    "do_center_crop": _is_flag,
}
_PROCESSORS = {"SiglipImageProcessor": _SQUASHED, "CLIPImageProcessor": _CROPPED, "BitImageProcessor": _CROPPED}


def read_plain(read: Callable[[str], str | None]) -> PlainFiles | None:
    """Return the facts in an encoder's files; None if only transformers can determine them.

    Args:
        read: returns the text of the file with this name, or None if it does not exist.
    """
    texts = {name: read(name) for name in (CONFIG, PICTURES, OF_ALL)}
    if texts[OF_ALL] is not None:  # may contain the settings for pictures too
        return None
    try:
        config, pictures = parse_json(texts[CONFIG] or ""), parse_json(texts[PICTURES] or "")
    except ValueError:
        return None
    if not (isinstance(config, dict) and isinstance(pictures, dict) and _is_plain(config)):
        return None
    kind, place = _processor(pictures), _DIM.get(config.get("model_type", ""))
    if kind is None or place is None:
        return None
    (*towers, key), default, texts_too = place
    for tower in towers:
        config = config.get(tower, {})
    settings = {_CONVERT: True} | {name: value for name, value in pictures.items() if name not in _IGNORED}
    return PlainFiles(config.get(key, default), texts_too, kind, settings)


def _is_plain(config: Mapping[str, Any], *, inner: bool = False) -> bool:
    """Return whether a config has only numbers of a usual size, flags, and texts where texts belong."""
    for name, value in config.items():
        if not inner and name in _TOWERS:
            plain = isinstance(value, dict) and _is_plain(value, inner=True)
        elif name in _LISTS:
            plain = isinstance(value, list) and all(isinstance(part, str | int) for part in value)
        elif name in _WORDS:
            plain = isinstance(value, str)
        elif _WHOLE.fullmatch(name):
            plain = _is_whole(value) or (value == 0 and name.endswith("_id") and type(value) is int)
        else:
            plain = _is_flag(value) or _is_number(value)
        if not plain:
            return False
    return True


def _processor(pictures: Mapping[str, Any]) -> str | None:
    """Return the class of the picture processor; None unless the file has exactly this class's settings."""
    kind = pictures.get("image_processor_type")
    checks = _PROCESSORS.get(kind) if isinstance(kind, str) else None
    if checks is None or set(pictures) - _IGNORED - {_CONVERT} != set(checks):
        return None
    plain = _is_flag(pictures.get(_CONVERT, True)) and all(check(pictures[name]) for name, check in checks.items())
    return kind if plain and pictures.get("do_center_crop", True) else None  # without a crop, sizes differ

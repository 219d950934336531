"""Encoders of transformers: those with a tower for pictures and one for texts, and those for pictures only.

They are named `transformers:org/name`, `transformers:FOLDER` or `transformers:local:NAME`. Their class in transformers
says what they are: one with `get_image_features` and `get_text_features` is a dual encoder (SigLIP, SigLIP 2, CLIP,
MetaCLIP 2, AIMv2, …), another one that takes only pixels has a vector for pictures alone (DINOv2, DINOv3, …).

Pictures go through the model's own processor (`RowForm`). SigLIP's texts are canonicalised (SigLIP 2's lower-cased) and
padded to the length used in training, without an attention mask.
"""

import hashlib
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from actors import model_files
from actors.devices import enable_onednn
from actors.encoders.plain_files import CONFIG, PlainFiles, in_one_line, one_line, read_plain
from actors.errors import ModelError, SettingError, first_line
from actors.hub import check_reachable, commit, read
from actors.model_files import check_weights
from actors.special_tokens import DataTexts, special_tokens

if TYPE_CHECKING:
    import torch
    from PIL import Image

PREFIX = "transformers:"
_GEMMA_VOCABULARY = 256_000  # SigLIP 2 uses Gemma's tokenizer
_UNCLEAN_AND_CLEAN = ("A cat, here!", "a cat here")
MOST_DIM = 65_536  # length of a vector
MOST_PIXELS = 4096  # per side of a model's input; the largest encoders have several hundred
_SAME = 1e-5  # difference of normalised pixels that two orders of the same steps may have
_SHAPE_BYTES = 8


def check_dim(dim: int, model: str) -> None:
    """Check the length of a model's vectors. Raises ModelError for lengths that no encoder has."""
    if not 0 < dim <= MOST_DIM:
        raise ModelError(f"its vectors have {dim} numbers; allowed are 1 to {MOST_DIM}", model)


def check_size(size: tuple[int, int]) -> None:
    """Check the height and width of a model's input. Raises ValueError for sizes that no encoder has."""
    if not all(isinstance(side, int) and 0 < side <= MOST_PIXELS for side in size):
        raise ValueError(f"its pictures have {size[0]} x {size[1]} pixels; allowed are 1 to {MOST_PIXELS} a side")


class RowForm(Enum):
    """What a row of a decoded picture holds: as much of the preprocessing as CPUs can do with few bytes."""

    PIXELS = "uint8 [height, width, 3], before the normalisation"
    PATCHES = "uint8 [patches, patch * patch * 3] before the normalisation, then int32 [2], rows and columns of patches"
    FLOATS = "float32 [3, height, width], the processor's output, where the order of its steps allows no other form"


class HubFiles:
    """A model for transformers in a folder or on the hub: its name, revision and small files."""

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
        self.options: dict[str, Any] = {"revision": revision, "trust_remote_code": False}
        if self.folder:
            check_weights(self.folder)

    def read_file(self, name: str) -> str | None:
        """Return the text of a small file; None if it does not exist."""
        if self.folder is None:
            return read(self.name, name, revision=self._revision)
        file = self.folder / name
        return file.read_text(encoding="utf-8") if file.is_file() else None

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

    def load_model(self, dtype: "torch.dtype") -> Any:
        """Load the model of transformers, without an output layer for tokens.

        Raises:
            ModelError: its files lack weights, which would be random.
        """
        from transformers import AutoModel
        from transformers.utils import logging

        verbosity = logging.get_verbosity()
        logging.set_verbosity_error()  # the warning about weights that are left out, such as the output layer's
        try:
            options = self.options | {"dtype": dtype, "use_safetensors": True, "output_loading_info": True}
            model, loading = AutoModel.from_pretrained(self.name, **options)
        finally:
            logging.set_verbosity(verbosity)
        if missing := sorted(loading["missing_keys"]):
            why = f"its files lack {len(missing)} weights of the architecture, such as {missing[0]}"
            raise ModelError(f"{why}; use files in the form of transformers", self._model)
        return model


class HubEncoder(HubFiles):
    """An encoder that transformers can load: its config and picture processor, without weights."""

    def __init__(self, model: str, revision: str | None) -> None:
        """Read the configs; raises the errors of `HubFiles`."""
        super().__init__(model, revision)
        self._plain = self._read_plain()
        check_size(self.size)
        check_dim(self.dim, model)

    def _read_plain(self) -> PlainFiles | None:
        """Return the facts that the files contain by themselves; None if transformers is needed."""
        try:
            return read_plain(self.read_file)
        except (ValueError, OSError):  # unreadable files, or no answer from the hub
            return None

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """The config and picture processor that transformers loads."""
        try:
            config, processor = self._load()
        except (ValueError, OSError, MemoryError):
            raise
        except Exception as error:  # model files are untrusted, so any exception is possible
            raise ModelError(f"cannot be read ({type(error).__name__}: {first_line(error)})", self._model) from error
        if self._plain and (actual := in_one_line(processor)) != self.preprocessing:
            raise RuntimeError(
                f"{self._model}: the installed transformers preprocesses pictures with {actual}, but the model's files "
                f"require {self.preprocessing}; install the version that constraints.txt pins"
            )
        return config, processor

    def _load(self) -> tuple[Any, Any]:
        from transformers import AutoConfig, AutoImageProcessor

        config = AutoConfig.from_pretrained(self.name, **self.options)
        encoder = model_class(config)
        if not has_text_tower(encoder) and getattr(encoder, "main_input_name", None) != "pixel_values":
            raise ModelError(
                f"is a {config.model_type}; must be an encoder of pictures, such as SigLIP, CLIP and DINOv3, "
                "or a vision-language model",
                self._model,
            )
        loader: Any = AutoImageProcessor
        return config, loader.from_pretrained(self.name, **self.options)

    @property
    def config(self) -> Any:
        """The config of transformers."""
        return self._loaded[0]

    @property
    def processor(self) -> Any:
        """The picture processor of transformers."""
        return self._loaded[1]

    @cached_property
    def dim(self) -> int:
        """Length of a vector.

        Raises:
            ModelError: the model returns no vector for a whole picture.
        """
        return self._plain.dim if self._plain else _passed_dim(self.config, self.size, self._model)

    @property
    def texts(self) -> bool:
        """Whether it has a text tower."""
        return self._plain.texts if self._plain else has_text_tower(model_class(self.config))

    @property
    def preprocessing(self) -> str:
        """The picture processor's settings on one line."""
        return one_line(self._plain.kind, self._plain.settings) if self._plain else in_one_line(self.processor)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the model's input; of NaFlex models the largest number of patches, and pixels of one."""
        if self._plain:
            return self._plain.size
        processor = self.processor
        if (most := getattr(processor, "max_num_patches", None)) is not None:
            return int(most), int(processor.patch_size) ** 2
        settings = processor.crop_size if getattr(processor, "do_center_crop", False) else processor.size
        height, width = (getattr(settings, side, None) for side in ("height", "width"))
        if height is None or width is None:
            raise ModelError("takes pictures of any shape; choose a model with a fixed size", self._model)
        return int(height), int(width)

    @property
    def shortest(self) -> bool:
        """Whether a picture is resized by its shorter side."""
        return bool(self.processor.size and dict(self.processor.size).get("shortest_edge"))

    @cached_property
    def form(self) -> RowForm:
        """What a row of a decoded picture holds, as a small picture shows."""
        if hasattr(self.processor, "max_num_patches"):
            return RowForm.PATCHES
        from PIL import Image

        picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (37, 53, 3), np.uint8))
        pixels = self._processed(picture, do_rescale=False, do_normalize=False)["pixel_values"]
        if str(pixels.dtype) != "torch.uint8":
            return RowForm.FLOATS
        whole = self._processed(picture)["pixel_values"]
        return RowForm.PIXELS if (self.normalised(pixels) - whole).abs().max() < _SAME else RowForm.FLOATS

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a decoded picture (`RowForm`)."""
        height, width = self.size
        return height * width * 3 * (4 if self.form is RowForm.FLOATS else 1) + _SHAPE_BYTES * (
            self.form is RowForm.PATCHES
        )

    def prepare(self, picture: "Image.Image") -> np.ndarray:
        """Return a picture as an array whose bytes are a row (`RowForm`)."""
        if self.form is RowForm.FLOATS:
            return np.ascontiguousarray(self._processed(picture)["pixel_values"][0].numpy())
        inputs = self._processed(picture, do_rescale=False, do_normalize=False)
        pixels = inputs["pixel_values"][0]
        if self.form is RowForm.PIXELS:
            return np.ascontiguousarray(pixels.permute(1, 2, 0).numpy())
        shape = np.asarray(inputs["spatial_shapes"][0], np.int32)
        return np.concatenate([pixels.numpy().reshape(-1), shape.view(np.uint8)])

    def _processed(self, picture: "Image.Image", **options: bool) -> Any:
        return self.processor(images=[picture], return_tensors="pt", **options)

    def normalised(self, pixels: "torch.Tensor") -> "torch.Tensor":
        """Return uint8 [n, 3, …] as the processor rescales and normalises it, float32."""
        processor = self.processor
        scaled: torch.Tensor = processor.rescale_and_normalize(
            pixels,
            do_rescale=processor.do_rescale,
            rescale_factor=processor.rescale_factor,
            do_normalize=processor.do_normalize,
            image_mean=tuple(processor.image_mean),
            image_std=tuple(processor.image_std),
        )
        return scaled

    def load(self, *, device: "torch.device", dtype: "torch.dtype") -> "HubTower":
        """Load the model from safetensors onto the device."""
        return HubTower(self, device=device, dtype=dtype)

    def load_tokenizer(self) -> Any:
        """Load the tokenizer; raises ValueError or OSError if its files cannot be read."""
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(self.name, **self.options)
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
        if encoder.config.model_type == "siglip":  # the others have a class token, or patches from the processor
            make_contiguous(self._model.vision_model.embeddings)
        self.logit_scale = exponential(getattr(self._model, "logit_scale", None))
        self.dim, self.row_bytes = encoder.dim, encoder.row_bytes

    def pictures(self, pixels: "torch.Tensor") -> "torch.Tensor":
        """Encode uint8 [n, 3, height, width] on the device, normalised by the model's processor; return [n, dim]."""
        return self._features(pixel_values=self._encoder.normalised(pixels))

    def rows(self, rows: "torch.Tensor") -> "torch.Tensor":
        """Encode rows of decoded pictures, uint8 [n, row_bytes] on the device; return [n, dim]."""
        import torch

        height, width = self._encoder.size
        if self._encoder.form is RowForm.PIXELS:
            return self.pictures(channels_first(rows, height, width))
        if self._encoder.form is RowForm.FLOATS:
            return self._features(pixel_values=rows.contiguous().view(torch.float32).view(-1, 3, height, width))
        shapes = rows[:, -_SHAPE_BYTES:].contiguous().view(torch.int32).long().clamp_(min=1)  # 0: a row that is not ok
        mask = torch.arange(height, device=rows.device) < shapes.prod(1, keepdim=True)
        patches = rows[:, :-_SHAPE_BYTES].view(-1, height, width, 3).permute(0, 3, 1, 2)
        patches = self._encoder.normalised(patches).permute(0, 2, 3, 1).reshape(len(rows), height, -1)
        patches = patches * mask.unsqueeze(2)  # missing patches are zeros behind the normalisation
        return self._features(pixel_values=patches, pixel_attention_mask=mask.int(), spatial_shapes=shapes)

    def _features(self, *, pixel_values: "torch.Tensor", **inputs: "torch.Tensor") -> "torch.Tensor":
        features = picture_features(self._model, pixel_values=pixel_values.to(self._dtype), **inputs)
        if features is None or features.shape[1] != self.dim:
            shape = "none" if features is None else f"vectors of {features.shape[1]}"
            raise ModelError(
                f"its model returns {shape} for a picture instead of {self.dim} numbers", self._encoder.name
            )
        return features

    def texts(self, texts: Sequence[str]) -> "torch.Tensor":
        """Encode texts; returns [n, dim]."""
        length = min(self._encoder.config.text_config.max_position_embeddings, self._tokenizer.model_max_length)
        tokens = self._tokenizer(
            [self._clean(self._as_data(text)) for text in texts],
            padding="max_length",
            truncation=True,
            max_length=length,
            return_tensors="pt",
        ).to(self._device)
        inputs = {"input_ids": tokens["input_ids"]}
        if not self._is_siglip:  # SigLIP was trained without a mask
            inputs["attention_mask"] = tokens["attention_mask"]
        features = _pooled(self._model.get_text_features(**inputs))
        if features is None:
            raise ModelError("has no vector for a whole text; use an encoder with a pooled output", self._encoder.name)
        return features

    @property
    def _is_siglip(self) -> bool:
        return bool(self._encoder.config.model_type.startswith("siglip"))

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
        if not self._is_siglip:
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


def model_class(config: Any) -> type:
    """Return the class that transformers' `AutoModel` takes for a config; None's class if there is none."""
    from transformers import AutoModel

    mapping: Any = AutoModel
    if type(config) not in mapping._model_mapping:
        return type(None)
    classes = mapping._model_mapping[type(config)]
    first: type = classes[0] if isinstance(classes, tuple) else classes
    return first


def has_text_tower(encoder: type) -> bool:
    """Return whether a class of transformers has a vector for a picture and one for a text."""
    return hasattr(encoder, "get_image_features") and hasattr(encoder, "get_text_features")


def picture_features(model: Any, **inputs: "torch.Tensor") -> "torch.Tensor | None":
    """Return a model's vectors of pictures [n, dim], not normalised; None if it has none for a whole picture."""
    return _pooled(model.get_image_features(**inputs) if has_text_tower(type(model)) else model(**inputs))


def _pooled(output: Any) -> "torch.Tensor | None":
    """Return the features in the output of transformers 5; before 5, the output itself."""
    features = output if hasattr(output, "flatten") else getattr(output, "pooler_output", None)
    return None if features is None else features.flatten(1)


def _passed_dim(config: Any, size: tuple[int, int], model: str) -> int:
    """Return the length of a model's vectors by a pass without weights, or from its config where that is impossible.

    Raises:
        ModelError: it has no vector for a whole picture.
    """
    import torch
    from transformers import AutoModel

    try:
        with torch.device("meta"), torch.inference_mode():
            vectors = picture_features(AutoModel.from_config(config).eval(), pixel_values=torch.zeros(1, 3, *size))
    except Exception:  # NaFlex models read numbers from their inputs; model files are untrusted
        vision = getattr(config, "vision_config", config)
        return int(getattr(config, "projection_dim", None) or getattr(vision, "hidden_size", None) or 0)
    if vectors is None:
        raise ModelError(
            f"{config.model_type} has no vector for a whole picture; use an encoder with a pooled output", model
        )
    return int(vectors.shape[1])


def channels_first(rows: "torch.Tensor", height: int, width: int) -> "torch.Tensor":
    """Return rows [n, height * width * 3] as [n, 3, height, width]."""
    return rows.view(-1, height, width, 3).permute(0, 3, 1, 2).contiguous()


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

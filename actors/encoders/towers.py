"""A common interface to the encoders of open_clip and transformers: picture geometry, and the loaded model."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from actors.devices import DTYPES, enable_onednn
from actors.encoders.encoder_sources import (
    EncoderSource,
    Preprocessing,
    complete,
    find_source,
    geometry,
    pinned_weights,
)
from actors.encoders.transformers_encoders import channels_first, exponential, is_hub_encoder, make_contiguous
from actors.encoders.vlm_encoders import find_hub_encoder
from actors.errors import ModelError, first_line, has_other_shapes
from actors.special_tokens import DataTexts, special_tokens
from actors.uploads import tensor_of

if TYPE_CHECKING:
    import torch
    from PIL import Image


class Geometry(NamedTuple):
    """The part of the preprocessing that runs on a CPU."""

    prepare: "Callable[[Image.Image], np.ndarray]"  # returns an array whose bytes are a row for `Tower.rows`
    size: tuple[int, int]  # height, width of the model's input; 0, 0 if they differ by picture
    shortest: bool  # resized by the shorter side, then cropped


class Tower(Protocol):
    """Interface of a loaded encoder, whose features are not normalised yet."""

    dim: int
    logit_scale: float | None  # factor of cosines before the softmax or sigmoid of its training

    @property
    def row_bytes(self) -> int | None:
        """Bytes of a decoded picture; None if they differ by picture."""

    def rows(self, rows: Any) -> "torch.Tensor":
        """Encode decoded pictures; return [n, dim] on the model's device.

        Args:
            rows: a tensor, uint8 [n, row_bytes] on the model's device; a sequence of n bytes objects if `row_bytes` is
                None.
        """

    def texts(self, texts: Sequence[str]) -> "torch.Tensor":
        """Encode texts; return [n, dim] on the model's device."""


def find_geometry(model: str, pretrained: str | None, *, instruction: str | None = None) -> Geometry:
    """Return how a model's pictures are prepared on a CPU; arguments as of `load_tower`, errors of `encoder_facts`."""
    if is_hub_encoder(model):
        encoder = find_hub_encoder(model, pretrained, instruction=instruction)
        return Geometry(encoder.prepare, encoder.size, encoder.shortest)
    preprocessing = find_source(model, pretrained).preprocessing
    resize = geometry(preprocessing)
    return Geometry(lambda picture: np.asarray(resize(picture)), preprocessing.size, preprocessing.resize == "shortest")


def load_tower(
    model: str, pretrained: str | None, *, device: "torch.device", dtype: str, instruction: str | None = None
) -> Tower:
    """Load a model, from safetensors wherever they exist; pickled code is never loaded.

    Args:
        instruction: what a vision-language model is asked to represent (`EncoderSettings.instruction`).

    Raises:
        ValueError, OSError: see `actors.encoders.encoder_sources.encoder_facts`.
        ModelError: the model's files cannot be loaded.
        RuntimeError: the device failed, or open_clip's preprocessing differs from the config's.
    """
    import torch

    try:
        if is_hub_encoder(model):
            encoder = find_hub_encoder(model, pretrained, instruction=instruction)
            return encoder.load(device=device, dtype=getattr(torch, dtype))
        return OpenClipTower(find_source(model, pretrained), device=device, dtype=dtype)
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        if not has_other_shapes(error):
            raise
        raise ModelError(
            "the shapes of some weights do not match its config; use its published files", model
        ) from error
    except Exception as error:  # model files are untrusted, so any exception is possible
        raise ModelError(f"cannot be loaded ({type(error).__name__}: {first_line(error)})", model) from error


class OpenClipTower:
    """An encoder of open_clip."""

    def __init__(self, source: EncoderSource, *, device: "torch.device", dtype: str) -> None:
        import open_clip
        import torch

        enable_onednn()
        precision, expected = DTYPES[dtype], source.preprocessing
        pretrained = pinned_weights(source) if source.commit else source.pretrained
        self._model = open_clip.create_model(
            source.model,
            pretrained,
            precision=precision,
            device=device,
            force_preprocess_cfg=_cfg(expected) if (pretrained or "").endswith(".safetensors") else None,
            require_pretrained=True,
            weights_only=True,
        ).eval()
        if (embedding := getattr(getattr(self._model.visual, "trunk", None), "patch_embed", None)) is not None:
            make_contiguous(embedding)  # for timm's towers; open_clip's own have a class token
        cfg = self._model.visual.preprocess_cfg
        loaded = Preprocessing(**complete(cfg, cfg["size"]))
        if loaded != expected:
            raise RuntimeError(f"{source.model}: open_clip preprocesses with {loaded}, but the config has {expected}")
        shape = (1, 3, 1, 1)
        self._mean = torch.tensor(loaded.mean, device=device).view(shape)
        self._std = torch.tensor(loaded.std, device=device).view(shape)
        self._dtype = open_clip.get_input_dtype(precision) or torch.float32
        self._tokenizer: Callable[[list[str]], torch.Tensor] | None = None
        self._source, self._device = source, device
        self.dim, self.size = int(source.config["embed_dim"]), loaded.size
        self.row_bytes = 3 * loaded.size[0] * loaded.size[1]
        self.logit_scale = exponential(getattr(self._model, "logit_scale", None))

    def pictures(self, pixels: "torch.Tensor") -> "torch.Tensor":
        """Encode uint8 [n, 3, height, width] on the model's device; return [n, dim]."""
        import torch

        # In the order of torchvision's ToTensor and Normalize, for bitwise equal results.
        scaled = pixels.to(torch.float32).div_(255).sub_(self._mean).div_(self._std)
        features: torch.Tensor = self._model.encode_image(scaled.to(self._dtype))
        return features

    def rows(self, rows: "torch.Tensor") -> "torch.Tensor":
        """Encode rows of pixels, uint8 [n, height * width * 3] on the model's device; return [n, dim]."""
        return self.pictures(channels_first(rows, *self.size))

    def texts(self, texts: Sequence[str]) -> "torch.Tensor":
        """Encode texts, cleaned, truncated and padded as in the model's config; return [n, dim]."""
        import open_clip

        if self._tokenizer is None:
            self._tokenizer = open_clip.get_tokenizer(self._source.model)
            self._as_data = DataTexts(special_tokens(self._tokenizer), ignore_case=True)
        tokens = self._tokenizer(list(map(self._as_data, texts)))
        features: torch.Tensor = self._model.encode_text(tokens.to(self._device))
        return features


def _cfg(preprocessing: Preprocessing) -> dict[str, object]:
    """Return a preprocess_cfg, with open_clip's names."""
    return {
        "mean": preprocessing.mean,
        "std": preprocessing.std,
        "interpolation": preprocessing.interpolation,
        "resize_mode": preprocessing.resize,
        "fill_color": preprocessing.fill,
    }


class PixelRows:
    """Joins rows into an array in reused memory, since allocating it would take as long as the copy."""

    def __init__(self, size: int) -> None:
        """`size`: bytes of a row's pixels."""
        import torch

        self._size, self._memory = size, torch.empty((0, size), dtype=torch.uint8)

    def join(self, pixels: pa.ChunkedArray, good: np.ndarray) -> "torch.Tensor":
        """Return uint8 [n, size], valid until the next call: the rows, with zeros for rows that are not good.

        Args:
            pixels: large_binary [n]; those of good rows have `size` bytes.
            good: bool [n].
        """
        import torch

        runs = list(self._runs(pixels, good))
        if len(runs) == 1 and len(runs[0][1]) == len(good):
            return runs[0][1]
        if len(self._memory) < len(good):
            self._memory = torch.empty((len(good), self._size), dtype=torch.uint8)
        joined = self._memory[: len(good)]
        for first, rows in runs:
            joined[first : first + len(rows)].copy_(rows)
        joined[torch.from_numpy(np.flatnonzero(~good))] = 0
        return joined

    def _runs(self, pixels: pa.ChunkedArray, good: np.ndarray) -> Iterator[tuple[int, "torch.Tensor"]]:
        """Yield runs of good rows that are adjacent in a chunk's memory, each with the index of its first row."""
        start = 0
        for chunk in pixels.chunks:
            edges = np.flatnonzero(np.diff(good[start : start + len(chunk)], prepend=False, append=False))
            for first, end in edges.reshape(-1, 2).tolist():
                _, offsets, data = chunk.buffers()
                offset = int(np.frombuffer(offsets, np.int64, 1, 8 * (chunk.offset + first))[0])
                rows = np.frombuffer(data, np.uint8, (end - first) * self._size, offset)
                yield start + first, tensor_of(rows).view(-1, self._size)
            start += len(chunk)

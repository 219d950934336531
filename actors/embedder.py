"""Pictures to vectors with open_clip, in two stages: decode and resize on CPUs, encode on an accelerator.

Preprocessing is the model's own, to the pixel, or there is none: open_clip falls back to OpenAI's without a word where
it knows no better, and SigLIP's vectors are then plausible and wrong. Everything that would make it do so is refused.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from actors import local_models
from actors.hub import check_reachable
from actors.pictures import DEFAULT_MAX_PIXELS, PictureError, decode_rgb
from actors.status import Status

if TYPE_CHECKING:
    import torch
    from PIL import Image

LOCAL_DIR, HF_HUB = "local-dir:", "hf-hub:"
DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # ours -> open_clip's word

_CONFIG_FILE = "open_clip_config.json"
_END = ("status", "error_kind", "error_message")
_DECODED = pa.schema(
    {
        "item_id": pa.string(),
        "kind": pa.string(),
        "pixels": pa.large_binary(),
        "status": pa.string(),
        "error_kind": pa.string(),
        "error_message": pa.string(),
    }
)
log = logging.getLogger(__name__)


class EncoderFacts(NamedTuple):
    """What identifies vectors: two tables may be compared only where both strings are equal."""

    encoder: str  # the model and its revision: tag, commit, or a hash of its weights
    dim: int  # length of a vector
    preprocessing: str  # "resize=squash;interpolation=bicubic;size=256x256;mean=0.5,0.5,0.5;std=0.5,0.5,0.5"


class _Preprocessing(NamedTuple):
    """open_clip's preprocess_cfg, complete."""

    resize: str
    interpolation: str
    size: tuple[int, int]  # height, width
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fill: int

    def __str__(self) -> str:
        mean, std = (",".join(f"{value:.8g}" for value in values) for values in (self.mean, self.std))
        size = f"{self.size[0]}x{self.size[1]}"
        text = f"resize={self.resize};interpolation={self.interpolation};size={size};mean={mean};std={std}"
        return f"{text};fill={self.fill}" if self.resize == "longest" else text  # the only mode that pads


class _Source(NamedTuple):
    """A model as open_clip takes it, and what its config says."""

    model: str
    pretrained: str | None
    config: dict[str, Any]
    preprocessing: _Preprocessing
    revision: Callable[[], str]


def encoder_facts(model: str, *, pretrained: str | None) -> EncoderFacts:
    """Identify an encoder from its config alone; weights are hashed at most, never loaded.

    Args:
        model: an open_clip name (`ViT-B-16-SigLIP-i18n-256`), `hf-hub:org/name`, `local-dir:FOLDER`, or
            `local:siglip-tiny` (`actors.local_models`).
        pretrained: open_clip's tag of the weights (`webli`) for a name; None for the other forms.

    Raises:
        ValueError: no such model or tag; a name without a tag (random weights); a tag that would be ignored; a config
            that leaves a part of the preprocessing, or the activation the weights were trained with, to a default.
        FileNotFoundError: a folder without config or safetensors; a hub repository without config.
    """
    source = _source(model, pretrained)
    shown = model if local_models.is_local(model) else source.model
    if shown.startswith(LOCAL_DIR):  # the folder's place on this machine says nothing about the model
        shown = LOCAL_DIR + Path(shown.removeprefix(LOCAL_DIR)).resolve().name
    return EncoderFacts(
        encoder=f"{shown}@{source.revision()}",
        dim=int(source.config["embed_dim"]),
        preprocessing=str(source.preprocessing),
    )


def check_weights(model: str, *, pretrained: str | None) -> None:
    """Ask, without a download, whether the weights can be had: cached, in a folder, or on the hub.

    Raises:
        ValueError, FileNotFoundError: as `encoder_facts`; ValueError if the hub cannot be reached or refuses.
    """
    import open_clip

    source = _source(model, pretrained)
    if source.model.startswith(LOCAL_DIR):
        return
    names = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin")
    if source.model.startswith(HF_HUB):
        check_reachable(source.model.removeprefix(HF_HUB), files=names)
        return
    repository = open_clip.get_pretrained_cfg(source.model, source.pretrained or "").get("hf_hub", "")
    if repository:  # else an address of its own, which open_clip downloads from
        owner, _, rest = repository.partition("/")
        name, _, file = rest.partition("/")
        check_reachable(f"{owner}/{name}", files=(file,) if file else names)


class PictureDecoder:
    """Decode pictures and bring them to the model's input size; runs on CPUs and loads no weights."""

    def __init__(self, *, model: str, pretrained: str | None, max_pixels: int = DEFAULT_MAX_PIXELS) -> None:
        """Prepare the geometric part of the model's own preprocessing.

        Raises:
            ValueError, FileNotFoundError: as `encoder_facts`.
        """
        self._preprocessing = _source(model, pretrained).preprocessing
        self._resize = _geometry(self._preprocessing)
        self._max_pixels = max_pixels

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Decode one batch.

        Args:
            batch: columns `image_id` (string), `bytes` (large_binary), `status`, `error_kind`, `error_message`
                (string); others are ignored.

        Returns:
            `item_id` (the image_id), `kind` ("image"), `pixels` (large_binary: height x width x 3 uint8 of the model's
            input, row by row, null unless ok), `status`, `error_kind`, `error_message`. Rows that were not ok stay as
            they were; ok without bytes becomes `missing_input`; what cannot be decoded becomes `error` with a kind of
            `actors.pictures.PictureError`.
        """
        pixels, statuses, kinds, messages = [], [], [], []
        for data, *end in zip(*(batch[name] for name in ("bytes", *_END)), strict=True):
            made, status, kind, message = self._row(data, *(value.as_py() for value in end))
            pixels.append(made)
            statuses.append(status)
            kinds.append(kind)
            messages.append(message)
        columns = [batch["image_id"].cast(pa.string()), ["image"] * len(pixels), pixels, statuses, kinds, messages]
        return pa.table(dict(zip(_DECODED.names, columns, strict=True)), schema=_DECODED)

    def _row(
        self, data: pa.LargeBinaryScalar, status: str, kind: str | None, message: str | None
    ) -> tuple[bytes | None, str, str | None, str | None]:
        if status != Status.OK:
            return None, status, kind, message
        if not data.is_valid:
            return None, Status.MISSING_INPUT.value, "no_bytes", "the row is ok but has no bytes"
        try:
            picture = decode_rgb(data.as_py(), max_pixels=self._max_pixels)
            self._check_resized(picture)
            return np.asarray(self._resize(picture)).tobytes(), Status.OK.value, None, None
        except PictureError as error:
            return None, Status.ERROR.value, error.kind, str(error)
        except ValueError as error:  # a side that rounds to nothing
            return None, Status.ERROR.value, "resize_failed", f"the picture cannot be resized ({error})"

    def _check_resized(self, picture: "Image.Image") -> None:
        """Brought to size by its shorter side before it is cropped, a strip of 1 x 100,000 would take 26 GB."""
        if self._preprocessing.resize != "shortest":
            return
        scale = max(self._preprocessing.size) / min(picture.size)
        if picture.width * picture.height * scale**2 > max(self._max_pixels, picture.width * picture.height):
            raise PictureError("too_elongated", f"{picture.width} x {picture.height} pixels have too long a side")


class Embedder:
    """Encode what `PictureDecoder` made, and texts."""

    def __init__(
        self,
        *,
        model: str,
        pretrained: str | None,
        device: str = "auto",
        dtype: str = "auto",
        batch_size: int = 64,
        threads: int | None = None,
    ) -> None:
        """Load the model, from safetensors wherever it has them and never by unpickling code.

        Args:
            model, pretrained: as `encoder_facts`.
            device: `auto` (cuda if there is one, else cpu) or a device of torch's.
            dtype: `auto` (bfloat16 on a cuda device that has it, else float32), `float32`, `bfloat16` or `float16`.
            batch_size: pictures or texts encoded at a time.
            threads: torch's threads in this process; None leaves them alone.

        Raises:
            ValueError, FileNotFoundError: as `encoder_facts`; an unknown device or dtype; a size that is not positive.
            RuntimeError: the weights cannot be loaded, or open_clip would preprocess in another way than announced.
        """
        import open_clip
        import torch

        for name, number in (("batch_size", batch_size), ("threads", threads)):
            if number is not None and number < 1:
                raise ValueError(f"{name} is {number}; it must be at least 1")
        if threads is not None:
            torch.set_num_threads(threads)
        self._device = _device(device)
        self._precision = DTYPES[_dtype(dtype, self._device)]
        self._source = source = _source(model, pretrained)
        self._model = open_clip.create_model(
            source.model,
            source.pretrained,
            precision=self._precision,
            device=self._device,
            require_pretrained=True,
            weights_only=True,
        ).eval()
        own = self._model.visual.preprocess_cfg
        loaded = _Preprocessing(**_complete(own, own["size"]))
        if loaded != source.preprocessing:
            raise RuntimeError(f"{model}: open_clip preprocesses with {loaded}, its config says {source.preprocessing}")
        shape = (1, 3, 1, 1)
        self._mean = torch.tensor(loaded.mean, device=self._device).view(shape)
        self._std = torch.tensor(loaded.std, device=self._device).view(shape)
        self._input_dtype = open_clip.get_input_dtype(self._precision) or torch.float32
        self._tokenizer: Callable[[list[str]], torch.Tensor] | None = None
        self._batch_size = batch_size
        self._halved = False
        self.dim = int(source.config["embed_dim"])

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Encode one batch of pictures.

        A row that is not ok keeps its place in the model's batch, as black pixels: the arithmetic of its neighbours,
        and so their vectors to the last bit, is then the same as if it had been good.

        Args:
            batch: what `PictureDecoder` returns.

        Returns:
            The columns of the table `embeddings` (jobs/tables.py): `item_id`, `kind`, `embedding` (fixed-size list of
            `dim` float16: normalised to length 1 in float32, then rounded; null unless ok), `status`, `error_kind`,
            `error_message`. Rows that were not ok stay as they were; ok without pixels becomes `missing_input`,
            pixels of another size `error` (`wrong_size`), a vector with NaN or infinity, or of length zero, `error`
            (`not_finite`).

        Raises:
            torch.OutOfMemoryError: the device's memory does not suffice for half of `batch_size` either.
        """
        statuses, kinds, messages = (batch[name].to_pylist() for name in _END)
        pixels = batch["pixels"]
        height, width = self._source.preprocessing.size
        for row, status in enumerate(statuses):
            if status != Status.OK:
                continue
            if not pixels[row].is_valid:
                end = (Status.MISSING_INPUT.value, "no_pixels", "the row is ok but has no pixels")
            elif (found := len(pixels[row].as_buffer())) != height * width * 3:
                message = f"{found} bytes of pixels are not {height} x {width} x 3"
                end = (Status.ERROR.value, "wrong_size", message)
            else:
                continue
            statuses[row], kinds[row], messages[row] = end
        good = np.array([status == Status.OK for status in statuses], dtype=bool)
        vectors = np.zeros((len(good), self.dim), np.float16)
        if good.any():
            encoded, finite = self._encode_rows(pixels, good)
            for row in np.flatnonzero(good & ~finite).tolist():
                statuses[row], kinds[row] = Status.ERROR.value, "not_finite"
                messages[row] = "the model returned a vector that is not finite or has no direction"
            good &= finite
            vectors[good] = encoded[good]
        embedding = pa.FixedSizeListArray.from_arrays(
            pa.array(vectors.reshape(-1), pa.float16()), type=pa.list_(pa.float16(), self.dim), mask=pa.array(~good)
        )
        strings = [pa.array(values, pa.string()) for values in (statuses, kinds, messages)]
        columns = [batch["item_id"].cast(pa.string()), batch["kind"].cast(pa.string()), embedding, *strings]
        return pa.table(dict(zip(("item_id", "kind", "embedding", *_END), columns, strict=True)))

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts with the model's own tokenizer.

        Returns:
            [len(texts), dim] float32, each row of length 1.

        Raises:
            torch.OutOfMemoryError: as `__call__`.
        """
        import open_clip

        if self._tokenizer is None:
            self._tokenizer = open_clip.get_tokenizer(self._source.model)
        tokenizer = self._tokenizer

        def encode(start: int, end: int) -> "torch.Tensor":
            return self._model.encode_text(tokenizer(list(texts[start:end])).to(self._device))

        return self._in_batches(len(texts), encode)

    def _encode_rows(self, pixels: pa.ChunkedArray, good: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vectors [n, dim] float16 and which of them are usable [n] bool; what stands in bad rows means nothing."""
        import torch

        height, width = self._source.preprocessing.size

        def encode(start: int, end: int) -> torch.Tensor:
            if not good[start:end].any():
                return torch.zeros((end - start, self.dim), device=self._device)
            stacked = np.zeros((end - start, height, width, 3), np.uint8)
            for slot in np.flatnonzero(good[start:end]).tolist():
                stacked[slot] = np.frombuffer(pixels[start + slot].as_buffer(), np.uint8).reshape(height, width, 3)
            pictures = torch.from_numpy(stacked).to(self._device).permute(0, 3, 1, 2)
            # ToTensor and Normalize in torchvision's own order of operations, for the same bits.
            scaled = pictures.contiguous().to(torch.float32).div_(255).sub_(self._mean).div_(self._std)
            return self._model.encode_image(scaled.to(self._input_dtype))

        vectors = self._in_batches(len(good), encode)
        return vectors.astype(np.float16), np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)

    def _in_batches(self, count: int, encode: Callable[[int, int], "torch.Tensor"]) -> np.ndarray:
        """Run `encode(start, end)` over all rows; [count, dim] float32, normalised on the device."""
        import torch

        parts = []
        start = 0
        while start < count:
            end = min(start + self._batch_size, count)
            try:
                with torch.inference_mode():
                    part = torch.nn.functional.normalize(encode(start, end).float(), dim=-1)
            except torch.OutOfMemoryError:
                if self._halved or self._batch_size == 1:
                    raise
            else:
                parts.append(part)  # left on the device: the next batch is packed while this one is computed
                start = end
                continue
            # Outside the except clause, whose traceback would keep the failed batch's memory.
            self._halved = True
            log.warning("out of memory on %s: batch size %d halved", self._device, self._batch_size)
            self._batch_size //= 2
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
        if not parts:
            return np.zeros((0, self.dim), np.float32)
        return torch.cat(parts).cpu().numpy()


def _device(name: str) -> "torch.device":
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device is {name!r}; allowed are auto, cpu, cuda, cuda:N and torch's others") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but torch sees no cuda device here; allowed are auto and cpu")
    return device


def _dtype(name: str, device: "torch.device") -> str:
    import torch

    if name == "auto":
        return "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"
    if name not in DTYPES:
        raise ValueError(f"dtype is {name!r}; allowed are auto, {', '.join(DTYPES)}")
    return name


def _source(model: str, pretrained: str | None) -> _Source:
    """Find a model's config and preprocessing. Raises as `encoder_facts`."""
    given = local_models.resolve(model)
    if local_models.is_local(model):
        given = LOCAL_DIR + given
    if given.startswith((LOCAL_DIR, HF_HUB)):
        if pretrained is not None:
            raise ValueError(f"pretrained is {pretrained!r}, but {model!r} brings its own weights; allowed is null")
        return _from_folder(given) if given.startswith(LOCAL_DIR) else _from_hub(given)
    return _from_name(given, pretrained)


def _from_folder(model: str) -> _Source:
    folder = Path(model.removeprefix(LOCAL_DIR))
    file = folder / _CONFIG_FILE
    if not file.is_file():
        raise FileNotFoundError(f"{model}: there is no {_CONFIG_FILE} in that folder")
    names = sorted(path.name for path in folder.glob("*.safetensors"))
    preferred = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "model.safetensors")
    weights = next((name for name in preferred if name in names), None)
    if weights is None:  # open_clip would unpickle another file, or go on with random weights
        raise FileNotFoundError(f"{model}: none of {', '.join(preferred)} is in that folder")

    def revision() -> str:
        with (folder / weights).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256")
        return digest.hexdigest()[:16]

    return _from_config(model, file, revision)


def _from_hub(model: str) -> _Source:
    from huggingface_hub import hf_hub_download

    name = model.removeprefix(HF_HUB)
    try:
        file = Path(hf_hub_download(name, _CONFIG_FILE))
    except Exception as error:  # its errors come from several libraries
        raise FileNotFoundError(f"{model}: the hub gave no {_CONFIG_FILE} ({error})") from error
    # The hub's cache keeps each commit in a folder of its own: snapshots/COMMIT/open_clip_config.json
    return _from_config(model, file, lambda: file.parent.name)


def _from_config(model: str, file: Path, revision: Callable[[], str]) -> _Source:
    config = json.loads(file.read_text(encoding="utf-8"))
    if "model_cfg" not in config:
        raise ValueError(f"{model}: {_CONFIG_FILE} has no model_cfg")
    preprocessing = _own_preprocessing(model, config.get("preprocess_cfg") or {}, config["model_cfg"])
    return _Source(model, None, config["model_cfg"], preprocessing, revision)


def _from_name(model: str, pretrained: str | None) -> _Source:
    import open_clip

    name = model.replace("/", "-")  # as open_clip does: ViT-B/32
    config = open_clip.get_model_config(name)
    if config is None:
        raise ValueError(f"model is {model!r}; allowed are open_clip's names, hf-hub:…, local-dir:… and local:…")
    tags = open_clip.list_pretrained_tags_by_model(name)
    if pretrained is None:
        raise ValueError(f"{model} without pretrained would have random weights; allowed are {', '.join(tags)}")
    weights = open_clip.get_pretrained_cfg(name, pretrained)
    if not weights:  # a file's path would do for open_clip, with OpenAI's preprocessing
        raise ValueError(f"pretrained is {pretrained!r} for {model}; allowed are {', '.join(tags)}")
    if weights.get("quick_gelu") and not config.get("quick_gelu"):  # open_clip warns and goes on
        raise ValueError(f"{pretrained!r} was trained with QuickGELU, {model} has none; allowed is {name}-quickgelu")
    preprocessing = _own_preprocessing(f"{model} {pretrained}", weights, config)
    return _Source(name, pretrained, config, preprocessing, lambda: pretrained)


def _own_preprocessing(model: str, given: dict[str, Any], config: dict[str, Any]) -> _Preprocessing:
    wanted = ("mean", "std", "interpolation", "resize_mode")
    if missing := [name for name in wanted if given.get(name) is None]:
        raise ValueError(
            f"{model}: its config does not say {', '.join(missing)}, and open_clip would take OpenAI's; "
            f"complete preprocess_cfg in a copy of the folder and name that as local-dir:FOLDER"
        )
    return _Preprocessing(**_complete(given, config["vision_cfg"]["image_size"]))


def _complete(given: dict[str, Any], size: int | Sequence[int]) -> dict[str, Any]:
    """open_clip's rules: the input size is the model's, one number stands for three channels or two sides."""
    mean, std = (
        (value,) * 3 if isinstance(value, int | float) else tuple(value) for value in (given["mean"], given["std"])
    )
    return {
        "resize": given["resize_mode"],
        "interpolation": "bilinear" if given["interpolation"] == "bilinear" else "bicubic",
        "size": (size, size) if isinstance(size, int) else tuple(size),
        "mean": mean,
        "std": std,
        "fill": int(given.get("fill_color") or 0),
    }


def _geometry(preprocessing: _Preprocessing) -> "Callable[[Image.Image], Image.Image]":
    """What open_clip does before it makes a tensor: resize, crop, pad."""
    from open_clip.transform import image_transform
    from torchvision.transforms import Compose, Normalize, ToTensor

    whole = image_transform(
        preprocessing.size,
        is_train=False,
        mean=preprocessing.mean,
        std=preprocessing.std,
        resize_mode=preprocessing.resize,
        interpolation=preprocessing.interpolation,
        fill_color=preprocessing.fill,
    )
    *geometric, to_tensor, normalize = whole.transforms
    if not (isinstance(to_tensor, ToTensor) and isinstance(normalize, Normalize)):
        raise RuntimeError(f"this release of open_clip preprocesses in an unknown way: {whole}")
    return Compose(geometric)

"""Identification of an encoder by its config, preprocessing and revision, before any weights are loaded.

Pictures go through exactly the model's own preprocessing. If a config is incomplete, open_clip silently falls back to
OpenAI's preprocessing, and SigLIP's vectors are then plausible but wrong, so all such configs are refused.

open_clip's list of the models that it knows by name is read from a file, because importing open_clip takes seconds.

SigLIP's logit scale and bias are read from the weights file without loading the weights. The probability of a pair is
the logistic function of exp(scale) * cosine + bias (Zhai et al. 2023, section 3.2). CLIP has only a scale, and no
probability for a single pair.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from actors import local_models, model_files
from actors.encoders.transformers_encoders import MOST_DIM, PREFIX, check_size, is_hub_encoder
from actors.encoders.vlm_encoders import find_hub_encoder, instruction_error
from actors.errors import ModelError, SettingError, first_line
from actors.hub import check_reachable, refusal
from actors.model_files import read_header
from actors.settings import RuntimeOnly, Settings
from actors.untrusted import parse_json

if TYPE_CHECKING:
    from PIL import Image


LOCAL_DIR, HF_HUB = "local-dir:", "hf-hub:"

_CONFIG_FILE = "open_clip_config.json"
_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin")

# Arguments of open_clip's own tokenizers; any other goes to transformers, including `trust_remote_code`.
_TOKENIZER_KEYS = frozenset(
    {"clean", "strip_sep_token", "language", "tokenizer_mode", "reduction_mask", "context_length"}
)
_SCALARS = ("logit_scale", "logit_bias")
_SCALAR_FORMATS = {"F32": "<f", "F16": "<e", "F64": "<d"}
SAFETENSORS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "model.safetensors")


@dataclass
class EncoderSettings(Settings):
    """Settings of the encoder that embeds pictures and texts.

    `encoder_facts` finds encoders and checks names.
    """

    # open_clip name, hf-hub:org/name, local-dir:FOLDER, s3://…, local:NAME, or transformers: before a name, FOLDER, s3://…
    checkpoint: str
    # rarely: with an open_clip name: a tag, tag@COMMIT or a .safetensors file; with transformers: a revision
    pretrained: str | None = None
    # rarely: system turn of an embedder made from a vision-language model; null: "Represent the user's input."
    instruction: str | None = None
    device: RuntimeOnly[str] = "auto"  # rarely: auto: a GPU if there is one; else cpu, cuda, cuda:1
    dtype: str = "auto"  # rarely: bfloat16 on a GPU, float32 on a CPU (bfloat16 pays on CPUs that have avx512_bf16)


class ListedModel(NamedTuple):
    """A model that open_clip knows by name.

    Attributes:
        config: its architecture.
        weights: preprocessing, location and training of its weights, by tag.
    """

    config: dict[str, Any]
    weights: dict[str, dict[str, Any]]


def listed_model(name: str) -> ListedModel | None:
    """Return open_clip's entry for a model; None if it does not know the name."""
    entry = _all_models().get(name)
    if entry is None and (open_clip := sys.modules.get("open_clip")) and name in open_clip.list_models():
        entry = _entry(open_clip, name)  # a model that this process has added
    return None if entry is None else ListedModel(**entry)


@lru_cache(maxsize=1)
def _all_models() -> dict[str, dict[str, Any]]:
    """Return the lists of the installed release, which one process writes to the cache and others read."""
    file = local_models.cache_folder() / f"open_clip-{_version()}.json"
    try:
        models: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        text = json.dumps(_imported())
        _write(file, text)
        models = json.loads(text)  # with lists instead of tuples, as from the file
    return models


def _version() -> str:
    try:
        return importlib.metadata.version("open_clip_torch")
    except importlib.metadata.PackageNotFoundError as error:
        raise ModuleNotFoundError("No module named 'open_clip'", name="open_clip") from error


def _imported() -> dict[str, dict[str, Any]]:
    import open_clip

    return {name: _entry(open_clip, name) for name in open_clip.list_models()}


def _entry(open_clip: Any, name: str) -> dict[str, Any]:
    tags = open_clip.list_pretrained_tags_by_model(name)
    return {
        "config": open_clip.get_model_config(name),
        "weights": {tag: open_clip.get_pretrained_cfg(name, tag) for tag in tags},
    }


def _write(file: Path, text: str) -> None:
    """Write the file atomically; a cache that cannot be written only costs time."""
    part = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()


class EncoderFacts(NamedTuple):
    """The identity of vectors: two tables may be compared only if `encoder` and `preprocessing` are equal."""

    encoder: str  # the model and its revision: tag, commit, or a hash of its weights
    dim: int  # length of a vector
    preprocessing: str  # "resize=squash;interpolation=bicubic;size=256x256;mean=0.5,0.5,0.5;std=0.5,0.5,0.5"
    texts: bool = True  # whether it can encode texts


class Preprocessing(NamedTuple):
    """open_clip's preprocess_cfg, with all defaults filled in."""

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
        return f"{text};fill={self.fill}" if self.resize == "longest" else text  # only this mode pads


class EncoderSource(NamedTuple):
    """A model named as in open_clip, with its config."""

    model: str
    pretrained: str | None
    config: dict[str, Any]
    preprocessing: Preprocessing
    revision: Callable[[], str]
    commit: str | None = None  # commit of the tag's repository on the hub; None: the newest, which open_clip downloads


def encoder_facts(model: str, *, pretrained: str | None, instruction: str | None = None) -> EncoderFacts:
    """Identify an encoder from its config; local weights are hashed but not loaded.

    Args:
        model: an open_clip name (`ViT-B-16-SigLIP-i18n-256`), `hf-hub:org/name`, `local-dir:FOLDER`,
            `s3://bucket/folder` with the files of such a folder, `local:siglip-tiny` (`actors.local_models`), or
            `transformers:` followed by a hub name, a folder or `s3://bucket/folder`.
        pretrained: for an open_clip name, the tag of its weights (`webli`, or `webli@COMMIT` with a commit of the tag's
            repository on the hub) or a .safetensors file; for transformers, a revision or None; else None.
        instruction: of an embedder made from a vision-language model; it changes no fact.

    Raises:
        ValueError: an instruction for another encoder; no such model or tag; a name without a tag (random weights); a
            tag that would be ignored; a config that does not fully specify the preprocessing, or the activation
            function used in training.
        FileNotFoundError: a folder without config or safetensors; a hub repository without config.
    """
    if is_hub_encoder(model):
        encoder = find_hub_encoder(model, pretrained, instruction=instruction)
        name = encoder.folder.resolve().name if encoder.folder else encoder.name
        return EncoderFacts(f"{PREFIX}{name}@{encoder.revision()}", encoder.dim, encoder.preprocessing, encoder.texts)
    if instruction is not None:
        raise instruction_error(instruction)
    source = find_source(model, pretrained)
    name = model if local_models.is_local(model) else source.model
    if name.startswith(LOCAL_DIR):  # the folder's parents do not identify the model
        name = LOCAL_DIR + Path(name.removeprefix(LOCAL_DIR)).resolve().name
    return EncoderFacts(
        encoder=f"{name}@{source.revision()}",
        dim=int(source.config["embed_dim"]),
        preprocessing=str(source.preprocessing),
    )


def check_weights(model: str, *, pretrained: str | None) -> None:
    """Check, without a download, that the weights exist: in a folder, in the hub's cache, or on the hub.

    Raises:
        ValueError: see `encoder_facts`; also ValueError if the hub cannot be reached or refuses.
    """
    if is_hub_encoder(model):
        find_hub_encoder(model, pretrained).check_weights()
        return
    source = find_source(model, pretrained)
    if hub := hub_files(source):
        check_reachable(hub[0], files=hub[1], revision=source.commit)


def hub_files(source: EncoderSource) -> tuple[str, tuple[str, ...]] | None:
    """Return the repository of a model's weights and their possible file names; None if they are not on the hub."""
    if source.model.startswith(LOCAL_DIR) or (source.pretrained or "").endswith(".safetensors"):
        return None
    if source.model.startswith(HF_HUB):
        return source.model.removeprefix(HF_HUB), _WEIGHTS
    listed = listed_model(source.model)
    place = listed.weights.get(source.pretrained or "", {}).get("hf_hub", "") if listed else ""
    if not place:  # open_clip downloads them from another address
        return None
    owner, name, file = (*place.split("/", 2), "")[:3]
    return f"{owner}/{name}", (file,) if file else _WEIGHTS


def pinned_weights(source: EncoderSource) -> str:
    """Return the path of the weights at the source's commit, downloaded into the hub's cache if necessary.

    Raises:
        FileNotFoundError: the hub has no weights at this commit, or denies access to them.
    """
    from huggingface_hub import hf_hub_download

    repository, files = hub_files(source) or ("", ())
    reason: Exception | None = None
    for name in files:
        if name.endswith(".safetensors"):
            try:
                return hf_hub_download(repository, name, revision=source.commit)
            except Exception as error:  # its errors come from several libraries
                reason = error
    raise FileNotFoundError(f"{repository} at commit {source.commit}: no weights from the hub ({reason})") from reason


def find_source(model: str, pretrained: str | None) -> EncoderSource:
    """Find a model's config and preprocessing. Raises the errors of `encoder_facts`."""
    resolved = model_files.resolve(model)
    if local_models.is_local(model) or model_files.is_s3(model):
        resolved = LOCAL_DIR + resolved
    if resolved.startswith((LOCAL_DIR, HF_HUB)):
        if pretrained is not None:
            raise SettingError(f"{model!r} includes its weights; must be null", "pretrained", pretrained)
        return _from_folder(resolved) if resolved.startswith(LOCAL_DIR) else _from_hub(resolved)
    return _from_name(resolved, pretrained)


def _from_folder(model: str) -> EncoderSource:
    folder = Path(model.removeprefix(LOCAL_DIR))
    file = folder / _CONFIG_FILE
    if not file.is_file():
        raise ModelError(f"the folder has no {_CONFIG_FILE}", model)
    weights = next((name for name in SAFETENSORS if (folder / name).is_file()), None)
    if weights is None:  # open_clip would unpickle another file, or continue with random weights
        raise ModelError(f"the folder must have one of {', '.join(SAFETENSORS)}", model)
    model_files.check_weights(folder)
    return _from_config(model, file, lambda: _hash(folder / weights))


def _from_hub(model: str) -> EncoderSource:
    from huggingface_hub import hf_hub_download

    name = model.removeprefix(HF_HUB)
    try:
        file = Path(hf_hub_download(name, _CONFIG_FILE))
    except Exception as error:  # its errors come from several libraries
        raise ModelError(refusal(name, error), model) from error
    # The hub's cache keeps each commit in a separate folder: snapshots/COMMIT/open_clip_config.json
    return _from_config(model, file, lambda: file.parent.name)


def _from_config(model: str, file: Path, revision: Callable[[], str]) -> EncoderSource:
    try:
        config = parse_json(file.read_bytes())
    except ValueError as error:
        raise ModelError(f"{_CONFIG_FILE} is not JSON ({first_line(error)})", model) from error
    if not isinstance(config, dict) or not isinstance(config.get("model_cfg"), dict):
        raise ModelError(f"{_CONFIG_FILE} has no model_cfg; it must be an encoder of open_clip", model)
    try:
        _check_untrusted(config["model_cfg"])
        preprocessing = _preprocessing(model, config.get("preprocess_cfg") or {}, config["model_cfg"])
        check_size(preprocessing.size)
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{_CONFIG_FILE} has an unexpected form ({error!r})", model) from error
    except ModelError:
        raise
    except ValueError as error:
        raise ModelError(str(error), model) from error
    return EncoderSource(model, None, config["model_cfg"], preprocessing, revision)


def _check_untrusted(config: dict[str, Any]) -> None:
    """Refuse values that open_clip would pass to libraries that load code or other people's files."""
    vision, text = config["vision_cfg"], config["text_cfg"]
    if unknown := sorted(set(text.get("tokenizer_kwargs") or ()) - _TOKENIZER_KEYS):
        raise ValueError(
            f"{_CONFIG_FILE}: tokenizer_kwargs.{unknown[0]} is not allowed, as it may run code of the model; "
            f"allowed: {', '.join(sorted(_TOKENIZER_KEYS))}"
        )
    for name, value in (
        ("timm_model_name", vision.get("timm_model_name")),
        ("hf_model_name", text.get("hf_model_name")),
    ):
        if value and (not isinstance(value, str) or ":" in value or value.startswith(("/", ".", "~"))):
            raise ValueError(f"{_CONFIG_FILE}: {name}={value!r} must be the name of an architecture, not a path")
    dim = config["embed_dim"]
    if not isinstance(dim, int) or not 0 < dim <= MOST_DIM:
        raise ValueError(f"{_CONFIG_FILE}: embed_dim={dim!r} must be from 1 to {MOST_DIM}")


def _from_name(model: str, pretrained: str | None) -> EncoderSource:
    name = model.replace("/", "-")  # as open_clip does: ViT-B/32
    listed = listed_model(name)
    if listed is None:
        raise ModelError(
            "unknown model; must be one of open_clip's names, hf-hub:…, local-dir:…, s3://… and local:…", model
        )
    config, tags = listed.config, ", ".join(listed.weights)
    if pretrained is None:
        raise SettingError(f"{model} would have random weights; must be one of {tags}", "pretrained", None)
    if pretrained.endswith(".safetensors"):
        return _from_file(name, listed, Path(pretrained))
    tag, at, commit = pretrained.partition("@")
    weights = listed.weights.get(tag)
    if not weights:
        raise SettingError(f"unknown for {model}; must be one of {tags}", "pretrained", pretrained)
    if weights.get("quick_gelu") and not config.get("quick_gelu"):  # open_clip only warns
        raise SettingError(f"was trained with QuickGELU, unlike {model}; use {name}-quickgelu", "pretrained", tag)
    if at and not (weights.get("hf_hub") and re.fullmatch("[0-9a-f]{40}", commit)):
        raise SettingError(
            f"@ must be followed by a commit (40 hexadecimal digits) of weights on the hub; "
            f"pretrained={tag} uses the newest",
            "pretrained",
            pretrained,
        )
    preprocessing = _preprocessing(f"{model} {tag}", weights, config)
    return EncoderSource(name, tag, config, preprocessing, lambda: pretrained, commit or None)


def _from_file(name: str, listed: ListedModel, file: Path) -> EncoderSource:
    """Find the preprocessing of weights without a config: the one that all tags share, not open_clip's fallback."""
    if not file.is_file():
        raise SettingError("no such file", "pretrained", file)
    settings = {_preprocessing(f"{name} {tag}", weights, listed.config) for tag, weights in listed.weights.items()}
    if len(settings) != 1:
        raise SettingError(
            f"does not specify the preprocessing, and weights of {name} differ in it; put it in a "
            f"folder with {_CONFIG_FILE} and give local-dir:FOLDER",
            "pretrained",
            file,
        )
    return EncoderSource(name, str(file), listed.config, settings.pop(), lambda: _hash(file))


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


def _preprocessing(model: str, cfg: dict[str, Any], config: dict[str, Any]) -> Preprocessing:
    required = ("mean", "std", "interpolation", "resize_mode")
    if missing := [name for name in required if cfg.get(name) is None]:
        raise ModelError(
            f"its config lacks {', '.join(missing)}, for which open_clip would use OpenAI's values; "
            f"complete preprocess_cfg in a copy of the folder and give local-dir:FOLDER",
            model,
        )
    return Preprocessing(**complete(cfg, config["vision_cfg"]["image_size"]))


def complete(cfg: dict[str, Any], size: int | Sequence[int]) -> dict[str, Any]:
    """Complete a preprocess_cfg by open_clip's rules, with the model's input size.

    One number is expanded to three channels (mean, std) or two sides (size).
    """
    mean, std = (
        (value,) * 3 if isinstance(value, int | float) else tuple(value) for value in (cfg["mean"], cfg["std"])
    )
    return {
        "resize": cfg["resize_mode"],
        "interpolation": "bilinear" if cfg["interpolation"] == "bilinear" else "bicubic",
        "size": (size, size) if isinstance(size, int) else tuple(size),
        "mean": mean,
        "std": std,
        "fill": int(cfg.get("fill_color") or 0),
    }


def geometry(preprocessing: Preprocessing) -> "Callable[[Image.Image], Image.Image]":
    """Return open_clip's steps before the conversion to a tensor: resize, crop, pad."""
    from open_clip.transform import image_transform
    from torchvision.transforms import Compose, Normalize, ToTensor

    transform = image_transform(
        preprocessing.size,
        is_train=False,
        mean=preprocessing.mean,
        std=preprocessing.std,
        resize_mode=preprocessing.resize,
        interpolation=preprocessing.interpolation,
        fill_color=preprocessing.fill,
    )
    *geometric, to_tensor, normalize = transform.transforms
    if not (isinstance(to_tensor, ToTensor) and isinstance(normalize, Normalize)):
        raise RuntimeError(f"this release of open_clip has an unknown preprocessing: {transform}")
    steps: Callable[[Image.Image], Image.Image] = Compose(geometric)
    return steps


class LogitScalars(NamedTuple):
    """SigLIP's scale (before exp) and bias, as stored."""

    scale: float
    bias: float


def logit_scalars(model: str, *, pretrained: str | None) -> LogitScalars | None:
    """Return the scale and bias of an encoder, named as for `encoder_facts`.

    Returns None if it has none, or if its weights can be read neither from a file nor from the hub.
    """
    file = _weights_file(model, pretrained)
    if file is None:
        return None
    try:
        if isinstance(file, Path):
            with file.open("rb") as stream:
                return read_scalars(stream)
        return _scalars_from_hub(*file)
    except Exception:  # errors of several libraries; a run can do without probabilities
        return None


def read_scalars(stream: IO[bytes]) -> LogitScalars | None:
    """Read the scale and bias from a .safetensors file; None if it does not hold both.

    Raises:
        ValueError: the file is not in that format.
    """
    start, header = read_header(stream)
    scalars = []
    for name in _SCALARS:
        entry = header.get(name)
        if entry is None or entry["dtype"] not in (*_SCALAR_FORMATS, "BF16"):
            return None
        begin, end = entry["data_offsets"]
        stream.seek(start + begin)
        raw = stream.read(end - begin)
        if entry["dtype"] == "BF16":  # the upper half of a float32
            raw = b"\0\0" + raw
        (value,) = struct.unpack(_SCALAR_FORMATS.get(entry["dtype"], "<f"), raw)
        scalars.append(float(value))
    return LogitScalars(*scalars)


def _weights_file(model: str, pretrained: str | None) -> Path | tuple[str, str | None] | None:
    """Return the weights file, or the repository and revision on the hub; None if neither exists."""
    if is_hub_encoder(model):
        encoder = find_hub_encoder(model, pretrained)
        return encoder.folder / "model.safetensors" if encoder.folder else (encoder.name, pretrained)
    source = find_source(model, pretrained)
    if source.model.startswith(LOCAL_DIR):
        folder = Path(source.model.removeprefix(LOCAL_DIR))
        return next((folder / name for name in SAFETENSORS if (folder / name).is_file()), None)
    if (source.pretrained or "").endswith(".safetensors"):
        return Path(source.pretrained or "")
    files = hub_files(source)
    return (files[0], source.commit) if files else None


def _scalars_from_hub(repository: str, revision: str | None) -> LogitScalars | None:
    """Read them from the hub's cache, or fetch a few bytes of the file from the hub."""
    from huggingface_hub import HfFileSystem, constants, try_to_load_from_cache

    for name in SAFETENSORS:
        cached = try_to_load_from_cache(repository, name, revision=revision)
        if isinstance(cached, str):
            with Path(cached).open("rb") as stream:
                return read_scalars(stream)
    if constants.HF_HUB_OFFLINE:
        return None
    hub: Any = HfFileSystem()
    for name in SAFETENSORS:
        if hub.exists(f"{repository}/{name}", revision=revision):
            with hub.open(f"{repository}/{name}", revision=revision) as stream:
                return read_scalars(stream)
    return None

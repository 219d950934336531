"""Which encoder: its config, preprocessing and weights, known before anything is loaded.

Preprocessing is the model's own, to the pixel, or there is none: open_clip falls back to OpenAI's without a word where
it knows no better, and SigLIP's vectors are then plausible and wrong. Everything that would make it do so is refused.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from actors import local_models
from actors.encoders.transformers_encoders import PREFIX, HubEncoder, is_hub_encoder
from actors.hub import check_reachable

if TYPE_CHECKING:
    from PIL import Image

LOCAL_DIR, HF_HUB = "local-dir:", "hf-hub:"

_CONFIG_FILE = "open_clip_config.json"
_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin")


class EncoderFacts(NamedTuple):
    """What identifies vectors: two tables may be compared only where both strings are equal."""

    encoder: str  # the model and its revision: tag, commit, or a hash of its weights
    dim: int  # length of a vector
    preprocessing: str  # "resize=squash;interpolation=bicubic;size=256x256;mean=0.5,0.5,0.5;std=0.5,0.5,0.5"
    texts: bool = True  # whether it has a text tower


class Preprocessing(NamedTuple):
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


class EncoderSource(NamedTuple):
    """A model as open_clip takes it, and what its config says."""

    model: str
    pretrained: str | None
    config: dict[str, Any]
    preprocessing: Preprocessing
    revision: Callable[[], str]
    commit: str | None = None  # of the hub's repository behind a tag; None: what open_clip downloads, its newest


def encoder_facts(model: str, *, pretrained: str | None) -> EncoderFacts:
    """Identify an encoder from its config alone; weights are hashed at most, never loaded.

    Args:
        model: an open_clip name (`ViT-B-16-SigLIP-i18n-256`), `hf-hub:org/name`, `local-dir:FOLDER`,
            `local:siglip-tiny` (`actors.local_models`), or `transformers:org/name` or `transformers:FOLDER`.
        pretrained: for an open_clip name its tag of the weights (`webli`, or `webli@COMMIT` of the hub's repository
            behind the tag) or a .safetensors file; for transformers a revision or None; None for the other forms.

    Raises:
        ValueError: no such model or tag; a name without a tag (random weights); a tag that would be ignored; a config
            that leaves a part of the preprocessing, or the activation the weights were trained with, to a default.
        FileNotFoundError: a folder without config or safetensors; a hub repository without config.
    """
    if is_hub_encoder(model):
        found = HubEncoder(model, pretrained)
        name = found.folder.resolve().name if found.folder else found.name
        return EncoderFacts(f"{PREFIX}{name}@{found.revision()}", found.dim, found.preprocessing, found.texts)
    source = find_source(model, pretrained)
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
    if is_hub_encoder(model):
        HubEncoder(model, pretrained).check_weights()
        return
    source = find_source(model, pretrained)
    if found := hub_files(source):
        check_reachable(found[0], files=found[1], revision=source.commit)


def hub_files(source: EncoderSource) -> tuple[str, tuple[str, ...]] | None:
    """The hub's repository of a model's weights and the names they may have there; None if they are not on the hub."""
    import open_clip

    if source.model.startswith(LOCAL_DIR) or (source.pretrained or "").endswith(".safetensors"):
        return None
    if source.model.startswith(HF_HUB):
        return source.model.removeprefix(HF_HUB), _WEIGHTS
    listed = open_clip.get_pretrained_cfg(source.model, source.pretrained or "").get("hf_hub", "")
    if not listed:  # an address of its own, which open_clip downloads from
        return None
    owner, name, file = (*listed.split("/", 2), "")[:3]
    return f"{owner}/{name}", (file,) if file else _WEIGHTS


def pinned_weights(source: EncoderSource) -> str:
    """The weights at the source's commit: from the hub's cache, else downloaded into it.

    Raises:
        FileNotFoundError: the hub does not give them out at this commit.
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
    raise FileNotFoundError(f"{repository} at commit {source.commit}: the hub gave no weights ({reason})") from reason


def find_source(model: str, pretrained: str | None) -> EncoderSource:
    """Find a model's config and preprocessing. Raises as `encoder_facts`."""
    given = local_models.resolve(model)
    if local_models.is_local(model):
        given = LOCAL_DIR + given
    if given.startswith((LOCAL_DIR, HF_HUB)):
        if pretrained is not None:
            raise ValueError(f"pretrained is {pretrained!r}, but {model!r} brings its own weights; allowed is null")
        return _from_folder(given) if given.startswith(LOCAL_DIR) else _from_hub(given)
    return _from_name(given, pretrained)


def _from_folder(model: str) -> EncoderSource:
    folder = Path(model.removeprefix(LOCAL_DIR))
    file = folder / _CONFIG_FILE
    if not file.is_file():
        raise FileNotFoundError(f"{model}: there is no {_CONFIG_FILE} in that folder")
    names = sorted(path.name for path in folder.glob("*.safetensors"))
    preferred = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "model.safetensors")
    weights = next((name for name in preferred if name in names), None)
    if weights is None:  # open_clip would unpickle another file, or go on with random weights
        raise FileNotFoundError(f"{model}: none of {', '.join(preferred)} is in that folder")

    return _from_config(model, file, lambda: _hash(folder / weights))


def _from_hub(model: str) -> EncoderSource:
    from huggingface_hub import hf_hub_download

    name = model.removeprefix(HF_HUB)
    try:
        file = Path(hf_hub_download(name, _CONFIG_FILE))
    except Exception as error:  # its errors come from several libraries
        raise FileNotFoundError(f"{model}: the hub gave no {_CONFIG_FILE} ({error})") from error
    # The hub's cache keeps each commit in a folder of its own: snapshots/COMMIT/open_clip_config.json
    return _from_config(model, file, lambda: file.parent.name)


def _from_config(model: str, file: Path, revision: Callable[[], str]) -> EncoderSource:
    config = json.loads(file.read_text(encoding="utf-8"))
    if "model_cfg" not in config:
        raise ValueError(f"{model}: {_CONFIG_FILE} has no model_cfg")
    preprocessing = _own_preprocessing(model, config.get("preprocess_cfg") or {}, config["model_cfg"])
    return EncoderSource(model, None, config["model_cfg"], preprocessing, revision)


def _from_name(model: str, pretrained: str | None) -> EncoderSource:
    import open_clip

    name = model.replace("/", "-")  # as open_clip does: ViT-B/32
    config = open_clip.get_model_config(name)
    if config is None:
        raise ValueError(f"model is {model!r}; allowed are open_clip's names, hf-hub:…, local-dir:… and local:…")
    tags = open_clip.list_pretrained_tags_by_model(name)
    if pretrained is None:
        raise ValueError(f"{model} without pretrained would have random weights; allowed are {', '.join(tags)}")
    if pretrained.endswith(".safetensors"):
        return _from_file(name, config, Path(pretrained), tags)
    tag, at, commit = pretrained.partition("@")
    weights = open_clip.get_pretrained_cfg(name, tag)
    if not weights:
        raise ValueError(f"pretrained is {pretrained!r} for {model}; allowed are {', '.join(tags)}")
    if weights.get("quick_gelu") and not config.get("quick_gelu"):  # open_clip warns and goes on
        raise ValueError(f"{tag!r} was trained with QuickGELU, {model} has none; allowed is {name}-quickgelu")
    if at and not (weights.get("hf_hub") and re.fullmatch("[0-9a-f]{40}", commit)):
        raise ValueError(
            f"pretrained={pretrained}: a commit is 40 hexadecimal digits, of weights that are on the Hugging Face hub; "
            f"without one the newest are taken: pretrained={tag}"
        )
    preprocessing = _own_preprocessing(f"{model} {tag}", weights, config)
    return EncoderSource(name, tag, config, preprocessing, lambda: pretrained, commit or None)


def _from_file(name: str, config: dict[str, Any], file: Path, tags: Sequence[str]) -> EncoderSource:
    """Weights without a config: open_clip would take OpenAI's preprocessing; ours is what all tags agree on."""
    import open_clip

    if not file.is_file():
        raise FileNotFoundError(f"{file}: there are no weights there")
    wanted = {_own_preprocessing(f"{name} {tag}", open_clip.get_pretrained_cfg(name, tag), config) for tag in tags}
    if len(wanted) != 1:
        raise ValueError(
            f"{file} does not say how pictures are to be prepared, and weights of {name} differ in it; put it in a "
            f"folder with {_CONFIG_FILE} and name that as local-dir:FOLDER"
        )
    return EncoderSource(name, str(file), config, wanted.pop(), lambda: _hash(file))


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


def _own_preprocessing(model: str, given: dict[str, Any], config: dict[str, Any]) -> Preprocessing:
    wanted = ("mean", "std", "interpolation", "resize_mode")
    if missing := [name for name in wanted if given.get(name) is None]:
        raise ValueError(
            f"{model}: its config does not say {', '.join(missing)}, and open_clip would take OpenAI's; "
            f"complete preprocess_cfg in a copy of the folder and name that as local-dir:FOLDER"
        )
    return Preprocessing(**complete(given, config["vision_cfg"]["image_size"]))


def complete(given: dict[str, Any], size: int | Sequence[int]) -> dict[str, Any]:
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


def geometry(preprocessing: Preprocessing) -> "Callable[[Image.Image], Image.Image]":
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

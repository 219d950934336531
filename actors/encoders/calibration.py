"""SigLIP's logit scale and bias, read from the weights file without loading the weights.

The probability of a pair is the logistic function of exp(scale) * cosine + bias (Zhai et al. 2023, section 3.2).
CLIP has only a scale, and no probability for a single pair.
"""

import struct
from pathlib import Path
from typing import IO, Any, NamedTuple

from actors.encoders.encoder_sources import LOCAL_DIR, find_source, hub_files
from actors.encoders.transformers_encoders import HubEncoder, is_hub_encoder
from actors.model_files import read_header

_NAMES = ("logit_scale", "logit_bias")
_FORMATS = {"F32": "<f", "F16": "<e", "F64": "<d"}
_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "model.safetensors")


class LogitScalars(NamedTuple):
    """SigLIP's scale (before exp) and bias, as stored."""

    scale: float
    bias: float


def logit_scalars(model: str, *, pretrained: str | None) -> LogitScalars | None:
    """Return the scale and bias of an encoder, named as for `encoder_facts`.

    Returns None if it has none, or if its weights can be read neither from a file nor from the hub.
    """
    file = _weights(model, pretrained)
    if file is None:
        return None
    try:
        if isinstance(file, Path):
            with file.open("rb") as stream:
                return read_scalars(stream)
        return _from_hub(*file)
    except Exception:  # errors of several libraries; a run can do without probabilities
        return None


def read_scalars(stream: IO[bytes]) -> LogitScalars | None:
    """Read the scale and bias from a .safetensors file; None if it does not hold both.

    Raises:
        ValueError: the file is not in that format.
    """
    start, header = read_header(stream)
    scalars = []
    for name in _NAMES:
        entry = header.get(name)
        if entry is None or entry["dtype"] not in (*_FORMATS, "BF16"):
            return None
        begin, end = entry["data_offsets"]
        stream.seek(start + begin)
        raw = stream.read(end - begin)
        if entry["dtype"] == "BF16":  # the upper half of a float32
            raw = b"\0\0" + raw
        (value,) = struct.unpack(_FORMATS.get(entry["dtype"], "<f"), raw)
        scalars.append(float(value))
    return LogitScalars(*scalars)


def _weights(model: str, pretrained: str | None) -> Path | tuple[str, str | None] | None:
    """Return the weights file, or the repository and revision on the hub; None if neither exists."""
    if is_hub_encoder(model):
        encoder = HubEncoder(model, pretrained)
        return encoder.folder / "model.safetensors" if encoder.folder else (encoder.name, pretrained)
    source = find_source(model, pretrained)
    if source.model.startswith(LOCAL_DIR):
        folder = Path(source.model.removeprefix(LOCAL_DIR))
        return next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if (source.pretrained or "").endswith(".safetensors"):
        return Path(source.pretrained or "")
    files = hub_files(source)
    return (files[0], source.commit) if files else None


def _from_hub(repository: str, revision: str | None) -> LogitScalars | None:
    """Read them from the hub's cache, or fetch a few bytes of the file from the hub."""
    from huggingface_hub import HfFileSystem, constants, try_to_load_from_cache

    for name in _WEIGHTS:
        cached = try_to_load_from_cache(repository, name, revision=revision)
        if isinstance(cached, str):
            with Path(cached).open("rb") as stream:
                return read_scalars(stream)
    if constants.HF_HUB_OFFLINE:
        return None
    hub: Any = HfFileSystem()
    for name in _WEIGHTS:
        if hub.exists(f"{repository}/{name}", revision=revision):
            with hub.open(f"{repository}/{name}", revision=revision) as stream:
                return read_scalars(stream)
    return None

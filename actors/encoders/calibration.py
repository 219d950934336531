"""SigLIP's scale and bias, read out of the weights file without loading it.

The probability of a pair is the logistic function of exp(scale) * cosine + bias (Zhai et al. 2023, section 3.2).
CLIP has a scale alone, and no probability of a single pair.
"""

import json
import struct
from pathlib import Path
from typing import IO, NamedTuple

from actors.encoders.facts import LOCAL_DIR, find_source, hub_files
from actors.encoders.transformers_encoders import HubEncoder, is_hub_encoder

_NAMES = ("logit_scale", "logit_bias")
_LONGEST_HEADER = 100 << 20
_FORMATS = {"F32": "<f", "F16": "<e", "F64": "<d"}
_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "model.safetensors")


class LogitScalars(NamedTuple):
    """As stored: the scale before exp."""

    scale: float
    bias: float


def logit_scalars(model: str, *, pretrained: str | None) -> LogitScalars | None:
    """Scale and bias of an encoder (named as for `encoder_facts`); None where it has none or they cannot be reached."""
    file = _weights(model, pretrained)
    if file is None:
        return None
    try:
        if isinstance(file, Path):
            with file.open("rb") as stream:
                return read_scalars(stream)
        return _from_hub(*file)
    except Exception:  # of several libraries; a probability is a courtesy, no reason to end a run
        return None


def read_scalars(stream: IO[bytes]) -> LogitScalars | None:
    """Of a .safetensors file; None if they are not in it.

    Raises:
        ValueError: not such a file.
    """
    (size,) = struct.unpack("<Q", stream.read(8))
    if size > _LONGEST_HEADER:
        raise ValueError(f"a header of {size} bytes")
    header = json.loads(stream.read(size))
    found = []
    for name in _NAMES:
        entry = header.get(name)
        if entry is None or entry["dtype"] not in (*_FORMATS, "BF16"):
            return None
        begin, end = entry["data_offsets"]
        stream.seek(8 + size + begin)
        raw = stream.read(end - begin)
        if entry["dtype"] == "BF16":  # the upper half of a float32
            raw = b"\0\0" + raw
        (value,) = struct.unpack(_FORMATS.get(entry["dtype"], "<f"), raw)
        found.append(float(value))
    return LogitScalars(*found)


def _weights(model: str, pretrained: str | None) -> Path | tuple[str, str | None] | None:
    """The weights file, or repository and revision on the hub."""
    if is_hub_encoder(model):
        encoder = HubEncoder(model, pretrained)
        return encoder.folder / "model.safetensors" if encoder.folder else (encoder.name, pretrained)
    source = find_source(model, pretrained)
    if source.model.startswith(LOCAL_DIR):
        folder = Path(source.model.removeprefix(LOCAL_DIR))
        return next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if (source.pretrained or "").endswith(".safetensors"):
        return Path(source.pretrained or "")
    found = hub_files(source)
    return (found[0], source.commit) if found else None


def _from_hub(repository: str, revision: str | None) -> LogitScalars | None:
    """From the hub's cache, else by reading a few bytes of the file on the hub."""
    from huggingface_hub import HfFileSystem, constants, try_to_load_from_cache

    for name in _WEIGHTS:
        cached = try_to_load_from_cache(repository, name, revision=revision)
        if isinstance(cached, str):
            with Path(cached).open("rb") as stream:
                return read_scalars(stream)
    if constants.HF_HUB_OFFLINE:
        return None
    there = HfFileSystem()
    for name in _WEIGHTS:
        if there.exists(f"{repository}/{name}", revision=revision):
            with there.open(f"{repository}/{name}", revision=revision) as stream:
                return read_scalars(stream)
    return None

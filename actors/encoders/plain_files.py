"""The facts about an encoder of transformers that its files contain, read without importing transformers.

The import takes seconds of CPU, and a driver needs only a few numbers of two small JSON files. Files with anything out
of the ordinary are left to transformers.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from actors.untrusted import parse_json

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


def is_plain_kind(kind: Any) -> bool:
    """Return whether files of this `model_type` may be read without transformers."""
    return kind in _DIM


def in_one_line(processor: Any) -> str:
    """Return the settings of a picture processor of transformers on one line."""
    settings = {name: value for name, value in processor.to_dict().items() if value is not None}
    return one_line(settings.pop("image_processor_type", type(processor).__name__), settings)


def one_line(kind: str, settings: dict[str, Any]) -> str:
    """Return settings of the class `kind` on one line."""
    return f"{kind};{json.dumps(settings, sort_keys=True, default=_plain, separators=(',', ':'))}"


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "items") else str(value)


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

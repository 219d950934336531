"""open_clip's list of the models that it knows by name, read from a file because importing open_clip takes seconds."""

import contextlib
import importlib.metadata
import json
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from actors import local_models


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

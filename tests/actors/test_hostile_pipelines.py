"""Text-to-image models that strangers made: code, libraries of elsewhere, pickled weights, damage."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.diffusion.loading import check_image_model, load_pipeline
from actors.diffusion.settings import ImageModelSettings
from actors.local_models import resolve

INDEX = "model_index.json"


def edit(file: Path, **changed: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))


def with_code(folder: Path, **changed: object) -> None:
    """Code that leaves the file `ran` next to the folder, and an index that names it."""
    for place in (folder, folder / "transformer"):
        (place / "evil.py").write_text(f"open({str(folder.parent / 'ran')!r}, 'w')\nclass Evil: pass\n")
    edit(folder / INDEX, **changed)


def pickled(folder: Path) -> None:
    for weights in folder.rglob("*.safetensors"):
        weights.rename(weights.with_suffix(".bin"))


def outside(folder: Path) -> None:
    index = {"weight_map": {"w": "../../outside.safetensors"}}
    (folder / "transformer" / "diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps(index))


def cut(folder: Path) -> None:
    os.truncate(next((folder / "transformer").glob("*.safetensors")), 500)


BEFORE: dict[str, Callable[[Path], object]] = {  # known from the small files, before a run
    "a list": lambda folder: (folder / INDEX).write_text("[1]"),
    "brackets": lambda folder: (folder / INDEX).write_text("[" * 100_000),
    "a pipeline with code": lambda folder: with_code(folder, _class_name=["evil", "Evil"]),
    "the name of a module": lambda folder: edit(folder / INDEX, _class_name="__file__"),
    "a part with code": lambda folder: with_code(folder, transformer=["evil", "Evil"]),
    "a part of the system": lambda folder: edit(folder / INDEX, transformer=["subprocess", "Popen"]),
    "weights outside": outside,
}
LOADING: dict[str, Callable[[Path], object]] = {
    "pickled weights": pickled,
    "cut weights": cut,
    "text for a number": lambda folder: edit(folder / "transformer" / "config.json", num_layers="x"),
    "a class of another kind": lambda folder: edit(folder / INDEX, transformer=["diffusers", "__doc__"]),
}


def test_hostile_pipelines_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for number, (fault, damage) in enumerate((BEFORE | LOADING).items()):
        folder = Path(shutil.copytree(resolve("local:sd3-tiny"), tmp_path / str(number) / "model"))
        damage(folder)
        settings = ImageModelSettings(checkpoint=str(folder), device="cpu", dtype="float32")
        call = check_image_model if fault in BEFORE else load_pipeline
        with pytest.raises(ValueError, match="model") as caught:
            call(settings)
        assert str(folder) in str(caught.value), fault
        assert not (folder.parent / "ran").exists(), fault

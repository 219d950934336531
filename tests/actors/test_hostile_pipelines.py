"""Text-to-image models that strangers made: code, libraries of elsewhere, pickled weights, damage."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.diffusion_models import ImageModelSettings, check_image_model, load_pipeline
from actors.local_models import resolve
from tests.cases import check_cases

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


def test_an_index_that_is_not_of_a_pipeline_is_refused(tmp_path: Path) -> None:
    pipeline = {"_class_name": "StableDiffusion3Pipeline"}
    allowed = pipeline | {
        "vae": ["diffusers", "AutoencoderKL"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"],  # of diffusers' pipelines
        "image_encoder": [None, None],
        "text": ["a", "b", "c"],
        "_evil": ["evil", "Evil"],
    }
    cases: list[tuple[Any, str]] = [
        (None, "not a pipeline of diffusers"),
        *((text, "not a pipeline of diffusers") for text in ("", "{", "[1]", "3", "{}", "[" * 100_000)),
        ({"_class_name": "NoSuchPipeline"}, "the installed diffusers .* has no NoSuchPipeline"),
        ({"_class_name": "__version__"}, "the installed diffusers .* has no __version__"),
        ({"_class_name": None}, "the installed diffusers .* has no None"),
        (allowed | {"vae": ["evil", "Evil"]}, "model_index.json: vae is of 'evil'"),
        (allowed | {"unet": ["os", "system"]}, "model_index.json: unet is of 'os'"),
    ]

    def folder(index: Any) -> str:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        place.mkdir()
        if index is not None:
            (place / INDEX).write_text(index if isinstance(index, str) else json.dumps(index))
        return str(place)

    def check(index: Any, message: str) -> None:
        name = folder(index)
        with pytest.raises(ValueError, match=f"^{name}: {message}"):
            check_image_model(ImageModelSettings(checkpoint=name))

    check_cases(check, cases)
    check_image_model(ImageModelSettings(checkpoint=folder(allowed)))
    for name in ("/no/such/folder", "./nowhere", "~/nowhere"):
        with pytest.raises(ValueError, match=f"^{name}: no such folder"):
            check_image_model(ImageModelSettings(checkpoint=name))
    wrong: list[tuple[str, Any]] = [("dtype", "int4"), ("device", "abacus")]
    for key, value in wrong:
        with pytest.raises(ValueError, match=f"{key}={value}"):
            check_image_model(ImageModelSettings(checkpoint=folder(allowed), **{key: value}))

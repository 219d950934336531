"""The text-to-image models of a job: what identifies them, their order, and which lists are refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from jobs.checkpoints.image_model import ImageModelConfig, check_image_models
from jobs.errors import InputError
from jobs.generate_images import GenerateImagesConfig
from jobs.runtime.configuration import config
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.configuration.resources import Resources, StageResources

MODEL = ImageModelConfig(name="seven", checkpoint="me/seven", revision="abc", dtype="float32")


def checked(*models: ImageModelConfig, gpus: float = 0) -> list[ImageModelConfig]:
    resources = Resources(judge=StageResources(num_gpus=gpus), autoscaling=True)
    check_image_models(GenerateImagesConfig(input="i", out="o", plan=True, resources=resources), models)
    return list(models)


def listed(*names: str) -> list[ImageModelConfig]:
    overrides = ["input=i", "out=o", f"image_models=[{','.join(names)}]"]
    loaded: GenerateImagesConfig = config.load("generate_images", GenerateImagesConfig, overrides)
    return loaded.image_models


def test_what_changes_the_pictures_identifies_a_model() -> None:
    assert MODEL.identity == {"model": "me/seven", "revision": "abc", "dtype": "float32"}
    assert MODEL.rater == "me/seven@abc"
    same = replace(MODEL, name="other", memory_gb=3.0, licence="mine")
    assert (same.identity, same.rater) == (MODEL.identity, MODEL.rater)


def test_models_keep_their_order_and_the_dtype_of_the_judges_pool() -> None:
    auto = replace(MODEL, dtype="auto")
    assert [model.dtype for model in checked(auto, gpus=1)] == ["bfloat16"]
    models = checked(*listed("local:sd3-tiny@b", "local:sd3-tiny@a"))
    assert [model.rater for model in models] == ["local:sd3-tiny@b", "local:sd3-tiny@a"]
    assert [model.name for model in models] == ["b", "a"]
    assert [model.dtype for model in models] == ["float32"] * 2


def test_one_checkpoint_under_two_names_is_refused(tmp_path: Path) -> None:
    """Their pictures would have the same ids."""
    content = yaml.safe_load((CONF / "image_model.yaml").read_text(encoding="utf-8"))["local-tiny"]
    for name in ("first", "second"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content | {"name": name, "checkpoint": "me/seven"}))
    with pytest.raises(InputError, match=r"^image_models=\[first,second\]: two have the same checkpoint"):
        checked(*listed(f"{tmp_path}/first.yaml", f"{tmp_path}/second.yaml"))

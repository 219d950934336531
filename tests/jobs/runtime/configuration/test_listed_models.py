"""Several models of one key: their order, the keys that apply to each, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from tests.cases import check_cases

LOCAL = "local:qwen2.5-vl-tiny"
JOBS = {"judge": ["targets=[a]"], "loglik": ["targets=[a]"], "generate": [], "mark_spans": []}


def load(job: str, *overrides: str) -> Any:
    return config.load(job, cli.job(job).schema, ["input=i", "out=o", *overrides])


def test_models_are_named_in_their_order() -> None:
    listed = load("judge", f"models=[{LOCAL}@mine,qwen2.5-vl-7b,{LOCAL}]").models
    assert [model.name for model in listed] == ["mine", "qwen2.5-vl-7b", "qwen2.5-vl-tiny"]
    assert (listed[0].checkpoint, listed[2].checkpoint) == (f"{LOCAL}@mine", LOCAL)
    assert load("judge").models == load("judge", "models=[]", "model=pangea-7b").models == []


def test_keys_of_the_single_model_apply_to_each() -> None:
    keys = ("model.max_pixels=50176", "model.dtype=bfloat16", "model.device_map=cpu")
    for job, more in JOBS.items():
        for order in ((*keys, "models=[qwen2.5-vl-7b,local:a@b]"), ("models=[qwen2.5-vl-7b,local:a@b]", *keys)):
            listed = load(job, *more, *order).models
            values = [(model.max_pixels, model.dtype, model.device_map) for model in listed]
            assert values == [(50176, "bfloat16", "cpu")] * 2, (job, order)
            assert [model.memory_gb is None for model in listed] == [False, True], "the rest is each model's own"


def test_keys_of_the_single_model_change_those_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\ncheckpoint: '{LOCAL}'\nmax_pixels: 100352\n", encoding="utf-8")
    both = f"models=[{path},qwen2.5-vl-7b]"
    assert [model.max_pixels for model in load("judge", both).models] == [100352, load("judge").model.max_pixels]
    assert [model.max_pixels for model in load("judge", both, "model.max_pixels=50176").models] == [50176, 50176]


def test_image_models_have_the_keys_of_image_model() -> None:
    keys = ("image_model.dtype=float16", "image_model.device=cpu", "image_model.licence=mine")
    loaded = load("generate_images", "image_models=[sdxl-base,local:sd3-tiny@a]", *keys)
    values = [(model.name, model.dtype, model.device, model.licence) for model in loaded.image_models]
    assert values == [(name, "float16", "cpu", "mine") for name in ("sdxl-base", "a")]
    assert loaded.image_model == loaded.image_models[0], "config.json has no model that does not draw"


def test_wrong_lists_are_refused() -> None:
    both = "models=[qwen2.5-vl-7b,local:a@b]"
    cases = [
        (["models=[qwen2.5-vl-7b,local:a@b,qwen2.5-vl-7b]"], r"^models=\[qwen2\.5-vl-7b,local:a@b,.*: duplicate qwen"),
        (["models=[nowhere]"], "^models=nowhere: no such option"),
        (["models=[{a: 1}]"], "^models: {'a': 1}: expected names"),
        (["models=[qwen2.5-vl-7b,3]"], "^models: 3: expected names"),
        (["models=[null]"], "^models: None: expected names"),
        ([both, "model=pangea-7b"], "^model=pangea-7b: not allowed with models="),
        (["model=qwen2.5-vl-7b", both], "^model=qwen2.5-vl-7b: not allowed with models="),
        ([both, "model.checkpoint=org/other"], "^model.checkpoint=org/other: not allowed with models="),
        ([both, "model.name=x"], "^model.name=x: not allowed with models="),
        ([both, "model.pixels=3"], "model.pixels=3: no such key"),
        ([both, "model.max_pixels=many"], "max_pixels"),
    ]

    def check(overrides: list[str], message: str) -> None:
        for job, more in JOBS.items():
            with pytest.raises(InputError, match=message):
                load(job, *more, *overrides)

    check_cases(check, cases)
    with pytest.raises(InputError, match=r"^image_model=sdxl-base: not allowed with image_models="):
        load("generate_images", "image_model=sdxl-base", "image_models=[sd3-medium]")

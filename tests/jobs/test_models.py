"""The list of named models: what conf/ states, filters, and its JSON."""

import json

import pytest

from jobs.checkpoints import vlm
from jobs.errors import InputError
from jobs.models import ModelListConfig, execute
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config_files


def test_every_name_is_listed_with_what_its_file_states(capsys: pytest.CaptureFixture[str]) -> None:
    models = execute(ModelListConfig())
    names = [
        (group, name) for group in ("model", "embedder", "image_model") for name in config_files.options(group, None)
    ]
    assert [(model["key"], model["name"]) for model in models] == names
    assert len(capsys.readouterr().out.splitlines()) == len(names) + 2
    by_name = {(model["key"], model["name"]): model for model in models}
    gemma = by_name["model", "gemma-3-12b"]
    assert (gemma["memory_gb"], gemma["gated"], gemma["licence"]) == (29, True, "Gemma Terms of Use")
    assert by_name["model", "kimi-k2.5"]["memory_gb"] is None
    assert by_name["model", "qwen3.5-9b"]["architecture"] == "qwen3_5"
    assert by_name["model", "qwen3.5-9b"]["tested"] == "equal"
    assert {model["tested"] for model in models} <= {"equal", ""}
    assert {model["architecture"] for model in models} <= {*vlm.comparisons(), None}
    assert by_name["embedder", "clip-b32"]["template"] is by_name["model", "qwen3.5-9b"]["template"] is None
    assert by_name["embedder", "siglip2-base"]["engines"] == "transformers"
    assert by_name["embedder", "clip-b32"]["engines"] == "open_clip"


def test_filters_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    models = execute(ModelListConfig(memory_gb=24, gated=False, json=True))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == models
    names = {model["name"] for model in models}
    assert {"qwen2.5-vl-7b", "qwen3.5-9b"} < names
    # too large, gated, and of unknown size
    assert not {"qwen3.6-27b", "aya-vision-8b", "kimi-k2.5"} & names
    gated = execute(ModelListConfig(gated=True))
    assert gated
    assert all(model["gated"] for model in gated)
    for value in (0, -1, float("nan")):
        with pytest.raises(InputError, match="memory_gb"):
            execute(ModelListConfig(memory_gb=value))


def test_models_are_found_by_a_part_of_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main("models", ["Qwen2.5-VL", "json=true"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "qwen2.5-vl-7b" in [model["name"] for model in listed]
    assert all("qwen2.5-vl" in f"{model['name']} {model['checkpoint']}".casefold() for model in listed)
    assert cli.main("models", ["qwen25vl"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: name=qwen25vl: no model has this in its name or checkpoint; did you mean qwen2.5-vl-7b, "
    )
    assert cli.main("models", ["xyzzyx"]) == 2
    assert capsys.readouterr().err.endswith("; remine models lists all\n")

"""Loading without a network, and what is recorded of a model."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from actors.vlm.loading import check_vlm, load_vlm, model_facts, rater_name


def test_rater_names(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert rater_name("Qwen/Qwen2.5-VL-7B-Instruct", revision="abc") == "Qwen/Qwen2.5-VL-7B-Instruct@abc"
    assert rater_name("Qwen/Qwen2.5-VL-7B-Instruct") == "Qwen/Qwen2.5-VL-7B-Instruct@main"
    assert rater_name("local:qwen2.5-vl-tiny", revision="main") == "local:qwen2.5-vl-tiny"
    assert rater_name(str(tmp_path / "mine")) == "mine"


def test_facts(vlm: tuple[Any, Any]) -> None:
    import torch
    import transformers

    facts = model_facts(vlm[0], model="local:qwen2.5-vl-tiny", revision=None)
    assert facts._asdict() == {
        "rater": "local:qwen2.5-vl-tiny",
        "family": "qwen2_5_vl",
        "revision": "",
        "dtype": "float32",
        "engine": f"transformers {transformers.__version__} / torch {torch.__version__}, {vlm[0].device.type}",
    }


def test_bfloat16_is_loaded_when_asked_for(one_thread: None) -> None:
    import torch

    model, _ = load_vlm("local:qwen2.5-vl-tiny", dtype="bfloat16", device_map="cpu")
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert not model.training


@pytest.mark.parametrize(
    ("name", "message"),
    [("local:nothing", "no local model 'nothing'"), ("FOLDER", "cannot load model .*empty' at revision 'main'")],
)
def test_a_model_that_is_not_there(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=message) as caught:
        load_vlm(name.replace("FOLDER", str(tmp_path / "empty")))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no model there"),
        ({"config.json": "not JSON"}, "no model there"),
        ({"config.json": '{"model_type": "clip"}'}, "a model of type 'clip', which is neither"),
        ({"config.json": '{"model_type": "llama"}'}, "no weights there"),
        ({"config.json": '{"model_type": "llama"}', "a.safetensors": ""}, "no chat template there"),
    ],
)
def test_a_folder_that_holds_no_judge_is_told_before_anything_is_loaded(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        check_vlm(str(tmp_path))


def test_a_folder_that_holds_one_is_none_without_its_configuration(tmp_path: Path, vlm: tuple[Any, Any]) -> None:
    folder = tmp_path / "judge"
    shutil.copytree(vlm[1].tokenizer.name_or_path, folder)
    check_vlm(str(folder))
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match=r"config\.json"):
        check_vlm(str(folder))


def test_unknown_dtype() -> None:
    with pytest.raises(ValueError, match="dtype 'int8' is not one of auto, float32"):
        load_vlm("local:qwen2.5-vl-tiny", dtype="int8")


def test_pickled_weights_are_refused(tmp_path: Path, vlm: tuple[Any, Any]) -> None:
    import torch

    model, processor = vlm
    processor.save_pretrained(tmp_path)
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="cannot load model"):
        load_vlm(str(tmp_path))


def test_the_local_model_is_the_same_whenever_built(tmp_path: Path, vlm: tuple[Any, Any]) -> None:
    import torch
    from safetensors.torch import load_file

    from actors.local_models import qwen

    state = torch.random.get_rng_state()
    qwen.build(tmp_path)
    assert torch.equal(torch.random.get_rng_state(), state)
    stored = Path(vlm[1].tokenizer.name_or_path)
    for name in ("tokenizer.json", "config.json"):
        assert (tmp_path / name).read_bytes() == (stored / name).read_bytes()
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (tmp_path, stored))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)

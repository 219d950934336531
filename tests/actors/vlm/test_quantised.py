"""Quantised checkpoints: their forms, what is refused before a run, and FP8 against its dequantised weights."""

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from transformers import PretrainedConfig

from actors.errors import ModelError
from actors.vlm import quantised
from actors.vlm.loading import load_vlm, model_facts
from actors.vlm.model_checks import WEIGHTS, check_quantised, check_vlm, weight_bytes, weights_form
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.scoring_requests import ScoringRequest
from jobs.checkpoints.vlm import ModelConfig
from tests.actors.vlm.helpers import DIGITS, MODEL, distance, logprobs, picture
from tests.actors.vlm.quantised_checkpoints import write_compressed, write_fp8
from tests.cases import check_cases

FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
PACKED = {"quant_method": "compressed-tensors", "format": "pack-quantized"}


def of(stored: Any) -> dict[str, Any]:
    return {"model_type": "qwen2_5_vl", "quantization_config": stored}


def test_methods_are_those_of_transformers() -> None:
    from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING

    names = {name.removesuffix("_4bit").removesuffix("_8bit") for name in AUTO_QUANTIZER_MAPPING}
    assert set(quantised.METHODS) == names


def test_forms() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, ""),
        (of(None), ""),
        (of(FP8), "fp8, dequantised"),
        ({"text_config": of(FP8)}, "fp8, dequantised"),
        (of(BNB | {"bnb_4bit_compute_dtype": "bfloat16"}), "bitsandbytes 4-bit nf4 computed in bfloat16"),
        (of({"load_in_8bit": True}), "bitsandbytes 8-bit"),
        (of({"quant_method": "gptq", "bits": 4}), "gptq 4-bit"),
        (of({"quant_method": "awq", "w_bit": 4}), "awq 4-bit"),
        (of(PACKED | {"format": "a|b\n"}), "compressed-tensors ab, dequantised"),
        (of({"quant_method": "mxfp4", "modules_to_not_convert": None}), "mxfp4, dequantised"),
    ]

    def check(config: dict[str, Any], expected: str) -> None:
        assert quantised.form("m", config) == expected

    check_cases(check, cases)
    assert quantised.form("m", of(FP8), as_stored=True) == "fp8"


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages are named with the command that installs them; unknown forms would be read as weights."""
    installed = {"bitsandbytes", "optimum", "vptq", "fbgemm_gpu"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in installed else None)
    skip = "modules_to_not_convert"
    cases: list[tuple[Any, dict[str, Any], tuple[str, ...]]] = [
        ("fp8", {}, ("quantization_config='fp8'", "object with a quant_method")),
        ({}, {}, ("quantization_config={}",)),
        ([FP8], {}, ("must be an object",)),
        ({"bits": 4}, {}, ("object with a quant_method",)),
        ({"quant_method": None}, {}, ("object with a quant_method",)),
        ({"quant_method": "fp9"}, {}, ("quant_method='fp9'", "must be one of", "gptq")),
        (FP8 | {skip: "lm_head"}, {}, (f"{skip}='lm_head'", "list of names")),
        (FP8 | {skip: [1]}, {}, ("list of names",)),
        ({"quant_method": "gptq"}, {}, ("needs gptqmodel", "pip install optimum gptqmodel")),
        ({"quant_method": "awq"}, {}, ("needs gptqmodel",)),
        (PACKED, {}, ("needs compressed_tensors", "'.[quantised]'")),
        ({"quant_method": "quanto"}, {}, ("needs optimum.quanto", "pip install optimum-quanto")),
        ({"quant_method": "gguf"}, {}, ("not safetensors",)),
        ({"quant_method": "nvfp4"}, {}, ("loads no such checkpoint", "engine=vllm")),
        ({"quant_method": "vptq"}, {"gpus": 0}, ("on GPUs only", "num_gpus")),
        (
            {"quant_method": "fbgemm_fp8"},
            {"gpus": 1, "dtype": "float32"},
            ("use model.dtype=bfloat16",),
        ),
    ]

    def check(stored: Any, keys: dict[str, Any], words: tuple[str, ...]) -> None:
        with pytest.raises(ModelError) as refused:
            quantised.check("me/model", of(stored), **keys)
        assert [word for word in ("me/model: ", *words) if word not in str(refused.value)] == []

    check_cases(check, cases)
    for stored in (None, FP8, BNB, FP8 | {skip: None}, FP8 | {skip: ["lm_head"]}, {"quant_method": "vptq"}):
        quantised.check("me/model", of(stored))


def test_a_folder_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    from actors.model_files import resolve

    folder = shutil.copytree(resolve(MODEL), tmp_path / "m")
    values = json.loads((folder / "config.json").read_text())
    for stored, words in (("x", "must be an object"), ({"quant_method": "nvfp4"}, "no such checkpoint")):
        (folder / "config.json").write_text(json.dumps(values | {"quantization_config": stored}))
        with pytest.raises(ModelError, match=words):
            check_quantised(str(folder), dtype="auto", gpus=0, local_only=True)
    check_vlm(str(folder))  # a method whose package is missing is one that vLLM may have
    check_quantised("me/not_in_the_cache", dtype="auto", gpus=0, local_only=True)
    assert weights_form("me/not_in_the_cache") == weights_form(MODEL) == ""


def test_dequantised_weights_take_the_memory_of_numbers_in_16_bits(tmp_path: Path) -> None:
    (tmp_path / WEIGHTS[0]).write_text(json.dumps({"metadata": {"total_size": 1000}}))
    groups = {"a": {"weights": {"num_bits": 4}}, "b": {"weights": {"num_bits": 8}}, "c": {"weights": None}, "d": 1}
    packed = PACKED | {"config_groups": {"a": groups["a"]}}
    cases: list[tuple[Any, bool, float]] = [(packed, False, 4000), (packed, True, 1000),
                                            (PACKED | {"config_groups": groups}, False, 2000),
                                            (PACKED | {"config_groups": {"a": 5}}, False, 1000),
                                            (PACKED | {"config_groups": 3}, False, 1000),
                                            ({"quant_method": "metal", "bits": 4}, False, 4000),
                                            (None, False, 1000), (FP8, False, 2000), (FP8, True, 1000),
                                            ({"quant_method": "mxfp4"}, False, 4000), (BNB, False, 1000)]  # fmt: skip
    for stored, as_stored, expected in cases:
        (tmp_path / "config.json").write_text(json.dumps(of(stored) | {"dtype": "bfloat16"}))
        assert weight_bytes(str(tmp_path), dtype="bfloat16", as_stored=as_stored) == expected, stored


def test_the_headers_of_local_files_say_what_loaded_weights_take(tmp_path: Path) -> None:
    """An embedding that is not quantised (12 numbers), and 8 or 16 quantised weights with their scales."""
    half, scale = torch.zeros(3, 4, dtype=torch.bfloat16), torch.zeros(2, 1)
    fp8 = {"w.weight": torch.zeros(2, 4, dtype=torch.float8_e4m3fn), "w.weight_scale_inv": scale}
    packed = {
        "w.weight_packed": torch.zeros(2, 1, dtype=torch.int32),
        "w.weight_scale": scale,
        "w.weight_shape": torch.zeros(2, dtype=torch.int64),
    }
    mxfp4 = {"w_blocks": torch.zeros(2, 2, dtype=torch.uint8), "w_scales": torch.zeros(2, dtype=torch.uint8)}
    awq = {"w.qweight": torch.zeros(2, 1, dtype=torch.int32), "w.scales": torch.zeros(2, 1, dtype=torch.float16)}
    groups = PACKED | {"config_groups": {"a": {"weights": {"num_bits": 4}}}}
    cases: list[tuple[Any, dict[str, Any], str, bool, float]] = [
        (None, {}, "bfloat16", False, 24), (None, {}, "float32", False, 48),
        (FP8, fp8, "bfloat16", False, 24 + 16), (FP8, fp8, "bfloat16", True, 24 + 8 + 4),
        (groups, packed, "bfloat16", False, 24 + 32),
        ({"quant_method": "mxfp4"}, mxfp4, "bfloat16", False, 24 + 16),
        ({"quant_method": "awq", "w_bit": 4}, awq, "float16", False, 24 + 8 + 4),
    ]  # fmt: skip
    for stored, tensors, dtype, as_stored, expected in cases:
        (tmp_path / "config.json").write_text(json.dumps(of(stored)))
        safetensors.torch.save_file({"embed": half, **tensors}, tmp_path / "model.safetensors", {"format": "pt"})
        assert weight_bytes(str(tmp_path), dtype=dtype, as_stored=as_stored) == expected, stored
    (tmp_path / WEIGHTS[0]).write_text(json.dumps({"weight_map": {"embed": "absent.safetensors"}}))
    assert weight_bytes(str(tmp_path), dtype="float16") == (tmp_path / WEIGHTS[1]).stat().st_size  # estimated


def test_auto_takes_a_dtype_that_the_method_computes_in() -> None:
    config = PretrainedConfig(quantization_config={"quant_method": "awq"})
    dtypes = ("bfloat16", "float16", "float32")
    assert [quantised.supported_dtype(config, dtype) for dtype in dtypes] == ["float16", "float16", "float32"]
    assert quantised.supported_dtype(PretrainedConfig(), "bfloat16") == "bfloat16"


@pytest.mark.parametrize(
    ("write", "form", "package"),
    [
        (write_fp8, "fp8, dequantised", "torch"),
        (write_compressed, "compressed-tensors int-quantized, dequantised", "compressed_tensors"),
    ],
)
def test_likelihoods_are_those_of_the_dequantised_weights(
    tmp_path: Path, write: Callable[..., None], form: str, package: str
) -> None:
    """And differ from those of the weights before they were quantised, so that the form is part of the identity."""
    pytest.importorskip(package)
    from actors.rubrics.prompts import Prompt

    write(MODEL, tmp_path / "small", tmp_path / "plain")
    suffixes = ("How relevant is this to Melanesia?", "Does it show people?")
    asked = [ScoringRequest(Prompt((None, "An article.\n\n"), suffix), picture(1), DIGITS) for suffix in suffixes]

    def scored(name: str) -> tuple[Any, list[float]]:
        model, processor = load_vlm(name, dtype="float32", device_map="cpu")
        return model, logprobs(ClosedSetScorer(model, processor, engine="naive").score(asked))

    model, values = scored(str(tmp_path / "small"))
    assert distance(values, scored(str(tmp_path / "plain"))[1]) < 1e-5
    assert distance(values, scored(MODEL)[1]) > 1e-2
    assert model_facts(model, model=str(tmp_path / "small")).dtype == f"float32, {form}"
    identity = ModelConfig(name="m", checkpoint=str(tmp_path / "small")).identity
    assert identity["form"] == form
    assert "form" not in ModelConfig(name="m", checkpoint=str(tmp_path / "plain")).identity

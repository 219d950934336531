"""Names of devices and dtypes: what is none is refused before anything is loaded."""

import pytest
import torch

from actors.devices import check_device, check_dtype, find_device, find_dtype
from actors.vlm.loading import load_vlm


def test_names() -> None:
    for name in ("auto", "cpu", "cuda", "cuda:1", "mps"):
        check_device(name)
    for name in ("auto", "float32", "bfloat16", "float16"):
        check_dtype(name)
    assert find_dtype("auto", torch.device("cpu")) == "float32"
    for name in ("zzz", "cuda:x", ""):
        with pytest.raises(ValueError, match=f"device={name}"):
            check_device(name)
    with pytest.raises(ValueError, match="dtype=int3"):
        check_dtype("int3")


def test_what_this_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == torch.device("cpu")
    with pytest.raises(ValueError, match="device=cuda"):
        find_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert find_device("auto") == find_device("cuda")
    assert find_device("cuda:0").index == 0
    with pytest.raises(ValueError, match=r"device=cuda:1: .* 1 cuda"):
        find_device("cuda:1")
    with pytest.raises(ValueError, match=r"device=cuda:7: .* 1 cuda"):
        find_device("cuda:7")


def test_a_process_that_was_given_a_gpu_does_not_fall_back_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for devices in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)
        assert find_device("auto") == torch.device("cpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with pytest.raises(ValueError, match=r"CUDA_VISIBLE_DEVICES=3, but torch .* finds no CUDA device"):
        find_device("auto")
    assert find_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="finds no CUDA device"):
        load_vlm("local:tiny-qwen2-vl")


def test_bfloat16_is_refused_where_a_gpu_only_emulates_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Tesla T4")
    for computes, auto in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda computes=computes, **_: computes)
        assert find_dtype("auto", gpu) == auto
        assert find_dtype("float16", gpu) == "float16"
    with pytest.raises(ValueError, match=r"dtype=bfloat16, but the GPU Tesla T4"):
        find_dtype("bfloat16", gpu)

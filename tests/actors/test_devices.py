"""Names of devices and dtypes: what is none is refused before anything is loaded."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from actors import devices
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
    for visible in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
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


@pytest.fixture
def setting() -> Any:
    """torch's own setting, restored after the test."""
    mkldnn: Any = torch.backends.mkldnn
    if not hasattr(mkldnn, "matmul"):
        pytest.skip("this torch has no setting for oneDNN's products")
    before = mkldnn.matmul.fp32_precision
    mkldnn.matmul.fp32_precision = "ieee"
    yield mkldnn.matmul
    mkldnn.matmul.fp32_precision = before


def test_onednn_is_enabled_where_it_is_faster_and_keeps_float32(setting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns = torch.randn(70, 300), torch.randn(300, 50)
    expected = rows @ columns
    cases = [
        # faster, keeps float32, REMINE_ONEDNN, enabled
        (True, True, None, True),
        (True, True, "0", False),
        (True, False, None, False),
        (False, True, None, False),
    ]
    for faster, exact, switch, enabled in cases:
        monkeypatch.setattr(devices, "_is_faster", lambda faster=faster: faster)
        monkeypatch.setattr(devices, "_keeps_float32", lambda exact=exact: exact)
        monkeypatch.setenv(devices.ONEDNN_SWITCH, switch) if switch else monkeypatch.delenv(
            devices.ONEDNN_SWITCH, raising=False
        )
        setting.fp32_precision = "ieee"
        assert devices.enable_onednn.__wrapped__() is enabled, (faster, exact, switch)
        assert (setting.fp32_precision == "bf16") is enabled, (faster, exact, switch)
    monkeypatch.undo()
    if devices._is_faster():  # on the CPUs concerned: the products themselves
        assert devices.enable_onednn.__wrapped__()
        torch.testing.assert_close(rows @ columns, expected, rtol=1e-5, atol=1e-4)


def test_onednn_is_faster_where_mkl_does_not_use_avx_512(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = {
        # oneDNN's setting, MKL, the instructions, a processor of Intel
        (True, True, "AVX512", False): True,
        (False, True, "AVX512", False): False,
        (True, False, "AVX512", False): False,
        (True, True, "AVX2", False): False,
        (True, True, "AVX512", True): False,
    }
    outcomes = {}
    for setting, mkl, capability, intel in cases:
        backends = SimpleNamespace(
            mkldnn=SimpleNamespace(**({"matmul": None} if setting else {})),
            mkl=SimpleNamespace(is_available=lambda mkl=mkl: mkl),
            cpu=SimpleNamespace(get_cpu_capability=lambda capability=capability: capability),
        )
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(backends=backends))
        monkeypatch.setattr(devices, "_is_intel", lambda intel=intel: intel)
        outcomes[setting, mkl, capability, intel] = devices._is_faster()
    assert outcomes == cases


def test_a_product_in_bfloat16_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    multiply = torch.mm
    assert devices._keeps_float32()
    monkeypatch.setattr(torch, "mm", lambda a, b: multiply(a.bfloat16(), b.bfloat16()).float())
    assert not devices._keeps_float32()


def test_the_maker_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any, **__: Any) -> str:
        if description is None:
            raise FileNotFoundError
        return description

    monkeypatch.setattr(Path, "read_text", read)
    for description, intel in (
        ("vendor_id\t: GenuineIntel\n", True),
        ("vendor_id\t: AuthenticAMD\n", False),
        ("CPU implementer\t: 0x41\n", True),
        (None, True),
    ):
        assert devices._is_intel() is intel, description

"""Float32 products by oneDNN: where they are enabled, and that they stay float32."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from actors import onednn


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
        monkeypatch.setattr(onednn, "_is_faster", lambda faster=faster: faster)
        monkeypatch.setattr(onednn, "_keeps_float32", lambda exact=exact: exact)
        monkeypatch.setenv(onednn.SWITCH, switch) if switch else monkeypatch.delenv(onednn.SWITCH, raising=False)
        setting.fp32_precision = "ieee"
        assert onednn.enable.__wrapped__() is enabled, (faster, exact, switch)
        assert (setting.fp32_precision == "bf16") is enabled, (faster, exact, switch)
    monkeypatch.undo()
    if onednn._is_faster():  # on the CPUs concerned: the products themselves
        assert onednn.enable.__wrapped__()
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
        monkeypatch.setattr(onednn, "torch", SimpleNamespace(backends=backends))
        monkeypatch.setattr(onednn, "_is_intel", lambda intel=intel: intel)
        outcomes[setting, mkl, capability, intel] = onednn._is_faster()
    assert outcomes == cases


def test_a_product_in_bfloat16_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    multiply = torch.mm
    assert onednn._keeps_float32()
    monkeypatch.setattr(torch, "mm", lambda a, b: multiply(a.bfloat16(), b.bfloat16()).float())
    assert not onednn._keeps_float32()


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
        assert onednn._is_intel() is intel, description

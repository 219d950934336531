"""Products by oneDNN: the same numbers, for every form that encoders and judges ask for."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from actors import onednn
from actors.devices import find_device
from actors.encoders.towers import load_tower
from actors.vlm.loading import load_vlm

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch was built without oneDNN"
)


@pytest.fixture
def paying(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As if MKL were slow here; the rows of each product that oneDNN is asked for."""
    asked: list[int] = []
    multiply = onednn._multiply

    def counted(rows: torch.Tensor, *rest: Any) -> torch.Tensor:
        asked.append(rows.numel() // rows.shape[-1])
        return multiply(rows, *rest)

    monkeypatch.setattr(onednn, "pays", lambda: True)
    monkeypatch.setattr(onednn, "_multiply", counted)
    return asked


def both(module: torch.nn.Module) -> tuple[torch.nn.Module, torch.nn.Module]:
    """The module, and a copy that is sped up."""
    faster = copy.deepcopy(module.eval())
    onednn.speed_up(faster)
    return module, faster


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 48), (1, 48), (2, 3, 48), (2, 3, 4, 48), (0, 48)])
def test_a_layer(paying: list[int], bias: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    plain, faster = both(torch.nn.Linear(48, 20, bias=bias))
    rows = torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(faster(rows), plain(rows), rtol=1e-5, atol=1e-6)
        turned = rows.transpose(0, -2)  # not contiguous
        torch.testing.assert_close(faster(turned), plain(turned), rtol=1e-5, atol=1e-6)
    assert paying == ([rows.numel() // 48] * 2 if rows.numel() else [])


def test_rows_with_rows(paying: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, scratch = torch.randn(5, 48), torch.randn(70, 48), torch.empty(5, 70)
    with torch.inference_mode():
        found = onednn.inner(one, other, scratch=lambda: scratch)
        assert paying == [5]
        monkeypatch.setattr(onednn, "pays", lambda: False)
        assert onednn.inner(one, other, scratch=lambda: scratch) is scratch
        torch.testing.assert_close(found, scratch, rtol=1e-5, atol=1e-5)
        halves = onednn.inner(one.bfloat16(), other.bfloat16(), scratch=lambda: torch.empty(5, 70).bfloat16())
    assert halves.dtype == torch.bfloat16


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("mask", ["none", "float", "bool"])
def test_attention(paying: list[int], batch_first: bool, mask: str) -> None:
    torch.manual_seed(2)
    plain, faster = both(torch.nn.MultiheadAttention(32, 4, batch_first=batch_first))
    rows = torch.randn(3, 7, 32) if batch_first else torch.randn(7, 3, 32)
    later = torch.ones(7, 7, dtype=torch.bool).triu(1)
    given = {
        "none": None,
        "float": torch.zeros(7, 7).masked_fill_(later, float("-inf")),
        "bool": later,
    }[mask]
    with torch.inference_mode():
        found, weights = faster(rows, rows, rows, need_weights=False, attn_mask=given)
        wanted, _ = plain(rows, rows, rows, need_weights=False, attn_mask=given)
    assert weights is None
    assert paying == [21, 21]
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"need_weights": True},
        {"need_weights": False, "key_padding_mask": torch.tensor([[False] * 6 + [True]] * 3)},
        {"need_weights": False, "attn_mask": torch.zeros(12, 7, 7)},
        {"need_weights": False, "is_causal": True, "attn_mask": torch.ones(7, 7, dtype=torch.bool).triu(1)},
    ],
)
def test_attention_of_another_kind_is_torchs_own(paying: list[int], options: dict[str, Any]) -> None:
    torch.manual_seed(3)
    plain, faster = both(torch.nn.MultiheadAttention(32, 4, batch_first=True))
    rows = torch.randn(3, 7, 32)
    with torch.inference_mode():
        found, wanted = faster(rows, rows, rows, **options), plain(rows, rows, rows, **options)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_cross_attention_is_torchs_own(paying: list[int]) -> None:
    plain, faster = both(torch.nn.MultiheadAttention(32, 4, batch_first=True))
    one, other = torch.randn(3, 2, 32), torch.randn(3, 7, 32)
    with torch.inference_mode():
        found, wanted = (module(one, other, other, need_weights=False)[0] for module in (faster, plain))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_gradients_and_other_numbers_are_torchs_own(paying: list[int]) -> None:
    _, faster = both(torch.nn.Linear(8, 4))
    faster(torch.randn(2, 8)).sum().backward()
    gradient = next(faster.parameters()).grad
    assert gradient is not None
    assert gradient.abs().sum() > 0
    with torch.inference_mode():
        assert faster.to(torch.bfloat16)(torch.randn(2, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert not paying


def test_where_it_does_not_pay_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "pays", lambda: False)
    _, same = both(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.MultiheadAttention(32, 4)))
    assert [type(module) for module in same.children()] == [torch.nn.Linear, torch.nn.MultiheadAttention]


@pytest.mark.parametrize(
    ("described", "intel"),
    [
        ("vendor_id\t: GenuineIntel\n", True),
        ("vendor_id\t: AuthenticAMD\n", False),
        ("CPU implementer\t: 0x41\n", True),
        (None, True),
    ],
)
def test_whose_processor(monkeypatch: pytest.MonkeyPatch, described: str | None, intel: bool) -> None:
    def read(*_: Any, **__: Any) -> str:
        if described is None:
            raise FileNotFoundError
        return described

    monkeypatch.setattr(Path, "read_text", read)
    assert onednn._is_intel() is intel


def test_encoders_take_it(paying: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = []
    for pays in (True, False):
        monkeypatch.setattr(onednn, "pays", lambda pays=pays: pays)
        tower = load_tower("local:siglip-tiny", None, device=find_device("cpu"), dtype="float32")
        pixels = torch.arange(2 * 3 * tower.size[0] * tower.size[1]).remainder(251).to(torch.uint8)
        asked = len(paying)
        with torch.inference_mode():
            vectors.append([tower.pictures(pixels.view(2, 3, *tower.size)), tower.texts(["a cat", "ein Hund"])])
        assert (len(paying) > asked) is pays
    torch.testing.assert_close(vectors[0], vectors[1], rtol=1e-4, atol=1e-5)


def test_judges_take_it(paying: list[int]) -> None:
    model, processor = load_vlm("local:qwen2.5-vl-tiny", device_map="cpu")
    with torch.inference_mode():
        model(**processor.tokenizer("a cat", return_tensors="pt"))
    assert paying

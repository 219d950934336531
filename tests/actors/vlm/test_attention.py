"""Cascade attention against one pass over prefix and suffix, without a model."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from actors.vlm import attention
from actors.vlm.attention import (
    AttentionPlan,
    _additive,
    _aligned,
    _on_cpu,
    _plain,
    active,
    active_plan,
    cascade,
)
from tests.cases import check_cases

HEADS, KEY_HEADS, SIZE, PREFIX = 4, 2, 8, 5


def attended(suffix: int, *, scaling: float | None, window: int | None) -> tuple[Any, Any]:
    """Return the cascade over one suffix, and dense attention over prefix and suffix, both [Q, heads, size]."""
    import torch

    random = torch.Generator().manual_seed(0)
    query = torch.randn(1, HEADS, suffix, SIZE, generator=random)
    keys, values = (torch.randn(1, KEY_HEADS, PREFIX + suffix, SIZE, generator=random) for _ in range(2))
    plan = AttentionPlan(
        prefix={0: (keys[:, :, :PREFIX], values[:, :, :PREFIX])},
        windows={1: 1} | ({} if window is None else {0: window}),
        rows=1,
        width=suffix,
        places=None,
        depths=torch.arange(suffix)[None],
        ancestors=None,
    )
    layer = SimpleNamespace(layer_idx=0)
    with active(plan):
        packed, _ = cascade(layer, query, keys[:, :, PREFIX:], values[:, :, PREFIX:], None, scaling=scaling)
    distance = torch.arange(PREFIX, PREFIX + suffix)[:, None] - torch.arange(PREFIX + suffix)[None]
    seen = (distance >= 0) & (distance < (window or PREFIX + suffix))
    dense = torch.nn.functional.scaled_dot_product_attention(
        query, keys.repeat_interleave(2, 1), values.repeat_interleave(2, 1), attn_mask=seen, scale=scaling
    )
    return packed[0], dense[0].transpose(0, 1)


@pytest.mark.parametrize("scaling", [None, 0.1])
def test_scores_are_scaled_by_the_head_size_or_as_asked(scaling: float | None) -> None:
    packed, dense = attended(3, scaling=scaling, window=None)
    assert (packed - dense).abs().max() < 1e-5


def test_a_window_counts_the_query_and_reaches_into_the_prefix() -> None:
    def check(window: int) -> None:
        packed, dense = attended(3, scaling=None, window=window)
        assert (packed - dense).abs().max() < 1e-5

    check_cases(check, [1, 2, 3, 4, 8])


def test_parts_in_half_precision_are_put_together_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    random = torch.Generator().manual_seed(0)
    shape = (1, HEADS, 50, SIZE)
    far, near, query = (torch.randn(shape, generator=random).bfloat16() for _ in range(3))
    far_sum, near_sum = (torch.randn(shape[:3], generator=random) for _ in range(2))
    grouped = (1, KEY_HEADS, -1, SIZE)
    monkeypatch.setattr(attention, "attend", lambda *_, **__: (far.reshape(grouped), far_sum))
    monkeypatch.setattr(attention, "within_suffixes", lambda *_, **__: (near, near_sum))
    key = torch.zeros(1, KEY_HEADS, 50, SIZE)
    plan = AttentionPlan({0: (key, key)}, {}, 1, 50, None, torch.arange(50)[None], None)
    with active(plan):
        merged, _ = cascade(SimpleNamespace(layer_idx=0), query, key, key, None)
    weight = (far_sum.exp() / (far_sum.exp() + near_sum.exp()))[..., None]
    exact = (weight * far.double() + (1 - weight) * near.double()).transpose(1, 2)
    assert merged.dtype == torch.bfloat16
    error = ((merged.double() - exact).abs() / (exact.abs() + 1e-6)).max().item()
    assert error < 1.01 * 2**-8, "rounded once"


def test_attention_without_a_kernel_is_that_of_the_kernel() -> None:
    def check(causal: bool, masked: bool) -> None:
        import torch

        random = torch.Generator().manual_seed(0)
        query, key, value = (torch.randn(2, HEADS, 5, SIZE, generator=random) for _ in range(3))
        mask = _additive(torch.rand(2, 1, 5, 5, generator=random) < 0.7, query) if masked and not causal else None
        out, sums = _plain(query, key, value, scale=0.3, mask=mask, causal=causal)
        fast, fast_sums = _on_cpu(query, key, value, scale=0.3, mask=mask, causal=causal)
        assert (out - fast).abs().max() < 1e-5
        assert (sums - fast_sums).abs().max() < 1e-5
        assert (
            _plain(query.half(), key.half(), value.half(), scale=0.3, mask=None, causal=causal)[0].dtype
            == torch.float16
        )

    check_cases(check, itertools.product([False, True], [False, True]))


def test_a_layer_without_a_plan_attends_as_usual() -> None:
    import torch

    random = torch.Generator().manual_seed(0)
    query = torch.randn(1, HEADS, 3, SIZE, generator=random)
    key, value = (torch.randn(1, KEY_HEADS, 5, SIZE, generator=random) for _ in range(2))
    layer = SimpleNamespace(layer_idx=0, num_key_value_groups=HEADS // KEY_HEADS, is_causal=False)
    for scaling in (None, 0.1):
        dense = torch.nn.functional.scaled_dot_product_attention(
            query, key.repeat_interleave(2, 1), value.repeat_interleave(2, 1), scale=scaling
        )
        assert torch.allclose(cascade(layer, query, key, value, None, scaling=scaling)[0], dense.transpose(1, 2))


def test_a_plan_ends_with_its_pass() -> None:
    def fail() -> None:
        with active("a plan"):
            raise KeyError(active_plan())

    with pytest.raises(KeyError, match="a plan"):
        fail()
    assert active_plan() is None


def test_a_full_memory_is_not_a_kernel_without_support(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def fail(*_: Any, **__: Any) -> Any:
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(attention, "_on_cpu", fail)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        attention.attend(*torch.zeros(3, 1, 1, 2, SIZE), scale=1.0)


def test_masks() -> None:
    """Finite, in the dtype of the query, and with rows that begin at multiples of 16 elements."""
    import torch

    seen = torch.tensor([[True, False], [False, False]])
    mask = _additive(seen, torch.zeros(1, dtype=torch.float16))
    assert (mask.dtype, mask.tolist()) == (torch.float16, [[0, -65504], [-65504, -65504]])
    for length, stride in ((16, 16), (17, 32), (24, 32), (31, 32), (32, 32)):
        mask = torch.arange(3.0 * length).reshape(3, length)
        aligned = _aligned(mask)
        assert aligned.equal(mask)
        assert aligned.stride() == (stride, 1)

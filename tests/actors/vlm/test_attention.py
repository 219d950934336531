"""Cascade attention against one pass over prefix and suffix, without a model."""

import itertools
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from actors.vlm import attention
from actors.vlm.attention import (
    AttentionPlan,
    Segments,
    _additive,
    _aligned,
    _on_cpu,
    _plain,
    active,
    active_plan,
    attend_in_pictures,
    attend_segments,
    cascade,
)
from actors.vlm.families import Reach
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
        length=PREFIX,
        reaches={1: Reach(1)} | ({} if window is None else {0: Reach(window)}),
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


def test_soft_caps_and_sinks_are_those_of_the_library() -> None:
    """Against the eager attention of Gemma 2 and gpt-oss over prefix and suffix."""
    import torch
    from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as capped
    from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as sunk

    suffix, random = 3, torch.Generator().manual_seed(0)
    query = torch.randn(1, HEADS, suffix, SIZE, generator=random) * 3
    keys, values = (torch.randn(1, KEY_HEADS, PREFIX + suffix, SIZE, generator=random) for _ in range(2))
    sinks = torch.randn(HEADS, generator=random)
    near = (keys[:, :, PREFIX:], values[:, :, PREFIX:])
    prefix = {0: (keys[:, :, :PREFIX], values[:, :, :PREFIX])}
    plan = AttentionPlan(prefix, PREFIX, {}, 1, suffix, None, torch.arange(suffix)[None], None)
    mask = torch.full((suffix, PREFIX + suffix), -1e9).triu(PREFIX + 1)[None, None]
    layer: Any = SimpleNamespace(num_key_value_groups=HEADS // KEY_HEADS, training=False, layer_idx=0, sinks=sinks)
    for eager, options in ((capped, {"softcap": 2.0}), (sunk, {"s_aux": sinks})):
        with active(plan):
            packed, _ = cascade(layer, query, *near, None, scaling=0.5, **options)
            without, _ = cascade(layer, query, *near, None, scaling=0.5)
        expected, _ = eager(layer, query, keys, values, mask, scaling=0.5, dropout=0.0, **options)
        assert (packed - expected).abs().max() < 1e-5
        assert (without - expected).abs().max() > 0.01


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
    plan = AttentionPlan({0: (key, key)}, 50, {}, 1, 50, None, torch.arange(50)[None], None)
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


QUERIES, KEYS, SEGMENT_HEADS = 5, 7, 4


def tensors() -> tuple[Any, Any, Any]:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(QUERIES, SEGMENT_HEADS, 8, generator=draw)
    key, value = (torch.randn(KEYS, 2, 8, generator=draw) for _ in range(2))
    return query, key, value


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A kernel that returns its queries and sums of zero, and its calls."""
    recorded: list[dict[str, Any]] = []

    def kernel(query: Any, key: Any, value: Any, bounds: Any, **options: Any) -> tuple[Any, Any]:
        recorded.append({"bounds": [bound if isinstance(bound, int) else bound.tolist() for bound in bounds]} | options)
        return query, torch.zeros(query.shape[1], query.shape[0])

    monkeypatch.setattr(attention, "has_kernel", lambda *_: True)
    monkeypatch.setattr(attention, "_varlen", kernel)
    return recorded


def test_the_bounds_of_segments() -> None:
    pieces = Segments((3, 0, 2))
    assert (pieces.lengths, pieces.bounds, pieces.longest) == ((3, 0, 2), (0, 3, 3, 5), 3)
    on_cpu = pieces.on(torch.device("cpu"))
    assert (on_cpu.dtype, on_cpu.tolist()) == (torch.int32, [0, 3, 3, 5])
    assert pieces.on(torch.device("cpu")) is on_cpu
    assert (Segments(()).bounds, Segments(()).longest) == ((0,), 0)


@pytest.mark.parametrize("causal", [False, True])
def test_one_call_of_the_kernel_attends_in_all_segments(calls: list[dict[str, Any]], *, causal: bool) -> None:
    query, key, value = tensors()
    pieces: Any = {"queries": Segments((1, 4)), "keys": Segments((5, 2))}
    out, _ = attend_segments(query, key, value, **pieces, scale=0.3, causal=causal)
    assert out is query
    assert calls == [{"bounds": [[0, 1, 5], [0, 5, 7], 4, 5], "scale": 0.3, "causal": causal}]


def test_the_kernel_is_not_used_where_its_sums_could_be_transposed(calls: list[dict[str, Any]]) -> None:
    query, key, value = tensors()
    attend_segments(query[:SEGMENT_HEADS], key, value, queries=Segments((1, 3)), keys=Segments((5, 2)), scale=0.3)
    assert calls == []


def test_a_size_that_the_kernel_refuses_is_computed_segment_by_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = tensors()
    pieces: Any = {"queries": Segments((1, 4)), "keys": Segments((5, 2))}
    patches = query.transpose(0, 1)[None]
    bounds: Any = {"cu_seq_lens_q": torch.tensor([0, 2, 5]), "max_length_q": torch.tensor(3)}
    expected = attend_segments(query, key, value, **pieces, scale=0.3)
    seen = attend_in_pictures(None, patches, patches, patches, None, **bounds)[0]
    monkeypatch.setattr(attention, "has_kernel", lambda *_: True)
    monkeypatch.setattr(attention, "_varlen", lambda *_, **__: None)
    for one, other in zip(attend_segments(query, key, value, **pieces, scale=0.3), expected, strict=True):
        assert one.equal(other)
    assert attend_in_pictures(None, patches, patches, patches, None, **bounds)[0].equal(seen)


def test_patches_see_those_of_their_window() -> None:
    """By softmax in float64, with the scale of the head size unless another is passed."""
    query, key, value = (torch.randn(1, 2, 5, 4, generator=torch.Generator().manual_seed(n)).double() for n in range(3))
    for scaling, scale in ((None, 0.5), (0.2, 0.2)):
        seen, _ = attend_in_pictures(
            None, query, key, value, None, scaling=scaling, cu_seq_lens_q=torch.tensor([0, 2, 5]), max_length_q=3
        )
        scores = query @ key.transpose(-1, -2) * scale
        scores[..., :2, 2:] = scores[..., 2:, :2] = -torch.inf
        assert seen.shape == (1, 5, 2, 4)
        assert torch.allclose(seen, (scores.softmax(-1) @ value).transpose(1, 2), atol=1e-6)


def test_one_call_of_the_kernel_attends_in_all_pictures(calls: list[dict[str, Any]]) -> None:
    patches = torch.arange(2.0 * 5 * 4).reshape(1, 2, 5, 4)
    for scaling, scale in ((None, 0.5), (0.2, 0.2)):
        bounds: Any = {"cu_seq_lens_q": torch.tensor([0, 2, 5]), "max_length_q": torch.tensor(3)}
        out, none = attend_in_pictures(None, patches, patches, patches, None, scaling=scaling, **bounds)
        assert out.equal(patches.transpose(1, 2))
        assert none is None
        assert calls.pop() == {"bounds": [[0, 2, 5], [0, 2, 5], 3, 3], "scale": scale, "causal": False}


def test_torchs_kernel_and_the_order_of_its_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = tensors()
    sums = torch.arange(float(QUERIES * SEGMENT_HEADS)).reshape(SEGMENT_HEADS, QUERIES)
    calls: list[dict[str, Any]] = []

    def call(kernel: Any, *, causal: bool = False) -> Any:
        module = SimpleNamespace(AuxRequest=lambda **keys: keys, varlen_attn=kernel)
        monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", module)
        attention._names_grouped_heads.cache_clear()
        bounds: Any = ("starts", "ends", 4, 5)
        return attention._varlen(query, key, value, bounds, scale=0.3, causal=causal)

    def named(q: Any, k: Any, v: Any, *bounds: Any, enable_gqa: bool = False, **options: Any) -> tuple[Any, Any]:
        calls.append({"bounds": bounds, "enable_gqa": enable_gqa} | options)
        return q, sums.T

    def older(q: Any, k: Any, v: Any, *bounds: Any, **options: Any) -> tuple[Any, Any]:
        calls.append({"bounds": bounds} | options)
        return q, sums

    def failing(error: Exception) -> Any:
        def fail(*_: Any, **__: Any) -> None:
            raise error

        return fail

    common = {"bounds": ("starts", "ends", 4, 5), "return_aux": {"lse": True}, "scale": 0.3}
    try:
        for kernel, extra in ((named, {"enable_gqa": True}), (older, {})):
            for causal, window in ((False, (-1, -1)), (True, (-1, 0))):
                out, totals = call(kernel, causal=causal)
                assert out is query
                assert totals.equal(sums)
                assert calls.pop() == common | {"window_size": window} | extra
        for error in (RuntimeError("head size"), NotImplementedError()):
            assert call(failing(error)) is None
        with pytest.raises(torch.cuda.OutOfMemoryError):
            call(failing(torch.cuda.OutOfMemoryError()))
    finally:
        attention._names_grouped_heads.cache_clear()


def test_the_kernel_needs_a_gpu_and_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    cases = {(gpu, torch.float16): True, (gpu, torch.bfloat16): True, (gpu, torch.float32): False,
             (cpu, torch.float16): False}  # fmt: skip
    assert {case: attention.has_kernel(*case) for case in cases} == cases
    monkeypatch.setattr(attention, "_torch_has_kernel", lambda: False)
    assert not attention.has_kernel(gpu, torch.float16)

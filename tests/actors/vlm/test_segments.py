"""Attention within segments with a kernel for all of them, which is faked: torch's own needs a GPU."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from actors.vlm import segments
from actors.vlm.segments import Segments, attend_in_pictures, attend_segments

QUERIES, KEYS, HEADS = 5, 7, 4


def tensors() -> tuple[Any, Any, Any]:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(QUERIES, HEADS, 8, generator=draw)
    key, value = (torch.randn(KEYS, 2, 8, generator=draw) for _ in range(2))
    return query, key, value


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A kernel that returns its queries and sums of zero, and its calls."""
    recorded: list[dict[str, Any]] = []

    def kernel(query: Any, key: Any, value: Any, bounds: Any, **options: Any) -> tuple[Any, Any]:
        recorded.append({"bounds": [bound if isinstance(bound, int) else bound.tolist() for bound in bounds]} | options)
        return query, torch.zeros(query.shape[1], query.shape[0])

    monkeypatch.setattr(segments, "has_kernel", lambda *_: True)
    monkeypatch.setattr(segments, "_varlen", kernel)
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
    attend_segments(query[:HEADS], key, value, queries=Segments((1, 3)), keys=Segments((5, 2)), scale=0.3)
    assert calls == []


def test_a_size_that_the_kernel_refuses_is_computed_segment_by_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = tensors()
    pieces: Any = {"queries": Segments((1, 4)), "keys": Segments((5, 2))}
    patches = query.transpose(0, 1)[None]
    bounds = {"cu_seq_lens_q": torch.tensor([0, 2, 5]), "max_length_q": torch.tensor(3)}
    expected = attend_segments(query, key, value, **pieces, scale=0.3)
    seen = attend_in_pictures(None, patches, patches, patches, None, **bounds)[0]
    monkeypatch.setattr(segments, "has_kernel", lambda *_: True)
    monkeypatch.setattr(segments, "_varlen", lambda *_, **__: None)
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
    sums = torch.arange(float(QUERIES * HEADS)).reshape(HEADS, QUERIES)
    calls: list[dict[str, Any]] = []

    def call(kernel: Any, *, causal: bool = False) -> Any:
        module = SimpleNamespace(AuxRequest=lambda **keys: keys, varlen_attn=kernel)
        monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", module)
        segments._names_grouped_heads.cache_clear()
        return segments._varlen(query, key, value, ("starts", "ends", 4, 5), scale=0.3, causal=causal)

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
        segments._names_grouped_heads.cache_clear()


def test_the_kernel_needs_a_gpu_and_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    cases = {(gpu, torch.float16): True, (gpu, torch.bfloat16): True, (gpu, torch.float32): False,
             (cpu, torch.float16): False}  # fmt: skip
    assert {case: segments.has_kernel(*case) for case in cases} == cases
    monkeypatch.setattr(segments, "_torch_has_kernel", lambda: False)
    assert not segments.has_kernel(gpu, torch.float16)

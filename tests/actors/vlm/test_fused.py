"""Fused layers compute what they replace; those that would not stay as they are."""

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import MethodType
from typing import Any
from unittest import mock

import pytest

from actors.vlm import fused
from actors.vlm.loading import load_vlm

MODELS = ("local:qwen2.5-vl-tiny", "local:qwen3-vl-tiny", "local:llama-tiny")


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return load_vlm(request.param, dtype="float32", device_map="cpu")[0]


@pytest.fixture
def _on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fuse on CPUs, without liger-kernel, whose kernels need a GPU."""
    monkeypatch.setattr(fused, "takes", lambda _: True)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "liger_kernel" else find(name))


def logits(model: Any) -> Any:
    import torch

    ids = torch.arange(3, 30)[None]
    with torch.inference_mode():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


def test_nothing_is_fused_on_a_cpu(model: Any) -> None:
    assert fused.fuse(model) == []


@pytest.mark.usefixtures("_on_cpu")
def test_fused_norms_compute_the_same(model: Any) -> None:
    import torch

    expected = logits(model)
    replaced = fused.fuse(model)
    assert replaced
    assert all(name.endswith("RMSNorm") for name in replaced)
    norms = [layer for layer in model.modules() if type(layer).__name__ in replaced]
    with mock.patch.object(torch.nn.functional, "rms_norm", wraps=torch.nn.functional.rms_norm) as kernel:
        values = logits(model)
    assert 0 < kernel.call_count <= len(norms)
    assert float((values - expected).abs().max()) < 1e-5


@pytest.mark.usefixtures("_on_cpu")
def test_a_layer_with_another_result_is_not_replaced(caplog: pytest.LogCaptureFixture) -> None:
    import torch

    class ShiftedRMSNorm(torch.nn.Module):
        variance_epsilon = 1e-6

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(8))

        def forward(self, hidden_states: Any) -> Any:
            return torch.nn.functional.rms_norm(hidden_states, (8,), 1 + self.weight)

    layer: Any = ShiftedRMSNorm()
    assert fused._fuse_layers(layer) == []
    assert "ShiftedRMSNorm is not fused (the results differ by" in caplog.text
    assert "forward" not in vars(layer)


@pytest.mark.usefixtures("_on_cpu")
def test_hooks_of_accelerate_stay() -> None:
    import torch
    from accelerate.hooks import ModelHook, add_hook_to_module

    seen: list[int] = []

    class Counts(ModelHook):
        def pre_forward(self, module: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(1)
            return args, kwargs

    model, _ = load_vlm("local:llama-tiny", dtype="float32", device_map="cpu")
    norm = model.model.norm
    add_hook_to_module(norm, Counts())
    states = torch.randn(2, norm.weight.shape[0])
    expected = norm(states)
    assert fused.fuse(model)
    seen.clear()
    assert torch.allclose(norm(states), expected, atol=1e-6)
    assert seen == [1]
    assert norm._old_forward.__func__ is fused._norm


ROTATE = """
import json
import sys
import liger_kernel.ops.rope
from actors.vlm import fused
from actors.vlm.loading import load_vlm
from tests.actors.vlm.test_fused import encoded_patches, logits

calls = []
forward = liger_kernel.ops.rope.rope_forward
liger_kernel.ops.rope.rope_forward = lambda *tensors: calls.append(1) or forward(*tensors)
differences = {}
for name in sys.argv[1:]:
    fused.takes = lambda tensor: False  # loading fuses what it takes
    model, _ = load_vlm(name, dtype="float32", device_map="cpu")
    expected = logits(model), encoded_patches(model)
    fused.takes = lambda tensor: True
    vision = hasattr(model.config, "vision_config")
    functions = ["apply_rotary_pos_emb", "apply_rotary_pos_emb_vision"][: 1 + vision]
    replaced = fused._fuse_rotations(model)
    assert replaced == functions, (name, replaced)
    assert fused._fuse_rotations(model) == [], name  # once per process
    calls.clear()
    values = logits(model), encoded_patches(model)
    layers = model.config.get_text_config().num_hidden_layers + (model.config.vision_config.depth if vision else 0)
    assert len(calls) == layers, (name, calls, layers)
    differences[name] = max(float((b - a).abs().max()) for a, b in zip(expected, values))
print(json.dumps(differences))
"""


def encoded_patches(model: Any) -> Any:
    """Return the states of two pictures' patches; zeros of a model that sees none."""
    import torch

    if not hasattr(model.config, "vision_config"):
        return torch.zeros(1)
    config = model.config.vision_config
    pixels = torch.randn(2 * 16, 3 * config.temporal_patch_size * config.patch_size**2, generator=torch.Generator())
    with torch.inference_mode():
        return model.model.visual(pixels, grid_thw=torch.tensor([[1, 4, 4]] * 2)).pooler_output


@pytest.mark.long
def test_fused_rotations_compute_the_same() -> None:
    """By Triton's interpreter, which has to be chosen before it is imported: one process for all models."""
    pytest.importorskip("triton", reason="liger-kernel needs Triton, which torch brings on Linux")
    if importlib.util.find_spec("liger_kernel") is None:
        pytest.skip("liger-kernel is not installed")
    done = subprocess.run(
        [sys.executable, "-c", ROTATE, *MODELS],
        check=False,
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    differences = json.loads(done.stdout.splitlines()[-1])
    assert list(differences) == list(MODELS)
    assert all(difference < 1e-5 for difference in differences.values()), differences


def test_gated_units_are_widened_by_zeros() -> None:
    """To rows that begin at 16 bytes, without another result."""
    import torch

    class Unit(torch.nn.Module):
        def __init__(self, width: int, *, bias: bool, device: str = "cpu") -> None:
            super().__init__()
            self.gate_proj, self.up_proj = (torch.nn.Linear(6, width, bias=bias, device=device) for _ in range(2))
            self.down_proj = torch.nn.Linear(width, 6, bias=bias, device=device)

        def forward(self, x: Any) -> Any:
            return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))

    states = torch.randn(5, 6)
    for bias in (True, False):
        unit = Unit(20, bias=bias)
        expected = unit(states)
        fused._align(unit)
        assert unit.gate_proj.weight.shape == unit.up_proj.weight.shape == (24, 6)
        assert unit.down_proj.weight.shape == (6, 24)
        assert (unit.gate_proj.out_features, unit.up_proj.out_features, unit.down_proj.in_features) == (24, 24, 24)
        assert torch.allclose(unit(states), expected, atol=1e-6)
    aligned, elsewhere = Unit(24, bias=True), Unit(20, bias=True, device="meta")
    weight = aligned.gate_proj.weight
    fused._align(aligned)
    fused._align(elsewhere)
    assert aligned.gate_proj.weight is weight
    assert elsewhere.gate_proj.weight.shape == (20, 6)


def test_the_library_is_named_if_layers_use_it() -> None:
    if importlib.util.find_spec("liger_kernel") is None:
        pytest.skip("liger-kernel is not installed")
    model, _ = load_vlm("local:llama-tiny", dtype="float32", device_map="cpu")
    assert fused.library(model) is None
    unit = model.model.layers[0].mlp
    unit.forward = MethodType(fused._gated_unit, unit)
    assert fused.library(model) == f"liger-kernel {importlib.metadata.version('liger-kernel')}"


def test_a_rotation_with_other_arguments_is_the_original(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    taken = [True]
    monkeypatch.setattr(fused, "takes", lambda _: taken[0])
    original: Any = lambda *args, **options: (*args, options)  # noqa: E731
    other: Any = lambda *_: "fused"  # noqa: E731
    rotate: Any = fused._dispatched(original, other, axes=3)
    q = torch.randn(1, 2, 3, 8)
    whole, partial, of_axes = torch.randn(1, 3, 8), torch.randn(1, 3, 4), torch.randn(3, 1, 3, 8)
    assert rotate(q, q, whole, whole) == "fused"
    for cos in (partial, of_axes):
        assert rotate(q, q, cos, cos) == (q, q, cos, cos, {})
    assert rotate(q, q, whole, whole, 2) == (q, q, whole, whole, 2, {})
    assert rotate(q, q, whole, whole, unsqueeze_dim=2) == (q, q, whole, whole, {"unsqueeze_dim": 2})
    taken[0] = False  # another model of this process, in float32
    assert rotate(q, q, whole, whole) == (q, q, whole, whole, {})


def test_results_that_are_no_numbers_do_not_agree() -> None:
    import torch

    ones = torch.ones(4)
    results = {ones: True, ones * 1.009: True, ones * 1.02: False, ones * float("nan"): False}
    for values, agrees in results.items():
        assert fused._agree("Layer", lambda x: x, lambda _, values=values: values, [ones]) == agrees
        pair = lambda x, values=values: (x, values)  # noqa: E731
        assert fused._agree("Layer", lambda x: (x, x), pair, [ones]) == agrees  # the worst of both counts


def test_failures_of_the_device_are_raised(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fails(message: str) -> bool:
        def compute(*_: Any) -> Any:
            raise RuntimeError(message)

        return fused._agree("Layer", lambda: None, compute, [])

    assert not fails("no compiler")
    assert "Layer is not fused (no compiler)" in caplog.text
    with pytest.raises(RuntimeError, match="CUDA error"):
        fails("CUDA error: device-side assert triggered")

"""Norms, gated units and rotations of queries and keys as one kernel each, on GPUs in half precision.

transformers computes each of them in several passes over memory, which takes a fifth of the device's time for a model
with 3 B parameters. Norms use torch's kernel, the others those of liger-kernel, if it is installed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import sys
from collections.abc import Callable
from functools import partial, wraps
from types import MethodType
from typing import TYPE_CHECKING, Any

from actors.vlm import errors

if TYPE_CHECKING:
    from torch import Tensor

    from actors.vlm.model_types import Vlm

    Rotation = Callable[..., tuple[Tensor, Tensor]]  # of queries and keys

ALIGNMENT = 8  # 2-byte numbers; matrices whose rows are not aligned to 16 bytes get a kernel of half the speed
TOLERANCE = 0.01  # share of the norm of transformers' result; half precision rounds to 0.004
log = logging.getLogger(__name__)


def fuse(model: Vlm) -> list[str]:
    """Replace layers of `model` in place by fused ones with the same results up to rounding.

    Each kind of layer is first compared with its replacement on random numbers, and kept if they disagree.

    Returns:
        The names of the classes and functions that were replaced; none on CPUs and in float32.
    """
    weight = next(model.parameters())
    if not takes(weight):
        return []
    replaced = _fuse_layers(model)
    if importlib.util.find_spec("liger_kernel"):
        replaced += _fuse_rotations(model)
    return replaced


def library(model: Vlm) -> str | None:
    """Return liger-kernel with its version if it computes layers of `model`; None otherwise."""
    forwards = (getattr(layer, "_old_forward", layer.forward) for layer in model.modules())
    if any(getattr(forward, "__func__", None) is _gated_unit for forward in forwards):
        return f"liger-kernel {importlib.metadata.version('liger-kernel')}"
    return None


def takes(tensor: Tensor) -> bool:
    """Return whether fused layers accept `tensor`."""
    return bool(tensor.device.type == "cuda" and tensor.dtype.itemsize == 2)


def _fuse_layers(model: Vlm) -> list[str]:
    forwards: dict[type, Callable[..., Any] | None] = {}  # the fused forward pass of each class
    for layer in model.modules():
        kind = type(layer)
        if kind not in forwards:
            forwards[kind] = _fused_forward(layer)
        if (forward := forwards[kind]) is not None:
            if forward is _gated_unit:
                _align(layer)
            # accelerate's hook, if any, stays around the forward pass
            setattr(layer, "_old_forward" if hasattr(layer, "_hf_hook") else "forward", MethodType(forward, layer))
    return [kind.__name__ for kind, forward in forwards.items() if forward is not None]


def _fused_forward(layer: Any) -> Callable[..., Any] | None:
    """Return a replacement for the forward pass of layers of this class; None if there is none."""
    forward: Callable[..., Any]
    if type(layer).__name__.endswith("RMSNorm") and hasattr(layer, "variance_epsilon"):
        forward, width = _norm, layer.weight.shape[-1]
    elif all(hasattr(layer, name) for name in ("gate_proj", "up_proj", "down_proj", "act_fn")):
        if importlib.util.find_spec("liger_kernel") is None:
            return None
        forward, width = _gated_unit, layer.gate_proj.in_features
    else:
        return None
    inputs = [_random(next(layer.parameters()), 5, width)]
    return forward if _agree(type(layer).__name__, layer, partial(forward, layer), inputs) else None


def _norm(self: Any, hidden_states: Tensor) -> Tensor:
    from torch.nn import functional

    return functional.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)


def _gated_unit(self: Any, x: Tensor) -> Tensor:
    from liger_kernel.ops.swiglu import swiglu_forward

    output: Tensor = self.down_proj(swiglu_forward(self.gate_proj(x), self.up_proj(x))[2])
    return output


def _align(unit: Any) -> None:
    """Pad a gated unit with zeros to a multiple of `ALIGNMENT`, which changes no result.

    The vision tower of Qwen2.5-VL is 3,420 wide.
    """
    from torch.nn import Parameter, functional

    missing = -unit.gate_proj.out_features % ALIGNMENT
    if not missing or any(weight.is_meta for weight in unit.parameters()):  # accelerate loads them for each pass
        return
    for layer in (unit.gate_proj, unit.up_proj):
        layer.weight = Parameter(functional.pad(layer.weight, (0, 0, 0, missing)), requires_grad=False)
        if layer.bias is not None:
            layer.bias = Parameter(functional.pad(layer.bias, (0, missing)), requires_grad=False)
        layer.out_features += missing
    down = unit.down_proj
    down.weight = Parameter(functional.pad(down.weight, (0, missing)), requires_grad=False)
    down.in_features += missing


def _fuse_rotations(model: Vlm) -> list[str]:
    """Replace the functions that attention layers call, in the modules of transformers that define them."""
    replaced = []
    for name in sorted({type(layer).__module__ for layer in model.modules()}):
        module: Any = sys.modules[name]
        for function, (fused, examples) in _ROTATIONS.items():
            rotate = getattr(module, function, None)
            if rotate is None or hasattr(rotate, "__wrapped__"):
                continue
            tensors = examples(model)
            if _agree(f"{name}.{function}", rotate, fused, tensors):
                setattr(module, function, _dispatched(rotate, fused, axes=tensors[-1].ndim))
                replaced.append(function)
    return replaced


def _rotated(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return `q` and `k` [batch, heads, tokens, head size], rotated in place."""
    from liger_kernel.ops.rope import rope_forward

    rotated: tuple[Tensor, Tensor] = rope_forward(q, k, cos, sin)[:2]
    return rotated


def _rotated_patches(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return `q` and `k` [patches, heads, head size], rotated by float32 angles [patches, head size]."""
    q, k = (states[None].transpose(1, 2) for states in (q, k))
    rotated_q, rotated_k = _rotated(q, k, cos[None].float(), sin[None].float())
    return rotated_q.transpose(1, 2)[0], rotated_k.transpose(1, 2)[0]


def _tokens(model: Vlm) -> list[Tensor]:
    """Return random arguments for the rotation of tokens."""
    config, weight = model.config.get_text_config(), next(model.parameters())
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = (config.num_attention_heads, config.num_key_value_heads)
    return [_random(weight, 1, 5, count, size).transpose(1, 2) for count in heads] + _angles(weight, 1, 5, size)


def _patches(model: Vlm) -> list[Tensor]:
    """Return random arguments for the rotation of patches, which are views of one projection."""
    config, weight = model.config.vision_config, next(model.parameters())
    size = config.hidden_size // config.num_heads
    states = _random(weight, 5, 3, config.num_heads, size).unbind(1)
    return [*states[:2], *(angles.float() for angles in _angles(weight, 5, size))]


def _angles(like: Tensor, *shape: int) -> list[Tensor]:
    """Return cosines and sines of random angles, the same for both halves of a head."""
    angles = _random(like, *shape[:-1], shape[-1] // 2)
    double = (1,) * (angles.ndim - 1) + (2,)
    return [angles.cos().repeat(double), angles.sin().repeat(double)]


# Functions of transformers: how the fused one is called, and arguments for comparing the two.
_ROTATIONS = {
    "apply_rotary_pos_emb": (_rotated, _tokens),
    "apply_rotary_pos_emb_vision": (_rotated_patches, _patches),
}


def _dispatched(original: Rotation, fused: Rotation, *, axes: int) -> Rotation:
    """Return `original`, except for tensors that fused layers accept: other models of this process use it too.

    Args:
        axes: number of axes of the angles that `fused` expects.
    """

    @wraps(original)
    def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *args: Any, **options: Any) -> tuple[Tensor, Tensor]:
        if takes(q) and cos.ndim == axes and cos.shape[-1] == q.shape[-1] and not args and not options:
            return fused(q, k, cos, sin)
        return original(q, k, cos, sin, *args, **options)

    return rotate


def _agree(name: str, original: Callable[..., Any], fused: Callable[..., Any], inputs: list[Tensor]) -> bool:
    """Return whether both functions compute the same; failures of the device are raised."""
    import torch

    try:
        with torch.inference_mode():
            expected, values = original(*inputs), fused(*(tensor.clone() for tensor in inputs))
            pairs = [(expected, values)] if torch.is_tensor(expected) else list(zip(expected, values, strict=True))
            distances = [float((b.float() - a.float()).norm() / a.float().norm()) for a, b in pairs]
    except Exception as error:
        if errors.is_fatal(error):
            raise
        log.warning("%s is not fused (%s)", name, errors.reason(error).message)
        return False
    if larger := [distance for distance in distances if not distance <= TOLERANCE]:  # NaN too
        log.warning("%s is not fused (the results differ by %.2g)", name, larger[0])
        return False
    return True


def _random(like: Tensor, *shape: int) -> Tensor:
    import torch

    return torch.randn(shape, device=like.device, dtype=like.dtype)

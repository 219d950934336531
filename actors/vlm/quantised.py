"""Checkpoints with quantised weights: which packages they need, and the form in which their weights are computed.

The form is part of a table's identity: the same checkpoint rates differently in another one.

Weights whose products need kernels that transformers downloads from the hub (FP8, MXFP4), or that their package unpacks
for each product anyway (compressed-tensors), are dequantised when they are loaded, on CPUs and GPUs alike: they take
the memory of an unquantised model. vLLM computes them as stored, with kernels of its own.
"""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.errors import ModelError

if TYPE_CHECKING:
    from transformers import PretrainedConfig

KEY, METHOD = "quantization_config", "quant_method"  # of config.json, and of what the former holds
EXTRA = "pip install -c constraints.txt -e '.[quantised]'"  # bitsandbytes, compressed-tensors
# Keys with the names of layers that are not quantised, by method.
KEPT_LAYERS = ("modules_to_not_convert", "ignored_layers", "ignore", "llm_int8_skip_modules")
LARGEST_BITS = 32
_FLOATS = ("BF16", "F16", "F32", "F64")  # dtypes of tensors that are not quantised
_OF_GROUPS = re.compile(r"_(scales?|scale_inv|zero_point|shape|g_idx|global_scale)$")
PUBLISHED = "use the model's published files"


@dataclass(frozen=True)
class Method:
    """How transformers loads checkpoints of a method of quantisation.

    Attributes:
        modules: modules of the packages that it needs.
        install: the command that installs them.
        dequantised: whether the weights are dequantised when they are loaded; `bits`: of a stored weight then, 0 where
            checkpoints differ (`stored_bits`).
        needs_gpu: whether it computes on GPUs only.
        dtypes: dtypes in which it computes; empty: any.
        unsupported: why such checkpoints cannot be loaded at all; empty if they can.
    """

    modules: tuple[str, ...] = ()
    install: str = ""
    dequantised: bool = False
    bits: int = 0
    needs_gpu: bool = False
    dtypes: tuple[str, ...] = ()
    unsupported: str = ""


_HALVES = ("float16", "bfloat16")
_FROM_HUB = "its kernels are code that transformers downloads from the hub"
# By the `quant_method` of transformers' registry (transformers.quantizers.auto), in release 5.23.
METHODS: dict[str, Method] = {
    "aqlm": Method(("aqlm",), "pip install 'aqlm[gpu,cpu]'"),
    "auto-round": Method(("auto_round",), "pip install auto-round"),
    # transformers would replace bfloat16 by float16
    "awq": Method(("gptqmodel",), "pip install gptqmodel", dtypes=("float16", "float32")),
    "bitnet": Method(),
    "bitsandbytes": Method(("bitsandbytes",), EXTRA),
    "compressed-tensors": Method(("compressed_tensors",), EXTRA, dequantised=True),
    "eetq": Method(unsupported=_FROM_HUB),
    "fbgemm_fp8": Method(("fbgemm_gpu",), "pip install fbgemm-gpu", needs_gpu=True, dtypes=("bfloat16",)),
    "fouroversix": Method(("fouroversix",), "pip install fouroversix --no-build-isolation", needs_gpu=True),
    "fp8": Method(dequantised=True, bits=8),
    "fp_quant": Method(("fp_quant", "qutlass"), "pip install fp_quant, and qutlass from its repository",
                       needs_gpu=True, dtypes=("bfloat16",)),
    "gemma": Method(),
    "gguf": Method(unsupported="its weights are not safetensors"),
    "gptq": Method(("optimum", "gptqmodel"), "pip install optimum gptqmodel"),
    "higgs": Method(("flute", "fast_hadamard_transform"), "pip install flute-kernel fast_hadamard_transform",
                    needs_gpu=True, dtypes=_HALVES),
    "hqq": Method(("hqq",), "pip install hqq"),
    "metal": Method(dequantised=True),
    "mxfp4": Method(dequantised=True, bits=4),
    "mxfp8": Method(dequantised=True, bits=8),
    "nvfp4": Method(unsupported="transformers quantises to it, but loads no such checkpoint"),
    "quanto": Method(("optimum.quanto",), "pip install optimum-quanto"),
    "quark": Method(("quark",), "pip install amd-quark"),
    "sinq": Method(("sinq",), "pip install sinq"),
    "spqr": Method(("spqr_quant",), "pip install 'spqr_quant[gpu]'", needs_gpu=True, dtypes=("float16",)),
    "torchao": Method(("torchao",), "pip install torchao"),
    "vptq": Method(("vptq",), "pip install vptq", needs_gpu=True),
}  # fmt: skip


def quantisation(model: str, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how the weights of `model` are quantised, from the content of its config.json; None if they are not.

    transformers reads it from the whole config, else from that of the text model, and only warns of a method that it
    does not know: it would read the stored numbers as weights.

    Raises:
        ModelError: it is not an object with a known method, or its list of layers that are kept is not one of names.
    """
    text = config.get("text_config")
    stored = config.get(KEY)
    if stored is None and isinstance(text, Mapping):
        stored = text.get(KEY)
    if stored is None:
        return None
    method = stored.get(METHOD) if isinstance(stored, Mapping) else None
    if isinstance(stored, Mapping) and (stored.get("load_in_4bit") or stored.get("load_in_8bit")):
        method = "bitsandbytes"  # early checkpoints have no method
    if not isinstance(method, str):
        raise ModelError(f"config.json has {KEY}={stored!r:.60}; must be an object with a {METHOD}; {PUBLISHED}", model)
    if method not in METHODS:
        raise ModelError(
            f"config.json has {KEY}.{METHOD}={method!r:.60}, which transformers does not know; must be one of "
            f"{', '.join(METHODS)}; use another form of the model",
            model,
        )
    for name in KEPT_LAYERS:
        layers = stored.get(name) or []
        if not isinstance(layers, list) or not all(isinstance(layer, str) for layer in layers):
            raise ModelError(
                f"config.json has {KEY}.{name}={layers!r:.60}; must be a list of names of layers; {PUBLISHED}", model
            )
    return {**stored, METHOD: method}


def check(model: str, config: Mapping[str, Any], *, dtype: str = "auto", gpus: float | None = None) -> None:
    """Check that transformers can load the quantised weights of `model` here; any unquantised model passes.

    Args:
        config: the content of its config.json.
        dtype: the dtype in which to compute.
        gpus: of an actor; None: not known.

    Raises:
        ModelError: a package is missing, or the method needs a GPU, another dtype, or is not supported.
    """
    if (stored := quantisation(model, config)) is None:
        return
    name, method = stored[METHOD], METHODS[stored[METHOD]]
    reason = f"its weights are quantised by {name}"
    if method.unsupported:
        raise ModelError(f"{reason}: {method.unsupported}; use engine=vllm, or another form of the model", model)
    if missing := [module for module in method.modules if not _is_installed(module)]:
        raise ModelError(
            f"{reason}, which needs {' and '.join(missing)}, not installed here; install with {method.install}, "
            "on the machines of a cluster too, or use engine=vllm or another form of the model",
            model,
        )
    if method.needs_gpu and gpus == 0:
        raise ModelError(f"{reason}, which computes on GPUs only; set resources.judge.num_gpus", model)
    if method.dtypes and dtype not in ("auto", *method.dtypes):
        raise ModelError(
            f"{reason}, which does not compute in model.dtype={dtype}; use model.dtype={' or '.join(method.dtypes)}",
            model,
        )


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that contains it
        return False


def form(model: str, config: Mapping[str, Any], *, as_stored: bool = False) -> str:
    """Return the form in which the weights of `model` are computed, such as `fp8, dequantised`; empty: as trained.

    Args:
        config: the content of its config.json.
        as_stored: whether nothing is dequantised (vLLM).

    Raises:
        ModelError: as for `quantisation`.
    """
    if (stored := quantisation(model, config)) is None:
        return ""
    words = [str(stored[METHOD])]
    if stored[METHOD] == "bitsandbytes":
        is_four = bool(stored.get("load_in_4bit"))
        words.append(f"4-bit {stored.get('bnb_4bit_quant_type', 'fp4')}" if is_four else "8-bit")
        if is_four:
            words.append(f"computed in {str(stored.get('bnb_4bit_compute_dtype', 'float32')).removeprefix('torch.')}")
    elif bits := stored.get("bits") or stored.get("w_bit"):
        words.append(f"{bits}-bit")
    elif detail := stored.get("format") or stored.get("weights"):
        words.append(re.sub(r"[^\w.-]", "", str(detail))[:40])
    dequantised = METHODS[stored[METHOD]].dequantised and not as_stored
    return " ".join(words) + (", dequantised" if dequantised else "")


def stored_bits(stated: Mapping[str, Any]) -> int:
    """Return the bits of a stored weight that is dequantised when it is loaded; 0 if it is not, or they are unknown.

    Groups of layers may have different numbers of bits; the largest is returned, so that no model that fits is refused.

    Args:
        stated: what `quantisation` returns.
    """
    method = METHODS[stated[METHOD]]
    if not method.dequantised or method.bits:
        return method.bits
    groups = stated.get("config_groups")  # of compressed-tensors
    parts = groups.values() if isinstance(groups, Mapping) else ()
    weights = [part.get("weights") for part in parts if isinstance(part, Mapping)]
    numbers = [stated.get("bits"), *(part.get("num_bits") for part in weights if isinstance(part, Mapping))]
    return max((number for number in numbers if type(number) is int and 0 < number <= LARGEST_BITS), default=0)


def loaded_bytes(tensors: Mapping[str, Any], *, itemsize: int, bits: int) -> int:
    """Return the bytes of weights once they are loaded, from the headers of their files.

    Args:
        tensors: `dtype` and `shape` of each tensor, by name (the header of a .safetensors file).
        itemsize: bytes of a number that is not quantised, or that is dequantised.
        bits: of a stored weight that is dequantised; 0 if quantised weights stay as they are.

    Raises:
        KeyError, TypeError, ValueError: an entry is not that of a tensor.
    """
    total = 0
    for name, tensor in tensors.items():
        if name == "__metadata__":
            continue
        kind, count = str(tensor["dtype"]), math.prod(map(int, tensor["shape"]))
        stored = int(re.sub(r"\D.*", "", kind.lstrip("BFUIO")) or 8) // 8  # F8_E4M3, BF16, U8, BOOL
        if bits and _OF_GROUPS.search(name):
            continue  # scales and zeros of groups of weights are not needed after the dequantisation
        if kind in _FLOATS:
            total += count * itemsize
        else:
            total += count * stored * 8 // bits * itemsize if bits else count * stored
    return total


def supported_dtype(config: PretrainedConfig, dtype: str) -> str:
    """Return `dtype`, or one that the method of quantisation of `config` computes in instead."""
    parts = (getattr(part, KEY, None) for part in (config, config.get_text_config()))
    stated = next((part for part in parts if isinstance(part, dict)), {})
    allowed = METHODS.get(str(stated.get(METHOD)), Method()).dtypes
    return dtype if not allowed or dtype in allowed else allowed[0]


def prepare(config: PretrainedConfig) -> bool:
    """Make `config` dequantise the weights that transformers loads by it, if their method does; return whether."""
    is_changed = False
    for part in (config, config.get_text_config()):
        stored = getattr(part, KEY, None)
        if isinstance(stored, dict) and METHODS.get(str(stored.get(METHOD)), Method()).dequantised:
            stored["dequantize"] = is_changed = True
            stored.pop("run_compressed", None)  # of compressed-tensors: the same, before it was renamed
    return is_changed

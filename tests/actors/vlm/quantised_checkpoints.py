"""Small quantised checkpoints in their published formats, and the same weights dequantised."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from actors.model_files import resolve

KEPT = ["lm_head", "model.visual", "visual"]
BLOCK = 128
Tensors = dict[str, Any]


def write_fp8(source: str, folder: Path, dequantised: Path) -> None:
    """Write a model as DeepSeek, Qwen and MiniMax publish FP8: float8_e4m3fn, an inverse scale per 128 x 128 block."""
    import torch

    def quantise(name: str, weight: Any) -> tuple[Tensors, Any]:
        rows, columns = (-(-size // BLOCK) for size in weight.shape)
        padded = torch.zeros(rows * BLOCK, columns * BLOCK)
        padded[: weight.shape[0], : weight.shape[1]] = weight
        blocks = padded.reshape(rows, BLOCK, columns, BLOCK)
        scale = blocks.abs().amax((1, 3)).clamp_min(1e-12) / torch.finfo(torch.float8_e4m3fn).max
        small = (blocks / scale[:, None, :, None]).to(torch.float8_e4m3fn)
        whole = (small.float() * scale[:, None, :, None]).reshape(padded.shape)
        stored = small.reshape(padded.shape)[: weight.shape[0], : weight.shape[1]].contiguous()
        return {name: stored, f"{name}_scale_inv": scale}, whole[: weight.shape[0], : weight.shape[1]].contiguous()

    config = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK]}
    _write(source, folder, dequantised, quantise, config | {"modules_to_not_convert": KEPT})


def write_compressed(source: str, folder: Path, dequantised: Path) -> None:
    """Write a model as llm-compressor does in W8A16: int8 with a scale per output channel (`int-quantized`)."""
    import torch

    def quantise(name: str, weight: Any) -> tuple[Tensors, Any]:
        scale = weight.abs().amax(1, keepdim=True).clamp_min(1e-12) / 127
        small = (weight / scale).round().clamp(-128, 127).to(torch.int8)
        return {name: small, f"{name}_scale": scale}, small.float() * scale

    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False}
    config = {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head", "re:.*visual.*"],
    }
    _write(source, folder, dequantised, quantise, config)


def _write(
    source: str,
    folder: Path,
    dequantised: Path,
    quantise: Callable[[str, Any], tuple[Tensors, Any]],
    config: Mapping[str, Any],
) -> None:
    """Write `source` into both folders, the products of its text model quantised in one of them."""
    from safetensors.torch import load_file, save_file

    quantised_tensors: Tensors = {}
    plain: Tensors = {}
    path = Path(resolve(source))
    for name, weight in load_file(path / "model.safetensors").items():
        if name.endswith("_proj.weight") and "visual" not in name:
            stored, plain[name] = quantise(name, weight.float())
            quantised_tensors |= stored
        else:
            quantised_tensors[name] = plain[name] = weight
    assert len(quantised_tensors) > len(plain)
    for place, tensors in ((folder, quantised_tensors), (dequantised, plain)):
        shutil.copytree(path, place, ignore=shutil.ignore_patterns("*.safetensors"))
        save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(values | {"quantization_config": config}), encoding="utf-8")

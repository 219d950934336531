"""Contiguous activations of towers without a class token: the same vectors, from kernels without strides."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from actors import local_models
from actors.devices import find_device
from actors.encoders import towers, transformers_encoders
from actors.encoders.activations import make_contiguous

VISION: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
SIDES = {"image_size": 64, "patch_size": 16}


def siglip_like(pretrained: bool = False, **settings: Any) -> torch.nn.Module:
    """Return a tower of timm as SigLIP's: no class token, attention pooling."""
    from timm.models.vision_transformer import VisionTransformer

    sizes: dict[str, Any] = {"img_size": 256, "patch_size": 32, "embed_dim": 64, "depth": 2, "num_heads": 2}
    wanted: dict[str, Any] = {"class_token": False, "global_pool": "map", "num_classes": 0}
    return VisionTransformer(**(sizes | wanted | {k: v for k, v in settings.items() if k in wanted}))


@pytest.fixture
def open_clip_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    import timm
    from open_clip import CustomTextCLIP

    monkeypatch.setitem(timm.models._registry._model_entrypoints, "siglip_like", siglip_like)
    folder = shutil.copytree(local_models.resolve("local:siglip-tiny"), tmp_path / "model")
    config = json.loads((folder / "open_clip_config.json").read_text())
    config["model_cfg"]["vision_cfg"]["timm_model_name"] = "siglip_like"
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    model = CustomTextCLIP(**{name: value for name, value in config["model_cfg"].items() if name != "custom_text"})
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return f"local-dir:{folder}"


def transformers_folder(folder: Path, kind: str) -> str:
    """Return a small model of transformers with random weights and its picture processor."""
    import transformers

    torch.manual_seed(0)
    if kind == "dinov2":
        model = transformers.Dinov2Model(transformers.Dinov2Config(**(VISION | SIDES | {"mlp_ratio": 2})))
    elif kind == "clip":
        config = transformers.CLIPConfig(text_config=VISION, vision_config=VISION | SIDES, projection_dim=32)
        model = transformers.CLIPModel(config)
    else:
        model = transformers.SiglipModel(transformers.SiglipConfig(text_config=VISION, vision_config=VISION | SIDES))
    model.save_pretrained(folder)
    size = {"height": 64, "width": 64}
    transformers.SiglipImageProcessor(size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(folder)
    return f"transformers:{folder}"


def inputs_of_norms(tower: Any, pixels: torch.Tensor) -> tuple[torch.Tensor, list[bool]]:
    """Return the vectors, and whether the patches that reach each layer norm of the vision tower are contiguous."""
    vision = getattr(tower._model, "visual", getattr(tower._model, "vision_model", tower._model))
    norms = [part for part in vision.modules() if isinstance(part, torch.nn.LayerNorm)]
    contiguous: list[bool] = []

    def note(norm: Any, inputs: Any) -> None:
        if inputs[0].ndim == 3:  # not the pooled ones
            contiguous.append(inputs[0].is_contiguous())

    hooks = [norm.register_forward_pre_hook(note) for norm in norms]
    with torch.inference_mode():
        vectors = tower.pictures(pixels)
    for hook in hooks:
        hook.remove()
    return vectors, contiguous


def check(model: str, monkeypatch: pytest.MonkeyPatch, side: int, *, strided: bool) -> None:
    pixels = torch.randint(0, 256, (3, 3, side, side), dtype=torch.uint8)
    device = find_device("cpu")
    vectors, contiguous = inputs_of_norms(towers.load_tower(model, None, device=device, dtype="float32"), pixels)
    assert len(contiguous) >= 4
    assert all(contiguous)
    for module in (towers, transformers_encoders):
        monkeypatch.setattr(module, "make_contiguous", lambda _: None)
    plain, contiguous = inputs_of_norms(towers.load_tower(model, None, device=device, dtype="float32"), pixels)
    assert torch.equal(vectors, plain)
    assert all(contiguous) is not strided


def test_a_tower_of_open_clip(open_clip_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(open_clip_folder, monkeypatch, 256, strided=True)


@pytest.mark.parametrize(("kind", "strided"), [("siglip", True), ("clip", False), ("dinov2", False)])
def test_towers_of_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, strided: bool) -> None:
    """A class token makes the others contiguous without a hook."""
    check(transformers_folder(tmp_path, kind), monkeypatch, 64, strided=strided)


def test_other_outputs_stay_as_they_are() -> None:
    class Maps(torch.nn.Module):
        def forward(self, maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return maps.transpose(2, 3), maps.transpose(2, 3)

    pair = Maps()
    make_contiguous(pair)
    assert not any(part.is_contiguous() for part in pair(torch.zeros(2, 3, 4, 5)))

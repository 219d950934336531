"""The logit scale and bias of encoders, read from files of weights in which little else is."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import save, save_file

from actors.encoders import calibration
from actors.encoders.calibration import LogitScalars, logit_scalars, read_scalars
from tests.cases import check_cases

NAMES = ["open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "model.safetensors"]


def tensors(scale: float = 2.5, bias: float = -10.0, *, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    return {
        "a": torch.ones(3, dtype=dtype),
        "logit_scale": torch.tensor(scale, dtype=dtype),
        "logit_bias": torch.tensor([bias], dtype=dtype),
        "z": torch.zeros(2),
    }


def test_scalars_of_every_type() -> None:
    def check(dtype: torch.dtype) -> None:
        assert read_scalars(io.BytesIO(save(tensors(dtype=dtype)))) == LogitScalars(2.5, -10.0)

    check_cases(check, [torch.float32, torch.float16, torch.float64, torch.bfloat16])
    assert read_scalars(io.BytesIO(save(tensors(dtype=torch.int32)))) is None
    for name in ("logit_scale", "logit_bias"):
        assert read_scalars(io.BytesIO(save({k: v for k, v in tensors().items() if k != name}))) is None
    with pytest.raises(ValueError, match="header would have 0 bytes"):
        read_scalars(io.BytesIO(bytes(99)))


def test_scalars_are_those_of_the_weights_that_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = SimpleNamespace(model=f"local-dir:{tmp_path}", pretrained=None)
    monkeypatch.setattr(calibration, "find_source", lambda model, pretrained: {("m", None): source}[model, pretrained])
    for scale, name in enumerate(NAMES, start=1):
        save_file(tensors(scale), tmp_path / name)
    for scale, name in enumerate(NAMES, start=1):
        assert logit_scalars("m", pretrained=None) == (scale, -10.0)
        (tmp_path / name).unlink()
    assert logit_scalars("m", pretrained=None) is None
    source.model, source.pretrained = "ViT-B-32", str(tmp_path / "w.safetensors")
    save_file(tensors(7), source.pretrained)
    assert logit_scalars("m", pretrained=None) == (7, -10.0)
    Path(source.pretrained).write_bytes(b"damaged")
    assert logit_scalars("m", pretrained=None) is None
    source.pretrained, of_tag = "tag", SimpleNamespace(model="ViT-B-32", pretrained=str(tmp_path / "x.safetensors"))
    save_file(tensors(8), of_tag.pretrained)
    monkeypatch.setattr(calibration, "find_source", lambda model, pretrained: {("m", "x"): of_tag}[model, pretrained])
    assert logit_scalars("m", pretrained="x") == (8, -10.0)


def test_scalars_of_a_model_of_the_hub_are_read_from_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = SimpleNamespace(model="hf-hub:org/name", pretrained=None, commit="ab")
    monkeypatch.setattr(calibration, "find_source", lambda model, pretrained: source)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    cached: dict[str, object] = {NAMES[0]: object(), NAMES[1]: str(tmp_path / "w.safetensors")}
    save_file(tensors(), tmp_path / "w.safetensors")
    asked: list[tuple[str, str, str | None]] = []

    def look(repository: str, name: str, *, revision: str | None) -> object:
        asked.append((repository, name, revision))
        return cached.get(name)

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", look)
    monkeypatch.setattr(huggingface_hub, "HfFileSystem", lambda: asked.append(("hub", "", None)))  # while offline
    assert logit_scalars("m", pretrained=None) == (2.5, -10.0)
    assert asked == [("org/name", name, "ab") for name in NAMES[:2]]
    cached.clear()
    assert logit_scalars("m", pretrained=None) is None
    assert len(asked) == 5


def test_scalars_that_are_not_in_the_cache_are_read_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the revision of the weights, and from the first of the files that exists there."""
    weights = {
        (f"org/name/{NAMES[1]}", "ab"): tensors(3.0),
        (f"org/name/{NAMES[2]}", "ab"): tensors(4.0),
        (f"org/name/{NAMES[0]}", None): tensors(5.0),
    }

    class Hub:
        def exists(self, path: str, *, revision: str | None = None) -> bool:
            return (path, revision) in weights

        def open(self, path: str, *, revision: str | None = None) -> io.BytesIO:
            return io.BytesIO(save(weights[path, revision]))

    source: Any = SimpleNamespace(model="hf-hub:org/name", pretrained=None, commit="ab")
    monkeypatch.setattr(calibration, "find_source", lambda model, pretrained: source)
    monkeypatch.setattr(calibration, "HubEncoder", lambda *_: SimpleNamespace(folder=None, name="org/name"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_, **__: None)
    monkeypatch.setattr(huggingface_hub, "HfFileSystem", Hub)
    for model in ("hf-hub:org/name", "transformers:org/name"):
        assert logit_scalars(model, pretrained="ab") == (3.0, -10.0)
    source.commit = None
    assert logit_scalars("hf-hub:org/name", pretrained=None) == (5.0, -10.0)
    weights.clear()
    assert logit_scalars("hf-hub:org/name", pretrained=None) is None

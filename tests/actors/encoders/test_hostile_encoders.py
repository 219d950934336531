"""Encoders that strangers made: pickled weights, code, files elsewhere and absurd values are refused by name."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from actors.encoders.encoder_sources import encoder_facts
from actors.encoders.towers import load_tower
from actors.local_models import resolve

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny CLIP of transformers."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("clip")
    sizes: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    text = sizes | {"vocab_size": 4, "max_position_embeddings": 8, "eos_token_id": 1}
    config = CLIPConfig(text_config=text, vision_config=sizes | {"image_size": 32, "patch_size": 16}, projection_dim=8)
    CLIPModel(config).save_pretrained(folder)
    CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}).save_pretrained(folder)
    words = Tokenizer(WordLevel({"a": 0, "</s>": 1, "b": 2, "?": 3}, unk_token="?"))
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="</s>", unk_token="?").save_pretrained(folder)
    return folder


def edit(file: Path, *inner: str, **changed: Any) -> None:
    """Set keys of a JSON file, in the object at the path `inner`."""
    content = json.loads(file.read_text())
    place = content
    for key in inner:
        place = place[key]
    place.update(changed)
    file.write_text(json.dumps(content))


def with_code(folder: Path, **names: str) -> None:
    """Code that leaves the file `ran` next to the folder, and files that name it."""
    (folder / "evil.py").write_text(f"open({str(folder.parent / 'ran')!r}, 'w')\nclass Evil: pass\n")
    for file, key in names.items():
        autos = ("AutoConfig", "AutoModel", "AutoImageProcessor", "AutoProcessor")
        maps = dict.fromkeys(autos, "evil.Evil") | {"AutoTokenizer": ["evil.Evil", None]}
        edit(folder / f"{file}.json", auto_map=maps, **{key: "evil"})


def pickled(folder: Path) -> None:
    from safetensors.torch import load_file

    for weights in folder.glob("*.safetensors"):
        torch.save(load_file(weights), folder / "pytorch_model.bin")
        shutil.copy(folder / "pytorch_model.bin", folder / "open_clip_pytorch_model.bin")
        weights.unlink()


def elsewhere(folder: Path, name: str) -> None:
    from safetensors import safe_open

    weights = folder / "model.safetensors"
    with safe_open(weights, "pt") as file:
        places = dict.fromkeys(file.keys(), name)
    shutil.move(weights, folder.parent / "outside.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


CONFIG, VISION, PICTURES = "config.json", "vision_config", "preprocessor_config.json"
OF_TRANSFORMERS: dict[str, Callable[[Path], object]] = {
    "pickled weights": pickled,
    "weights above the folder": lambda folder: elsewhere(folder, "../outside.safetensors"),
    "weights at an absolute path": lambda folder: elsewhere(folder, f"{folder.parent}/outside.safetensors"),
    "a damaged index": lambda folder: (folder / "model.safetensors.index.json").write_text("[" * 100_000),
    "code of a configuration": lambda folder: with_code(folder, config="model_type"),
    "code of a processor": lambda folder: with_code(folder, preprocessor_config="image_processor_type"),
    "code of a tokenizer": lambda folder: with_code(folder, tokenizer_config="tokenizer_class"),
    "a list": lambda folder: (folder / CONFIG).write_text("[1]"),
    "not JSON": lambda folder: (folder / CONFIG).write_text("{"),
    "brackets": lambda folder: (folder / CONFIG).write_text("[" * 100_000),
    "text for a number": lambda folder: edit(folder / CONFIG, VISION, hidden_size="x"),
    "no patches": lambda folder: edit(folder / CONFIG, VISION, patch_size=0),
    "negative layers": lambda folder: edit(folder / CONFIG, projection_dim=-8),
    "endless vectors": lambda folder: edit(folder / CONFIG, projection_dim=2**50),
    "endless layers": lambda folder: edit(folder / CONFIG, VISION, hidden_size=2**50, num_attention_heads=1),
    "pictures of a square kilometre": lambda folder: edit(folder / PICTURES, crop_size={"height": 1, "width": 10**7}),
    "text for a size": lambda folder: edit(folder / PICTURES, crop_size="x"),
    "cut weights": lambda folder: os.truncate(folder / "model.safetensors", 500),
    "an empty tokenizer": lambda folder: (folder / "tokenizer.json").write_text("{}"),
}


def trusted(folder: Path) -> None:
    with_code(folder, tokenizer_config="tokenizer_class")
    edit(folder / OPEN_CLIP, *TEXT, tokenizer_kwargs={"trust_remote_code": True})


OPEN_CLIP = "open_clip_config.json"
TEXT = ("model_cfg", "text_cfg")
OF_OPEN_CLIP: dict[str, Callable[[Path], object]] = {
    "pickled weights": pickled,
    "code of a tokenizer that is trusted": trusted,
    "code of a tokenizer": lambda folder: with_code(folder, tokenizer_config="tokenizer_class"),
    "a picture tower of elsewhere": lambda folder: edit(
        folder / OPEN_CLIP, "model_cfg", "vision_cfg", timm_model_name="hf-hub:evil/model"
    ),
    "a text tower of elsewhere": lambda folder: edit(folder / OPEN_CLIP, *TEXT, hf_model_name="/tmp/evil"),
    "endless vectors": lambda folder: edit(folder / OPEN_CLIP, "model_cfg", embed_dim=2**50),
    "endless pictures": lambda folder: edit(folder / OPEN_CLIP, "model_cfg", "vision_cfg", image_size=10**7),
    "no towers": lambda folder: edit(folder / OPEN_CLIP, model_cfg={}),
    "a list": lambda folder: (folder / OPEN_CLIP).write_text("[1]"),
    "brackets": lambda folder: (folder / OPEN_CLIP).write_text("[" * 100_000),
    "cut weights": lambda folder: os.truncate(folder / "open_clip_model.safetensors", 500),
}


# The libraries know a tokenizer for the model, and the code that its files name is left aside.
HARMLESS = "code of a tokenizer"


def encode(model: str) -> None:
    """Read the files of a model, load it and encode a text."""
    encoder_facts(model, pretrained=None)
    load_tower(model, None, device=CPU, dtype="float32").texts(["a"])


def check(model: Path, prefix: str, faults: dict[str, Callable[[Path], object]], folder: Path) -> None:
    loaded: list[str] = []
    for number, (fault, damage) in enumerate(faults.items()):
        copy = Path(shutil.copytree(model, folder / str(number) / "model"))
        damage(copy)
        with contextlib.suppress(ValueError, OSError, RuntimeError):
            encode(f"{prefix}{copy}")
            loaded.append(fault)
        assert not (copy.parent / "ran").exists(), fault
    assert set(loaded) <= {HARMLESS}


def test_hostile_models_of_transformers(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    encode(f"transformers:{clip}")
    check(clip, "transformers:", OF_TRANSFORMERS, tmp_path)


def test_hostile_models_of_open_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    check(Path(resolve("local:siglip-tiny")), "local-dir:", OF_OPEN_CLIP, tmp_path)

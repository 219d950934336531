"""Weights of an open_clip tag at a commit of the hub's repository behind it (`webli@COMMIT`), and what conf/ pins."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import open_clip
import pytest
import yaml
from open_clip import factory, pretrained

from actors import local_models
from actors.encoders import encoder_sources
from actors.encoders.encoder_sources import check_weights, encoder_facts, logit_scalars
from actors.encoders.towers import load_tower
from tests.cases import check_cases

CONF = Path(__file__).parents[2] / "conf"
COMMIT, OTHER = "ab" * 20, "cd" * 20
NAME = "siglip-tiny-registered"
HEX = "[0-9a-f]{40}"


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An open_clip model whose weights are in the hub's cache, at one commit, with no hub to be reached."""
    from huggingface_hub import constants

    folder = Path(local_models.resolve("local:siglip-tiny"))
    config = json.loads((folder / "open_clip_config.json").read_text())
    file = tmp_path / f"{NAME}.json"
    file.write_text(json.dumps(config["model_cfg"]))
    monkeypatch.setattr(factory, "_MODEL_CONFIGS", dict(factory._MODEL_CONFIGS))
    monkeypatch.setattr(factory, "_MODEL_CONFIG_PATHS", list(factory._MODEL_CONFIG_PATHS))
    open_clip.add_model_config(file)
    settings = {name: config["preprocess_cfg"][name] for name in ("mean", "std", "interpolation", "resize_mode")}
    tags = {"webli": {"hf_hub": "me/tiny/", **settings}, "elsewhere": {"url": "https://example.org/x.pt", **settings}}
    monkeypatch.setitem(pretrained._PRETRAINED, NAME, tags)
    cache = tmp_path / "hub"
    snapshot = cache / "models--me--tiny" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    shutil.copy(folder / "open_clip_model.safetensors", snapshot)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return folder


def test_the_weights_of_that_commit_are_loaded(hub_cache: Path) -> None:
    import torch

    pinned = f"webli@{COMMIT}"
    facts = encoder_facts(NAME, pretrained=pinned)
    assert facts.encoder == f"{NAME}@{pinned}"
    assert re.fullmatch("local:siglip-tiny@[0-9a-f]{16}", encoder_facts("local:siglip-tiny", pretrained=None).encoder)
    assert facts.encoder != encoder_facts(NAME, pretrained="webli").encoder
    assert facts.preprocessing == encoder_facts("local:siglip-tiny", pretrained=None).preprocessing
    check_weights(NAME, pretrained=pinned)
    assert logit_scalars(NAME, pretrained=pinned) == logit_scalars("local:siglip-tiny", pretrained=None) is not None
    towers: list[Any] = [load_tower(*named, device=torch.device("cpu"), dtype="float32")
              for named in ((NAME, pinned), ("local:siglip-tiny", None))]  # fmt: skip
    noise = np.random.default_rng(1).integers(0, 255, (1, 3, 256, 256), np.uint8)
    with torch.inference_mode():
        result, expected = (tower.pictures(torch.from_numpy(noise)) for tower in towers)
    assert torch.equal(result, expected)


def test_another_commit_is_not_there(hub_cache: Path) -> None:
    import torch

    with pytest.raises(ValueError, match=f"me/tiny: revision {OTHER}"):
        check_weights(NAME, pretrained=f"webli@{OTHER}")
    with pytest.raises(FileNotFoundError, match=f"me/tiny at commit {OTHER}"):
        load_tower(NAME, f"webli@{OTHER}", device=torch.device("cpu"), dtype="float32")
    assert logit_scalars(NAME, pretrained=f"webli@{OTHER}") is None


def test_weights_of_a_repository_are_looked_for_on_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = SimpleNamespace(model="hf-hub:me/tiny", pretrained=None, commit=None)
    monkeypatch.setattr(encoder_sources, "find_source", lambda *_: source)
    asked = []
    monkeypatch.setattr(encoder_sources, "_scalars_from_hub", lambda *place: asked.append(place))
    assert logit_scalars("hf-hub:me/tiny", pretrained=None) is None
    assert asked == [("me/tiny", None)]


def test_what_cannot_be_pinned(hub_cache: Path) -> None:
    cases = ["webli@", "webli@ec35f94", "webli@main", f"webli@{COMMIT.upper()}", f"elsewhere@{COMMIT}"]

    def check(arguments: str) -> None:
        with pytest.raises(ValueError, match=rf"^pretrained={arguments}: .*40 hexadecimal digits"):
            encoder_facts(NAME, pretrained=arguments)

    check_cases(check, cases)


def test_embedder_files() -> None:
    embedders = yaml.safe_load((CONF / "embedder.yaml").read_text(encoding="utf-8"))

    def check(name: str) -> None:
        data: dict[str, Any] = embedders[name]
        entry = data.get("pretrained")
        if data["checkpoint"].startswith("transformers:local:"):  # comes with the package
            assert entry is None
        elif data["checkpoint"].startswith("transformers:"):
            assert entry is None or re.fullmatch(HEX, entry)
        elif (
            entry and entry != "openai"
        ):  # OpenAI's are one and the same whatever the commit; DataComp names them by the tag
            assert re.fullmatch(f"(webli|laion2b_s9b_b144k|meta)@{HEX}", entry)
            assert encoder_facts(data["checkpoint"], pretrained=entry).encoder == f"{data['checkpoint']}@{entry}"

    check_cases(check, list(embedders))


def test_model_files_pin_a_commit() -> None:
    files = [yaml.safe_load((CONF / name).read_text(encoding="utf-8")) for name in ("model.yaml", "image_model.yaml")]

    def check(data: dict[str, Any]) -> None:
        revision = data.get("revision")
        if data["checkpoint"].startswith("local:"):
            assert revision is None
        else:  # None: the commit was not found
            assert revision is None or re.fullmatch(HEX, revision)

    check_cases(check, [data for models in files for data in models.values()])

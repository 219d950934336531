"""Identity of encoders of open_clip from configs written by hand, without weights that a model could load."""

import hashlib
import importlib.metadata
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save
from safetensors.torch import save_file as save_tensors

from actors.encoders import encoder_sources
from actors.encoders.encoder_sources import (
    EncoderSource,
    ListedModel,
    LogitScalars,
    Preprocessing,
    complete,
    encoder_facts,
    find_source,
    hub_files,
    listed_model,
    logit_scalars,
    pinned_weights,
    read_scalars,
)
from actors.encoders.transformers_encoders import MOST_DIM, MOST_PIXELS, check_size
from actors.errors import ModelError, SettingError
from tests.cases import check_cases

CFG = {"mean": [0.5, 0.25, 0.125], "std": 0.5, "interpolation": "bicubic", "resize_mode": "squash"}
CONFIG = {"embed_dim": 8, "vision_cfg": {"image_size": 32}, "text_cfg": {}}
IN_ONE_LINE = "resize=squash;interpolation=bicubic;size=32x32;mean=0.5,0.25,0.125;std=0.5,0.5,0.5"
COMMIT = "ab" * 20


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models that open_clip lists: `tiny-B-32`, and `odd`, whose weights differ in their preprocessing."""
    tags = {
        "hub": CFG | {"hf_hub": "me/tiny/"},
        "file": CFG | {"hf_hub": "me/tiny/parts/w.safetensors"},
        "url": CFG | {"url": "https://example.org/w.pt"},
        "quick": CFG | {"quick_gelu": True},
    }
    models = {
        "tiny-B-32": ListedModel(CONFIG, tags),
        "tiny-B-32-quickgelu": ListedModel(CONFIG | {"quick_gelu": True}, tags),
        "odd": ListedModel(CONFIG, {"a": CFG, "b": CFG | {"std": 0.25}}),
    }
    monkeypatch.setattr(encoder_sources, "listed_model", models.get)


def source(model: str, pretrained: str | None = None, commit: str | None = None) -> EncoderSource:
    return EncoderSource(model, pretrained, CONFIG, Preprocessing(**complete(CFG, 32)), lambda: "x", commit)


def test_a_preprocessing_is_completed_as_open_clip_does() -> None:
    filled = complete(CFG, 32)
    assert filled == {"resize": "squash", "interpolation": "bicubic", "size": (32, 32), "mean": (0.5, 0.25, 0.125),
                      "std": (0.5, 0.5, 0.5), "fill": 0}  # fmt: skip
    changed = CFG | {"mean": 0, "interpolation": "bilinear", "resize_mode": "longest", "fill_color": 7}
    other = complete(changed, [24, 48])
    assert (other["mean"], other["size"], other["fill"], other["interpolation"]) == (
        (0, 0, 0), (24, 48), 7, "bilinear"
    )  # fmt: skip
    assert complete(CFG | {"interpolation": "random", "fill_color": None}, 32) == filled
    assert str(Preprocessing(**filled)) == IN_ONE_LINE
    third = "resize=longest;interpolation=bilinear;size=24x48;mean=0,0,0;std=0.33333333,0.33333333,0.33333333;fill=7"
    assert str(Preprocessing(**complete(changed | {"std": 1 / 3}, [24, 48]))) == third


def test_sizes_of_pictures() -> None:
    for size in ((1, 1), (MOST_PIXELS, 1), (1, MOST_PIXELS)):
        check_size(size)
    for wrong in ((0, 1), (1, 0), (MOST_PIXELS + 1, 1), (1, MOST_PIXELS + 1), (1, 2.5), ("1", 1)):
        with pytest.raises(ValueError, match=f"^its pictures have {wrong[0]} x {wrong[1]} pixels"):
            check_size(wrong)  # type: ignore[arg-type]


def in_folder(folder: Path, config: Any, *weights: str) -> Path:
    folder.mkdir()
    (folder / "open_clip_config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    for name in weights:
        save_file({name: np.zeros(2, np.float32)}, folder / name)
    return folder


def test_a_folder_is_identified_by_the_weights_that_open_clip_loads(tmp_path: Path) -> None:
    config = {"model_cfg": CONFIG, "preprocess_cfg": CFG}
    names = ["open_clip_model", "open_clip_pytorch_model", "model", "adapter"]
    files = [f"{name}.safetensors" for name in names]
    for number in range(3):
        folder = in_folder(tmp_path / f"m{number}", config, *files[number:])
        revision = hashlib.sha256((folder / files[number]).read_bytes()).hexdigest()[:16]
        identity = encoder_facts(f"local-dir:{folder}", pretrained=None)
        assert identity == (f"local-dir:m{number}@{revision}", 8, IN_ONE_LINE, True)
    with pytest.raises(ModelError, match=r"must have one of open_clip_model\.safetensors"):
        encoder_facts(f"local-dir:{in_folder(tmp_path / 'm3', config, *files[3:])}", pretrained=None)


def test_configs_that_are_refused(tmp_path: Path) -> None:
    def folder_of(config: Any) -> str:
        return f"local-dir:{in_folder(tmp_path / str(len(list(tmp_path.iterdir()))), config, 'model.safetensors')}"

    def with_model(**keys: Any) -> dict[str, Any]:
        return {"model_cfg": CONFIG | keys, "preprocess_cfg": CFG}

    for allowed in (
        with_model(embed_dim=MOST_DIM),
        with_model(embed_dim=1, text_cfg={"tokenizer_kwargs": {"clean": "lower", "context_length": 8}}),
        with_model(vision_cfg={"image_size": [32, 32], "timm_model_name": "vit_base"}, text_cfg={"hf_model_name": ""}),
    ):
        encoder_facts(folder_of(allowed), pretrained=None)
    kwargs = {"clean": "x", "trust_remote_code": True} | {f"use_{number}": 1 for number in range(9)}
    names = ["hf-hub:a/b", "/a", "./a", "~a", 5]
    cases = [
        ("{", "is not JSON"),
        ([], "has no model_cfg"),
        ({"model_cfg": []}, "has no model_cfg"),
        (with_model(text_cfg={"tokenizer_kwargs": kwargs}), "tokenizer_kwargs.trust_remote_code is not allowed"),
        *((with_model(vision_cfg={"timm_model_name": name}), f"timm_model_name={name!r} must") for name in names),
        *((with_model(text_cfg={"hf_model_name": name}), f"hf_model_name={name!r} must") for name in names),
        *((with_model(embed_dim=dim), f"embed_dim={dim!r} must") for dim in (0, MOST_DIM + 1, 8.5, "8")),
        ({"model_cfg": {}}, "unexpected form"),
        ({"model_cfg": CONFIG}, "lacks mean, std, interpolation, resize_mode"),
        ({"model_cfg": CONFIG, "preprocess_cfg": CFG | {"std": None}}, "lacks std"),
        (with_model(vision_cfg={"image_size": MOST_PIXELS + 1}), f"have {MOST_PIXELS + 1} x"),
    ]

    def check(config: Any, message: str) -> None:
        model = folder_of(config)
        with pytest.raises(ValueError, match=f"^{model}: .*{message}") as refused:
            encoder_facts(model, pretrained=None)
        assert str(refused.value).count(model) == 1

    check_cases(check, cases)


def test_names_and_tags(listed: None, tmp_path: Path) -> None:
    assert encoder_facts("tiny-B/32", pretrained="hub") == ("tiny-B-32@hub", 8, IN_ONE_LINE, True)
    for pretrained in (f"hub@{COMMIT}", f"file@{COMMIT}"):
        assert encoder_facts("tiny-B-32", pretrained=pretrained).encoder == f"tiny-B-32@{pretrained}"
    assert encoder_facts("tiny-B-32-quickgelu", pretrained="quick").encoder == "tiny-B-32-quickgelu@quick"
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(b"weights")
    revision = hashlib.sha256(b"weights").hexdigest()[:16]
    assert encoder_facts("tiny-B-32", pretrained=str(weights)) == (f"tiny-B-32@{revision}", 8, IN_ONE_LINE, True)
    cases = [
        ("other", "hub", "other: unknown model"),
        ("tiny-B-32", None, "pretrained=null: tiny-B-32 would have random weights; must be one of hub, file, url, qui"),
        ("tiny-B-32", "web", "pretrained=web: unknown for tiny-B-32; must be one of hub, file, url, quick"),
        ("tiny-B/32", "quick", "pretrained=quick: was trained with QuickGELU, .*; use tiny-B-32-quickgelu"),
        *(("tiny-B-32", bad, f"pretrained={bad}: @ must") for bad in ("hub@", f"hub@{COMMIT}0", f"url@{COMMIT}")),
        ("odd", str(weights), f"pretrained={weights}: does not specify the preprocessing"),
    ]

    def check(model: str, pretrained: str | None, message: str) -> None:
        with pytest.raises(ValueError, match=f"^{message}"):
            encoder_facts(model, pretrained=pretrained)

    check_cases(check, cases)
    with pytest.raises(SettingError, match=r"^pretrained=no\.safetensors: no such file"):
        encoder_facts("tiny-B-32", pretrained="no.safetensors")


def test_only_a_pinned_tag_has_a_commit(listed: None) -> None:
    assert find_source("tiny-B-32", "hub").commit is None
    assert find_source("tiny-B-32", f"hub@{COMMIT}").commit == COMMIT


def test_a_model_of_the_hub_is_identified_by_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = in_folder(tmp_path / COMMIT, {"model_cfg": CONFIG, "preprocess_cfg": CFG}) / "open_clip_config.json"
    places = {("me/more", file.name): str(file)}
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *place: places[place])
    assert encoder_facts("hf-hub:me/more", pretrained=None) == (f"hf-hub:me/more@{COMMIT}", 8, IN_ONE_LINE, True)
    with pytest.raises(ModelError, match=r"^hf-hub:me/none: ") as missing:
        encoder_facts("hf-hub:me/none", pretrained=None)
    assert isinstance(missing.value.__cause__, KeyError)
    for model in ("hf-hub:me/more", f"local-dir:{tmp_path / COMMIT}"):
        with pytest.raises(ValueError, match=f"^pretrained=hub: '{model}' includes its weights; must be null"):
            encoder_facts(model, pretrained="hub")


def test_where_the_hub_has_weights(listed: None) -> None:
    any_name = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin")
    cases = {
        ("local-dir:/a", None): None,
        ("tiny-B-32", "w.safetensors"): None,
        ("tiny-B-32", "url"): None,
        ("tiny-B-32", "web"): None,
        ("other", "hub"): None,
        ("hf-hub:me/more", None): ("me/more", any_name),
        ("tiny-B-32", "hub"): ("me/tiny", any_name),
        ("tiny-B-32", "file"): ("me/tiny", ("parts/w.safetensors",)),
    }
    assert {case: hub_files(source(*case)) for case in cases} == cases


def test_pinned_weights_are_safetensors(listed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    available: set[str] = set()
    asked: list[tuple[str, str, str]] = []

    def download(repository: str, name: str, *, revision: str) -> str:
        asked.append((repository, name, revision))
        if name not in available:
            raise RuntimeError("404")
        return f"/hub/{name}"

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    pinned = source("tiny-B-32", "hub", COMMIT)
    with pytest.raises(FileNotFoundError, match=f"^me/tiny at commit {COMMIT}: no weights from the hub .404"):
        pinned_weights(pinned)
    expected = [("me/tiny", f"open_clip_{name}.safetensors", COMMIT) for name in ("model", "pytorch_model")]
    assert asked == expected
    available |= {"open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin"}
    assert pinned_weights(pinned) == "/hub/open_clip_pytorch_model.safetensors"


NAME, TAG = "ViT-B-16-SigLIP-i18n-256", "webli"


@pytest.fixture(autouse=True)
def _no_lists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REMINE_CACHE", str(tmp_path / "cache"))
    encoder_sources._all_models.cache_clear()


def test_the_second_process_does_not_import_open_clip(tmp_path: Path) -> None:
    import open_clip

    listed = listed_model(NAME)
    assert listed is not None
    assert listed.config == open_clip.get_model_config(NAME)
    assert set(listed.weights) == set(open_clip.list_pretrained_tags_by_model(NAME))
    published = open_clip.get_pretrained_cfg(NAME, TAG)
    assert listed.weights[TAG] == {k: list(v) if isinstance(v, tuple) else v for k, v in published.items()}
    assert listed_model("no-such-model") is None
    program = (
        "import sys\n"
        "from actors.encoders.encoder_sources import encoder_facts\n"
        f"print(encoder_facts({NAME!r}, pretrained={TAG!r}).dim, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["768", "False"]


def test_a_damaged_file_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "cache" / f"open_clip-{importlib.metadata.version('open_clip_torch')}.json"
    file.parent.mkdir()
    file.write_text('{"cut', encoding="utf-8")
    assert listed_model(NAME) is not None
    assert file.read_text(encoding="utf-8").endswith("}")
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    assert listed_model(NAME) is not None


def test_a_model_that_the_process_added_is_asked_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(
        list_models=lambda: ["mine", "both"],
        list_pretrained_tags_by_model=lambda name: [f"{name}-a", f"{name}-b"],
        get_model_config=lambda name: {"name": name},
        get_pretrained_cfg=lambda name, tag: {"of": name, "tag": tag},
    )
    stored = {"config": {"name": "stored"}, "weights": {}}
    monkeypatch.setattr(encoder_sources, "_all_models", lambda: {"both": stored})
    monkeypatch.setitem(sys.modules, "open_clip", library)
    weights = {tag: {"of": "mine", "tag": tag} for tag in ("mine-a", "mine-b")}
    assert listed_model("mine") == ({"name": "mine"}, weights)
    assert listed_model("both") == ({"name": "stored"}, {})
    assert listed_model("other") is None
    monkeypatch.delitem(sys.modules, "open_clip")
    assert listed_model("mine") is None


def test_without_open_clip_the_module_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    with pytest.raises(ModuleNotFoundError) as missing:
        listed_model(NAME)
    assert missing.value.name == "open_clip"


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
    monkeypatch.setattr(
        encoder_sources, "find_source", lambda model, pretrained: {("m", None): source}[model, pretrained]
    )
    for scale, name in enumerate(NAMES, start=1):
        save_tensors(tensors(scale), tmp_path / name)
    for scale, name in enumerate(NAMES, start=1):
        assert logit_scalars("m", pretrained=None) == (scale, -10.0)
        (tmp_path / name).unlink()
    assert logit_scalars("m", pretrained=None) is None
    source.model, source.pretrained = "ViT-B-32", str(tmp_path / "w.safetensors")
    save_tensors(tensors(7), source.pretrained)
    assert logit_scalars("m", pretrained=None) == (7, -10.0)
    Path(source.pretrained).write_bytes(b"damaged")
    assert logit_scalars("m", pretrained=None) is None
    source.pretrained, of_tag = "tag", SimpleNamespace(model="ViT-B-32", pretrained=str(tmp_path / "x.safetensors"))
    save_tensors(tensors(8), of_tag.pretrained)
    monkeypatch.setattr(
        encoder_sources, "find_source", lambda model, pretrained: {("m", "x"): of_tag}[model, pretrained]
    )
    assert logit_scalars("m", pretrained="x") == (8, -10.0)


def test_scalars_of_a_model_of_the_hub_are_read_from_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = SimpleNamespace(model="hf-hub:org/name", pretrained=None, commit="ab")
    monkeypatch.setattr(encoder_sources, "find_source", lambda model, pretrained: source)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    cached: dict[str, object] = {NAMES[0]: object(), NAMES[1]: str(tmp_path / "w.safetensors")}
    save_tensors(tensors(), tmp_path / "w.safetensors")
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
    monkeypatch.setattr(encoder_sources, "find_source", lambda model, pretrained: source)
    monkeypatch.setattr(encoder_sources, "find_hub_encoder", lambda *_: SimpleNamespace(folder=None, name="org/name"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_, **__: None)
    monkeypatch.setattr(huggingface_hub, "HfFileSystem", Hub)
    for model in ("hf-hub:org/name", "transformers:org/name"):
        assert logit_scalars(model, pretrained="ab") == (3.0, -10.0)
    source.commit = None
    assert logit_scalars("hf-hub:org/name", pretrained=None) == (5.0, -10.0)
    weights.clear()
    assert logit_scalars("hf-hub:org/name", pretrained=None) is None

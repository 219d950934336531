"""Encoders' files, read without transformers: what transformers says of them, or nothing."""

import contextlib
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import (
    BitImageProcessor,
    CLIPConfig,
    CLIPImageProcessor,
    Dinov2Config,
    Dinov2WithRegistersConfig,
    SiglipConfig,
    SiglipImageProcessor,
)

from actors.encoders.plain_files import CONFIG, OF_ALL, PICTURES, read_plain
from actors.encoders.transformers_encoders import MOST_DIM, MOST_PIXELS, HubEncoder
from actors.local_models import resolve
from tests.cases import check_cases

SMALL = {"hidden_size": 24, "num_attention_heads": 2}
ENCODERS: dict[str, tuple[Any, Any]] = {
    "siglip": (SiglipConfig(vision_config=SMALL), SiglipImageProcessor(size={"height": 96, "width": 128})),
    "siglip by default": (SiglipConfig(), SiglipImageProcessor()),
    "clip": (CLIPConfig(projection_dim=24), CLIPImageProcessor(crop_size={"height": 96, "width": 96}, resample=2)),
    "clip by default": (CLIPConfig(), CLIPImageProcessor()),
    "dinov2": (Dinov2Config(**SMALL), BitImageProcessor(size={"shortest_edge": 256}, image_std=[0.2, 0.3, 0.4])),
    "dinov2 by default": (Dinov2Config(), BitImageProcessor(do_rescale=False, do_convert_rgb=False)),
    "dinov2 with registers": (Dinov2WithRegistersConfig(**SMALL), BitImageProcessor()),
}


def read(folder: Path) -> Callable[[str], str | None]:
    return lambda name: (folder / name).read_text() if (folder / name).is_file() else None


def write(folder: Path, config: dict[str, Any], pictures: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / CONFIG).write_text(json.dumps(config))
    (folder / PICTURES).write_text(json.dumps(pictures))
    return folder


def files_of(name: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    config, processor = ENCODERS[name]
    config.save_pretrained(folder)
    processor.save_pretrained(folder)
    return json.loads((folder / CONFIG).read_text()), json.loads((folder / PICTURES).read_text())


@pytest.mark.parametrize("name", ENCODERS)
def test_the_files_say_what_transformers_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, pictures = files_of(name, tmp_path)
    if name != "dinov2 by default":
        del pictures["do_convert_rgb"]
    folder = write(tmp_path / "model", config, pictures | {"processor_class": "SomeProcessor"})
    plain = HubEncoder(f"transformers:{folder}", None)
    with monkeypatch.context() as patch:
        patch.setattr("actors.encoders.transformers_encoders.read_plain", lambda _: None)
        whole = HubEncoder(f"transformers:{folder}", None)
    assert read_plain(read(folder)) is not None
    assert (plain.dim, plain.texts, plain.size) == (whole.dim, whole.texts, whole.size)
    assert plain.preprocessing == whole.preprocessing
    assert plain.processor.to_dict() == whole.processor.to_dict()


# Changes of a config or of the pictures' settings that only transformers can judge.
IN_CONFIG: dict[str, dict[str, Any]] = {
    "another architecture": {"model_type": "bert"},
    "no architecture": {"model_type": None},
    "code": {"auto_map": {"AutoModel": "evil.Evil"}},
    "text for a number": {"vision_config": {"hidden_size": "24"}},
    "half a number": {"vision_config": {"hidden_size": 24.5}},
    "a flag for a number": {"vision_config": {"hidden_size": True}},
    "no layers": {"vision_config": {"num_hidden_layers": 0}},
    "a vast number": {"vision_config": {"intermediate_size": 2**50}},
    "a tower within a tower": {"vision_config": {"vision_config": {}}},
    "a list for a tower": {"text_config": []},
    "a number for a word": {"text_config": {"hidden_act": 5}},
    "nothing": {"pruned_heads": None},
    "a flag for a token": {"text_config": {"pad_token_id": False}},
    "half a token": {"text_config": {"pad_token_id": 0.0}},
    "a negative token": {"text_config": {"pad_token_id": -1}},
    "no width": {"vision_config": {"hidden_size": 0}},
    "a list of lists": {"architectures": [[]]},
    "words for a list": {"architectures": "SiglipModel"},
    "a vast share": {"vision_config": {"attention_dropout": 10**7}},
    "a vast negative share": {"vision_config": {"attention_dropout": -(10**7)}},
    "a size at the bound": {"vision_config": {"hidden_size": 10**7}},
    "half a position": {"text_config": {"max_position_embeddings": 64.5}},
    "half a dimension": {"projection_dim": 24.5},
    "half a layer": {"vision_config": {"num_hidden_layers": 2.5}},
}
IN_PICTURES: dict[str, dict[str, Any]] = {
    "another processor": {"image_processor_type": "ViTImageProcessor"},
    "no processor": {"image_processor_type": None},
    "code": {"auto_map": {"AutoImageProcessor": "evil.Evil"}},
    "a further setting": {"do_pad": True},
    "one number for three": {"image_mean": 0.5},
    "two channels": {"image_std": [0.5, 0.5]},
    "one side": {"size": 224},
    "a shorter side": {"size": {"shortest_edge": 224}},
    "no size": {"size": {"height": 0, "width": 0}},
    "half a side": {"size": {"height": 96.5, "width": 128}},
    "a third side": {"size": {"height": 96, "width": 128, "depth": 1}},
    "an unknown interpolation": {"resample": 6},
    "a negative interpolation": {"resample": -1},
    "a flag for an interpolation": {"resample": True},
    "four channels": {"image_std": [0.5] * 4},
    "a flag for a channel": {"image_mean": [0.5, 0.5, True]},
    "a word for a factor": {"rescale_factor": "1"},
    "a word for a flag": {"do_resize": "yes"},
    "a word for the conversion": {"do_convert_rgb": "yes"},
}


def test_what_only_transformers_can_judge_is_left_to_it(tmp_path: Path) -> None:
    config, pictures = files_of("siglip", tmp_path)
    cases = [(name, config | change, pictures) for name, change in IN_CONFIG.items()]
    cases += [(name, config, pictures | change) for name, change in IN_PICTURES.items()]
    cases += [
        (f"without {key}", config, {k: v for k, v in pictures.items() if k != key}) for key in ("size", "resample")
    ]
    allowed = config | {"text_config": {"pad_token_id": 0}, "vision_config": {"hidden_size": 10**7 - 1}}
    named = config | {"torch_dtype": "float32", "_name_or_path": "o/n", "out_features": ["stem"], "out_indices": [0]}
    for number, right in enumerate((config, allowed, named)):
        for resample in (0, 5):
            folder = write(tmp_path / f"right {number} {resample}", right, pictures | {"resample": resample})
            assert read_plain(read(folder)) is not None
    wrong = [
        name
        for number, (name, *files) in enumerate(cases)
        if read_plain(read(write(tmp_path / str(number), *files))) is not None
    ]
    assert wrong == []


def test_what_a_config_leaves_out_is_the_default_of_transformers(tmp_path: Path) -> None:
    _, pictures = files_of("clip", tmp_path)
    _, squashed = files_of("siglip", tmp_path)
    sizes = {
        "siglip": SiglipConfig().vision_config.hidden_size,
        "clip": CLIPConfig().projection_dim,
        "dinov2": Dinov2Config().hidden_size,
        "dinov2_with_registers": Dinov2WithRegistersConfig().hidden_size,
    }
    for kind, size in sizes.items():
        texts = {CONFIG: {"model_type": kind}, PICTURES: squashed if kind == "siglip" else pictures}
        plain = read_plain({name: json.dumps(content) for name, content in texts.items()}.get)
        assert plain is not None
        assert (plain.dim, plain.texts) == (size, not kind.startswith("dinov2"))


def test_a_crop_that_is_off_leaves_no_fixed_size(tmp_path: Path) -> None:
    config, pictures = files_of("clip", tmp_path)
    folder = write(tmp_path / "model", config, pictures | {"do_center_crop": False})
    assert read_plain(read(folder)) is None
    with pytest.raises(ValueError, match="choose a model with a fixed size"):
        HubEncoder(f"transformers:{folder}", None)


def test_vectors_and_pictures_of_any_sane_size_are_accepted(tmp_path: Path) -> None:
    config, pictures = files_of("clip", tmp_path)
    cases = [
        *((dim, (96, 96), "") for dim in (1, MOST_DIM)),
        *((24, size, "") for size in ((1, MOST_PIXELS), (MOST_PIXELS, 1))),
        (MOST_DIM + 1, (96, 96), f"its vectors have {MOST_DIM + 1} numbers"),
        (24, (MOST_PIXELS + 1, 96), f"{MOST_PIXELS + 1} x 96 pixels"),
        (24, (96, MOST_PIXELS + 1), f"96 x {MOST_PIXELS + 1} pixels"),
    ]

    def check(dim: int, size: tuple[int, int], message: str) -> None:
        crop = dict(zip(("height", "width"), size, strict=True))
        folder = write(tmp_path / f"{dim} {size}", config | {"projection_dim": dim}, pictures | {"crop_size": crop})
        with pytest.raises(ValueError, match=message) if message else contextlib.nullcontext():
            encoder = HubEncoder(f"transformers:{folder}", None)
            assert (encoder.dim, encoder.size) == (dim, size)

    check_cases(check, cases)


def test_a_folder_is_identified_by_all_its_weights(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", *files_of("siglip", tmp_path))
    encoder = HubEncoder(f"transformers:{folder}", None)
    with pytest.raises(FileNotFoundError, match=r"no \.safetensors files"):
        encoder.revision()
    (folder / "b.safetensors").write_bytes(b"last")
    (folder / "a.safetensors").write_bytes(b"first")
    (folder / "a.bin").write_bytes(b"left aside")
    hashes = hashlib.sha256(b"first").digest() + hashlib.sha256(b"last").digest()
    assert encoder.revision() == hashlib.sha256(hashes).hexdigest()[:16]


def test_weights_are_looked_for_at_the_models_revision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config, pictures = files_of("siglip", tmp_path)
    texts = {CONFIG: json.dumps(config), PICTURES: json.dumps(pictures)}
    asked: list[tuple[Any, ...]] = []

    def read_from_hub(repository: str, name: str, *, revision: str | None) -> str | None:
        asked.append((repository, revision))
        return texts.get(name)

    module = "actors.encoders.transformers_encoders"
    monkeypatch.setattr(f"{module}.read", read_from_hub)
    monkeypatch.setattr(f"{module}.check_reachable", lambda *place, **keys: asked.append((place, keys)))
    monkeypatch.setattr(f"{module}.commit", lambda *place, revision: {"v2": "ab" * 20, "v3": None}.get(revision))
    encoder = HubEncoder("transformers:org/name", "v2")
    assert set(asked) == {("org/name", "v2")}
    monkeypatch.setattr(f"{module}.read", lambda *_, revision: None)
    with pytest.raises(ValueError, match=r"transformers:org/name: the hub has no such model .*no config\.json"):
        HubEncoder("transformers:org/name", "v2")
    monkeypatch.setattr(f"{module}.read", read_from_hub)
    encoder.check_weights()
    files = ("model.safetensors", "model.safetensors.index.json")
    assert asked[-1] == (("org/name",), {"files": files, "revision": "v2"})
    revisions = [HubEncoder("transformers:org/name", revision).revision() for revision in ("v2", "v3", None)]
    assert revisions == ["ab" * 20, "v3", "main"]


def test_damaged_files_and_settings_of_all_inputs_are_left_to_transformers(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", *files_of("siglip", tmp_path))
    (folder / OF_ALL).write_text("{}")
    assert read_plain(read(folder)) is None
    (folder / OF_ALL).unlink()
    for file in (PICTURES, CONFIG):
        whole = (folder / file).read_text()
        assert read_plain(read(folder)) is not None
        for text in ("", "{", "[1]", "[" * 100_000, "null"):
            (folder / file).write_text(text)
            assert read_plain(read(folder)) is None, (file, text[:5])
        (folder / file).write_text(whole)


def test_a_transformers_that_prepares_pictures_otherwise_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "model", *files_of("siglip", tmp_path))
    encoder = HubEncoder(f"transformers:{folder}", None)
    described = SiglipImageProcessor.to_dict
    monkeypatch.setattr(SiglipImageProcessor, "to_dict", lambda self: described(self) | {"resample": 2})
    with pytest.raises(RuntimeError, match="install the version that"):
        _ = encoder.processor


def test_an_encoder_is_identified_without_torch() -> None:
    program = (
        "import sys; from actors.encoders import calibration, facts; "
        f"name = 'transformers:' + {resolve('local:demo-encoder')!r}; "
        "assert facts.encoder_facts(name, pretrained=None).dim == 128; "
        "assert calibration.logit_scalars(name, pretrained=None); "
        "print({'torch', 'transformers', 'torchvision'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"

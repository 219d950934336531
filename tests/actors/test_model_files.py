"""A model on S3 is copied once per machine, and only what its user needs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from actors import local_models, model_files
from actors.diffusion_models import ImageModelSettings, check_image_model, load_pipeline
from actors.encoders.encoder_sources import check_weights, encoder_facts, logit_scalars
from actors.encoders.towers import find_geometry, load_tower
from actors.vlm.loading import load_processor, rater_name
from actors.vlm.model_checks import check_vlm
from jobs.store.files import locations
from tests.cases import check_cases
from tests.factories import copy_folder

NAME = "local:llama-tiny"


def test_a_model_on_s3_is_copied_once(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"{s3}/models/judge-tiny"
    for file in Path(local_models.resolve(NAME)).iterdir():
        locations.replace(f"{uri}/{file.name}", file.read_bytes())
    locations.replace(f"{uri}/pytorch_model.bin", b"pickled")
    locations.replace(f"{uri}/original/weights.safetensors", b"another form of it")
    assert check_vlm(uri) is check_vlm(NAME)

    monkeypatch.setenv("REMINE_CACHE", str(tmp_path / "cache"))
    copied: list[list[str]] = []
    copy = model_files._copy

    def counted(store: object, model: str, names: list[str], folder: Path) -> None:
        copied.append(sorted(names))
        copy(store, model, names, folder)

    monkeypatch.setattr(model_files, "_copy", counted)
    load_processor(uri)
    assert not any(name.endswith(".safetensors") for name in copied.pop())
    with ThreadPoolExecutor(4) as pool:
        (folder,) = set(pool.map(model_files.resolve, [uri] * 8))
    (names,) = copied
    assert sorted(path.name for path in Path(folder).iterdir()) == names
    assert "model.safetensors" in names
    assert not {"pytorch_model.bin", "weights.safetensors"} & set(names)
    assert rater_name(uri) == rater_name(folder) == "judge-tiny"

    locations.replace(f"{uri}/generation_config.json", b"{}")  # other weights under the same name are another copy
    assert model_files.resolve(uri) != folder


def test_damaged_weights_on_s3_are_named_before_they_are_copied(s3: str) -> None:
    folder, uri = Path(local_models.resolve(NAME)), f"{s3}/models/damaged"
    copy_folder(folder, uri)
    check_vlm(uri)
    pickled = f"{uri}/pytorch_model.bin.index.json"
    locations.replace(pickled, b'{"weight_map": {"a": "pytorch_model-00001.bin"}}')
    check_vlm(uri)  # pickled weights are not loaded, so that they may be missing
    locations.remove([pickled])
    weights = (folder / "model.safetensors").read_bytes()
    file, index = "model.safetensors", "model.safetensors.index.json"
    cases = {
        "cut off": (file, weights[:-1], "damaged: "),
        "no header": (file, b"\xff" * 100, "no readable header"),
        "a missing file": (index, b'{"weight_map": {"a": "model-00001.safetensors"}}', "1 of 1 files are missing"),
        "a file elsewhere": (index, b'{"weight_map": {"a": "../x.safetensors"}}', "only files next to"),
        "no index": (index, b"[", "not an index of weights"),
    }

    def check(name: str, content: bytes, message: str) -> None:
        before = locations.read_bytes(f"{uri}/{name}") if locations.exists(f"{uri}/{name}") else None
        locations.replace(f"{uri}/{name}", content)
        with pytest.raises(ValueError, match=f"^{uri}: {name}: .*{message}"):
            check_vlm(uri)
        locations.remove([f"{uri}/{name}"])
        if before is not None:
            locations.replace(f"{uri}/{name}", before)

    check_cases(check, cases)
    check_vlm(uri)


def test_places_without_a_model(s3: str) -> None:
    for uri in (f"{s3}/nothing", "s3://no-such-bucket/model"):
        with pytest.raises(ValueError, match=uri):
            check_vlm(uri)


def test_encoders_on_s3_are_those_of_their_folders(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {name: Path(local_models.resolve(f"local:{name}")) for name in ("siglip-tiny", "demo-encoder")}
    for name, folder in folders.items():
        copy_folder(folder, f"{s3}/encoders/{name}")
    monkeypatch.setenv("REMINE_CACHE", str(tmp_path / "cache"))
    picture = np.random.default_rng(0).integers(0, 256, (1, 3, 64, 64), np.uint8)
    for prefix, local, name in (("", "local-dir:", "siglip-tiny"), ("transformers:", "transformers:", "demo-encoder")):
        model, same = f"{prefix}{s3}/encoders/{name}", f"{local}{folders[name]}"
        facts, expected = encoder_facts(model, pretrained=None), encoder_facts(same, pretrained=None)
        assert facts._replace(encoder="") == expected._replace(encoder="")
        assert facts.encoder.partition("@")[2] == expected.encoder.partition("@")[2]  # the hash of the weights
        assert name in facts.encoder
        check_weights(model, pretrained=None)
        assert logit_scalars(model, pretrained=None) == logit_scalars(same, pretrained=None) is not None
        size = find_geometry(model, None).size
        pixels = torch.from_numpy(picture[..., : size[0], : size[1]])
        towers: list[Any] = [
            load_tower(name, None, device=torch.device("cpu"), dtype="float32") for name in (model, same)
        ]
        one, other = (tower.pictures(pixels) for tower in towers)
        assert torch.allclose(one, other, atol=1e-3)
    with pytest.raises(ValueError, match="includes its weights"):
        encoder_facts(f"{s3}/encoders/siglip-tiny", pretrained="webli")


def test_an_image_model_on_s3_is_copied_with_its_folders(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("diffusers")
    folder, uri = Path(local_models.resolve("local:sd3-tiny")), f"{s3}/drawers/sd3-tiny"
    copy_folder(folder, uri)
    for name in ("whole.safetensors", "transformer/model.fp16.safetensors"):
        locations.replace(f"{uri}/{name}", b"unused")
    monkeypatch.setenv("REMINE_CACHE", str(tmp_path / "cache"))
    settings = ImageModelSettings(checkpoint=uri)
    check_image_model(settings)
    load_pipeline(settings)
    copy = Path(model_files.resolve(uri, nested=True))
    unused = {path.name for path in copy.rglob("*.safetensors")} & {"whole.safetensors", "model.fp16.safetensors"}
    assert not unused
    assert {path.parent.name for path in copy.rglob("*.safetensors")} == {
        path.parent.name for path in folder.rglob("*.safetensors")
    }
    with pytest.raises(ValueError, match=r"no model_index\.json"):
        check_image_model(ImageModelSettings(checkpoint=f"{s3}/drawers/sd3-tiny/transformer"))
    damaged = next(path for path in folder.rglob("*.safetensors")).relative_to(folder).as_posix()
    locations.replace(f"{uri}/{damaged}", b"short")
    with pytest.raises(ValueError, match=f"{damaged}: damaged"):
        check_image_model(settings)


def test_no_object_is_copied_outside_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {name: {"name": f"bucket/model/{name}", "size": 1} for name in ("config.json", "unet/../../../x.json")}
    monkeypatch.setattr(model_files, "storage", lambda: SimpleNamespace(find=lambda prefix, detail: listed))
    with pytest.raises(ValueError, match=r"unet/\.\./"):
        model_files.objects("s3://bucket/model", nested=True)

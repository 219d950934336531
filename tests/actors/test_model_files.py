"""A model on S3 is copied once per machine, and only what its user needs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from actors import local_models, model_files
from actors.vlm.encoding import load_processor
from actors.vlm.loading import rater_name
from actors.vlm.model_checks import check_vlm
from jobs.store import locations

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


def test_places_without_a_model(s3: str) -> None:
    for uri in (f"{s3}/nothing", "s3://no-such-bucket/model"):
        with pytest.raises(ValueError, match=uri):
            check_vlm(uri)

"""Checkpoints are cached by their name and the VERSION of their builder: another checkpoint needs another VERSION."""

import hashlib
import json
from pathlib import Path

import pytest

from actors.local_models import BUILDERS, cache_folder, has_random_weights, is_local, is_ready, resolve

LIBRARIES = ("transformers_version", "_diffusers_version", "_name_or_path")
# Name -> hash of all configurations. If one differs, raise VERSION of its builder, and replace it.
GOLDEN = {
    "siglip-tiny": "adeab4b35d23d856",
    "qwen2.5-vl-tiny": "08b7a40d0aba3df5",
    "qwen2.5-vl-70m": "66967d12ef21a6f7",
    "qwen3-vl-tiny": "9a92f420cc4a88bf",
    "qwen2-tiny": "20bfd0236dd7b464",
    "qwen3-tiny": "7426927ba697f34b",
    "llava-next-tiny": "1ae13657ff032b06",
    "mllama-tiny": "de2c1bd9f8ccc972",
    "gemma3-tiny": "1fa07107e1d5d086",
    "smolvlm-tiny": "1f3213348553880b",
    "llama-tiny": "92a8c19eebc45baa",
    "sd3-tiny": "32eacff08c0947e3",
}


def configuration(folder: Path) -> str:
    """Return a hash of the configurations of a checkpoint, without versions of libraries."""
    digest = hashlib.sha256()
    for path in sorted([*folder.rglob("*config.json"), *folder.rglob("chat_template.jinja")]):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            facts = {name: value for name, value in json.loads(text).items() if name not in LIBRARIES}
            text = json.dumps(facts, sort_keys=True)
        digest.update(f"{path.relative_to(folder)}\n{text}\n".encode())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("name", BUILDERS)
def test_the_configuration_of_a_checkpoint_is_unchanged(name: str) -> None:
    folder = Path(resolve(f"local:{name}"))
    assert configuration(folder) == GOLDEN[name]


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [is_local(name) for name in ("local:llama-tiny", "llama-tiny")] == [True, False]
    names = ("local:llama-tiny", "local:llama-tiny@other", "local:demo-judge", "org/name")
    assert [has_random_weights(name) for name in names] == [True, True, False, False]
    assert resolve("org/name") == "org/name"
    assert Path(resolve("local:demo-judge")).is_dir()
    with pytest.raises(ValueError, match=r"no such local model; must be one of .*demo-judge"):
        resolve("local:huge")
    monkeypatch.setenv("REMINE_CACHE", str(tmp_path / "new" / "cache"))
    assert not is_ready("local:siglip-tiny")
    folder = resolve("local:siglip-tiny")
    assert folder == resolve("local:siglip-tiny@other")
    assert is_ready("local:siglip-tiny@another")
    assert [path.name for path in (tmp_path / "new" / "cache").iterdir()] == [Path(folder).name]


def test_folders_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMINE_CACHE", "here")
    assert cache_folder() == Path("here")
    monkeypatch.delenv("REMINE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "remine"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "remine"

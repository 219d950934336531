"""Models that open_clip lists, read from its file and from the library."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.encoders import open_clip_models
from actors.encoders.open_clip_models import listed_model

NAME, TAG = "ViT-B-16-SigLIP-i18n-256", "webli"


@pytest.fixture(autouse=True)
def _no_lists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REMINE_CACHE", str(tmp_path / "cache"))
    open_clip_models._all_models.cache_clear()


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
        "from actors.encoders.facts import encoder_facts\n"
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
    monkeypatch.setattr(open_clip_models, "_all_models", lambda: {"both": stored})
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

"""Small models for tests and offline machines: `local:NAME`, or under another name `local:NAME@OTHER`.

Their architectures are real but scaled down. Loading, preprocessing, batching and storing work as with a hub model.

The models in `TRAINED` come with the package: they see, but only the pictures of the demo (`docs/demo.md`). All others
have **random weights**, so that their answers are meaningless: a checkpoint is written once into a cache folder and
loaded from there by the same calls. `@OTHER` changes only the name, so that one checkpoint can act as several models.
"""

import importlib
import logging
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "local:"
BUILDERS = {  # each name's module with VERSION, and its function that writes into a folder
    "siglip-tiny": "actors.local_models.siglip:build",
    "qwen2.5-vl-tiny": "actors.local_models.qwen:build",
    "qwen2.5-vl-70m": "actors.local_models.qwen:build_70m",
    "qwen3-vl-tiny": "actors.local_models.qwen:build_qwen3",
    "qwen2-tiny": "actors.local_models.qwen:build_text_qwen2",
    "qwen3-tiny": "actors.local_models.qwen:build_text_qwen3",
    "llava-next-tiny": "actors.local_models.others:build_llava_next",
    "mllama-tiny": "actors.local_models.others:build_mllama",
    "gemma3-tiny": "actors.local_models.others:build_gemma3",
    "smolvlm-tiny": "actors.local_models.others:build_smolvlm",
    "llama-tiny": "actors.local_models.others:build_llama",
    "sd3-tiny": "actors.local_models.diffusion:build",
}
TRAINED = ("demo-encoder", "demo-judge")  # folders of trained/, each a checkpoint with its model card
_TRAINED_FOLDER = Path(__file__).parent / "trained"
log = logging.getLogger(__name__)


def is_local(model: str) -> bool:
    """Return whether `model` has the form `local:NAME` or `local:NAME@OTHER`."""
    return model.startswith(PREFIX)


def has_random_weights(model: str) -> bool:
    """Return whether `model` is local and untrained: its answers are meaningless."""
    return is_local(model) and _name(model) not in TRAINED


def cache_folder() -> Path:
    """Return the folder of checkpoints: `$REMINE_CACHE`, else `$XDG_CACHE_HOME/remine`, else `~/.cache/remine`."""
    if folder := os.environ.get("REMINE_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "remine"


def is_ready(model: str) -> bool:
    """Return whether `model` is `local:NAME` and its checkpoint exists."""
    return is_local(model) and _folder(model).is_dir()


def resolve(model: str) -> str:
    """Return the folder of `local:NAME`, building its checkpoint on first use; any other `model` unchanged.

    Safe in concurrent processes: each builds in a temporary folder, and the first rename wins.

    Raises:
        ValueError: `local:NAME` with an unknown name.
    """
    if not is_local(model):
        return model
    folder, name = _folder(model), _name(model)
    if name in TRAINED:
        return str(folder)
    module, _, function = BUILDERS[name].partition(":")
    builder = importlib.import_module(module)
    if folder.is_dir():
        return str(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log.warning("building %s: random weights, its answers are meaningless", model)
    temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        getattr(builder, function)(temporary)
        temporary.chmod(0o755)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # unless another process was faster
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return str(folder)


def _name(model: str) -> str:
    return model.removeprefix(PREFIX).partition("@")[0]


def _folder(model: str) -> Path:
    name = _name(model)
    if name in TRAINED:
        return _TRAINED_FOLDER / name
    if name not in BUILDERS:
        raise ValueError(f"no such local model; must be one of {', '.join(sorted((*BUILDERS, *TRAINED)))}")
    builder = importlib.import_module(BUILDERS[name].partition(":")[0])
    return cache_folder() / f"{name}-{builder.VERSION}"

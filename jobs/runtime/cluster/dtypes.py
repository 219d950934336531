"""The dtype that `auto` stands for in a run, chosen before the run starts.

A table records the dtype in its identity. If each worker chose it, `auto` would mix bfloat16 of one kind of GPU with
float32 of another, and it would go unnoticed that a run is resumed on a machine without a GPU.
"""

from pathlib import Path
from typing import Any

from jobs.runtime.cluster import ray_session

STAGES = {"model": "judge", "embedder": "embed", "image_model": "judge"}  # key with a dtype -> its pool
_DEVICES = Path("/dev")


def resolve(cfg: Any) -> None:
    """Replace `dtype=auto` of the models of a job's configuration.

    On a cluster, stages with GPUs use bfloat16 and stages without use float32. On this machine, its GPU decides;
    without a GPU, a stage that needs one can only be planned here.
    """
    for key, pool in STAGES.items():
        model: Any = getattr(cfg, key, None)
        if hasattr(model, "dtype") and hasattr(cfg, "resources"):
            resolve_model(model, cfg, pool=pool)


def resolve_model(model: Any, cfg: Any, *, pool: str) -> None:
    """Replace `dtype=auto` of a model that the actors of a pool load; `cfg` is the job's configuration."""
    if model.dtype == "auto":
        placed = getattr(model, "device_map", None) or getattr(model, "device", "auto")
        is_here = ray_session.address_of(cfg.ray) is None and not cfg.resources.autoscaling
        local = _local_gpu() if is_here else None
        model.dtype = choose(gpus=getattr(cfg.resources, pool).num_gpus, placed=str(placed), local=local)


def choose(*, gpus: float, placed: str, local: str | None) -> str:
    """Return the dtype of a stage.

    Args:
        gpus: GPUs of each of its actors.
        placed: `device` or `device_map` of the stage's model. local: the dtype of this machine's GPU, empty without a
        GPU; None on a cluster, whose machines are not known yet.
    """
    if placed == "cpu":
        return "float32"
    if local is None:
        return "bfloat16" if gpus or placed.startswith("cuda") else "float32"
    return local or ("bfloat16" if gpus else "float32")


def _local_gpu() -> str:
    """Return the dtype of this machine's GPU, bfloat16 or, if it lacks that, float32; empty without a GPU."""
    if not any(_DEVICES.glob("nvidia[0-9]*")):  # without importing torch, which takes seconds
        return ""
    import torch

    if not torch.cuda.is_available():
        return ""
    return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"

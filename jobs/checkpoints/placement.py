"""Where a job's model runs: checks of device and dtype before Ray starts, and the plan's lines about its memory."""

from collections.abc import Sequence
from typing import Protocol

from actors import devices
from jobs.errors import InputError
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.config import Common
from jobs.runtime.configuration.resources import StageResources

GB = 1e9


class PlannedModel(Protocol):
    """A configured model, such as a `jobs.checkpoints.vlm.ModelConfig`."""

    name: str
    dtype: str
    memory_gb: float | None
    licence: str | None

    @property
    def rater(self) -> str:
        """The model's name in the tables."""


def check_device(cfg: Common, name: str, *, prefix: str = "") -> None:
    """Check that a device exists; with a cluster or plan=true, only that the name is well-formed.

    Args:
        prefix: what precedes the key `device` in messages, such as `embedder.`.

    Raises:
        InputError: the device does not exist, or `name` is not the name of a device.
    """
    try:
        devices.check_device(name)
        if name != "auto" and not cfg.only_plans and ray_session.address_of(cfg.ray) is None:
            devices.find_device(name)
    except ValueError as error:
        raise InputError(f"{prefix}{error}") from error


def check_dtype(name: str, *, prefix: str = "") -> None:
    """Check the name of a dtype.

    Args:
        prefix: what precedes the key `dtype` in messages, such as `embedder.`.

    Raises:
        InputError: the dtype is unknown.
    """
    try:
        devices.check_dtype(name)
    except ValueError as error:
        raise InputError(f"{prefix}{error}") from error


def plan_lines(cfg: Common, model: PlannedModel, *, fields: Sequence[str] | None = None) -> list[str]:
    """Return the plan's lines about `model`; empty unless plan=true, so that a run does not wait for them.

    Args:
        fields: the context fields of the prompts; None: the job has none.
    """
    if not cfg.plan:
        return []
    stage = cfg.resources.judge
    is_local = ray_session.address_of(cfg.ray) is None and not cfg.resources.autoscaling
    memory = memory_line(model, stage, available_gb=_available_gb(stage) if is_local else None)
    sent = [] if fields is None else [f"prompt columns sent: {', '.join(fields) or 'none'}"]
    return [_model_line(model), memory, *sent]


def _model_line(model: PlannedModel) -> str:
    return f"model  {model.name} ({model.rater}), licence {model.licence or 'not stated (model.licence)'}"


def memory_line(model: PlannedModel, stage: StageResources, *, available_gb: float | None) -> str:
    """Compare the total memory that the actors of the stage need with the available memory.

    Args:
        available_gb: memory of this machine's GPUs, or without GPUs its free memory; None if unknown, as on a cluster,
            which a plan does not query.
    """
    if model.memory_gb is None:
        return "memory not stated (model.memory_gb)"
    dtype = model.dtype if model.dtype != "auto" else "bfloat16" if stage.num_gpus else "float32"
    per_actor = model.memory_gb * (2 if dtype == "float32" else 1)
    needed = per_actor * stage.actors
    line = f"memory {per_actor:,g} GB per actor in {dtype} x {stage.actors} = {needed:,g} GB"
    if available_gb is None:
        return f"{line}; not compared, because a plan does not query the cluster"
    source = "GPUs of this machine" if stage.num_gpus else "free on this machine"
    verdict = "" if needed <= available_gb else ": too little; use a smaller model, fewer actors or another dtype"
    return f"{line}; {source}: {available_gb:,.1f} GB{verdict}"


def _available_gb(stage: StageResources) -> float:
    """Return the GB of memory of this machine's GPUs if the stage uses GPUs, else its free memory."""
    from actors.vlm import memory

    return (sum(memory.gpu_bytes()) if stage.num_gpus else memory.free_cpu_bytes()) / GB

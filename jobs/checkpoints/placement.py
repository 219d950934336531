"""Where a job's model runs: checks of device, dtype and memory before Ray starts, and the plan's lines about them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors import devices
from actors.settings import RuntimeOnly
from jobs.errors import InputError
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.config import Common
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.configuration.resources import StageResources
from jobs.runtime.planning.rate_tables import Gpu, expected_gpu, read_prices
from jobs.store.identity import identity_of

GB = 1e9
WORKING_SHARE = 1.2  # memory that an actor needs, as a multiple of its weights; an estimate
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass
class ModelCard:
    """What the options of `conf/` state about a model, besides the settings of the stage that loads it."""

    name: RuntimeOnly[str] = MISSING  # display name
    # rarely: GB that an actor needs with the weights loaded in 16-bit numbers (float32: twice), or in the checkpoint's
    # own form if it is quantised and not dequantised (docs/judging.md); compared with the memory of the machine
    memory_gb: RuntimeOnly[float | None] = None
    # rarely: licence of the weights; shown by plan=true and on the report's page, not checked
    licence: RuntimeOnly[str | None] = None
    gated: RuntimeOnly[bool] = False  # rarely: whether the hub asks to accept the licence, and for HF_TOKEN


@dataclass
class CheckpointConfig(ModelCard):
    """Keys of every model that answers or draws."""

    checkpoint: str = MISSING  # hub name, folder, s3://bucket/folder or local:NAME
    revision: str | None = None  # rarely: of the hub's repository: a branch, tag or commit

    @property
    def identity(self) -> dict[str, Any]:
        """The part of a run's identity that describes the model."""
        return identity_of(self, {"model": self.checkpoint}, instead_of=["checkpoint"])

    @property
    def rater(self) -> str:
        """The model's name in the tables."""
        from actors.vlm.loading import rater_name

        return rater_name(self.checkpoint, revision=self.revision)


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


def dtype_of(model: Any, stage: StageResources) -> str:
    """Return the dtype of a configured model, with `auto` as far as the pool decides it."""
    dtype: str = model.dtype
    return dtype if dtype != "auto" else "bfloat16" if stage.num_gpus else "float32"


def pool_gpu(cfg: Common, stage: StageResources) -> Gpu | None:
    """Return the kind of GPU that a pool's actors get, from `resources.gpu` or the prices; None if unknown."""
    if not stage.num_gpus:
        return None
    prices = read_prices(cfg.resources.prices) if cfg.resources.prices else None
    return expected_gpu(cfg.resources, prices, stage.num_gpus)


def check_fits(cfg: Common, model: Any, *, weights: float | None) -> None:
    """Check that an actor of the pool `judge` has room for the weights of a model, before any machine starts.

    The size of the GPU is that of `conf/gpus.yaml`; where the kind of GPU is unknown, nothing is checked. Without GPUs,
    it is the memory of this machine, unless the run joins a cluster.

    Args:
        model: with `dtype`, and `offload` if weights may be placed outside the GPUs.
        weights: bytes of the weights as the actor loads them; None if unknown.

    Raises:
        InputError: the weights are larger.
    """
    stage = cfg.resources.judge
    if weights is None or getattr(model, "offload", False):
        return
    needed = weights / GB
    is_local = ray_session.address_of(cfg.ray) is None and not cfg.resources.autoscaling
    text = f"its weights take {needed:,.1f} GB in {dtype_of(model, stage)}"
    if gpu := pool_gpu(cfg, stage):
        if needed > gpu.gb * stage.num_gpus:
            number = 2 ** math.ceil(math.log2(needed * WORKING_SHARE / gpu.gb))
            raise InputError(
                f"{text}; an actor has {stage.num_gpus:g} x {gpu.name} with {gpu.gb:g} GB",
                key="model.checkpoint",
                value=model.checkpoint,
                remedy=f"use resources.judge.num_gpus={number}, preferably with engine=vllm, a larger GPU, or a "
                "smaller or quantised model",
            )
    elif not stage.num_gpus and is_local and needed > (total := _machine_gb()):
        raise InputError(
            f"{text}; this machine has {total:,.1f} GB of memory",
            key="model.checkpoint",
            value=model.checkpoint,
            remedy="use a smaller model, model.dtype=bfloat16, or a machine with GPUs (resources=gpu-node)",
        )


def plan_lines(cfg: Common, model: Any, *, fields: Sequence[str] | None = None) -> list[str]:
    """Return the plan's lines about `model`; empty unless plan=true, so that a run does not wait for them.

    Args:
        model: the configuration of a model (`CheckpointConfig`).
        fields: the context fields of the prompts; None: the job has none.
    """
    if not cfg.plan:
        return []
    stage = cfg.resources.judge
    is_local = ray_session.address_of(cfg.ray) is None and not cfg.resources.autoscaling
    gpu = pool_gpu(cfg, stage)
    memory = memory_line(model, stage, available_gb=_available_gb(stage) if is_local else None, gpu=gpu)
    sent = [] if fields is None else [f"prompt columns sent: {', '.join(fields) or 'none'}"]
    return [model_line(model, model.rater), memory, *placing_lines(cfg, model), *sent]


def model_line(model: ModelCard, rater: str) -> str:
    """Return the plan's line about what is stated of a model, `rater` in the tables."""
    from actors.hub import has_token

    gate = ", gated: HF_TOKEN of an account that accepted it" if model.gated else ""
    gate += "; there is none here" if gate and not has_token() else ""
    return f"model  {model.name} ({rater}), licence {model.licence or 'not stated'}{gate}"


def memory_line(model: Any, stage: StageResources, *, available_gb: float | None, gpu: Gpu | None = None) -> str:
    """Compare the memory that the actors of the stage need with the available memory.

    Args:
        available_gb: memory of this machine's GPUs, or without GPUs its free memory; None on a cluster, which a plan
            does not query.
        gpu: the kind of GPU of each actor, if it is known.
    """
    if model.memory_gb is None:
        return "memory not stated (model.memory_gb)"
    dtype = dtype_of(model, stage)
    per_actor = model.memory_gb * (2 if dtype == "float32" else 1)
    actors = stage.most_actors if stage.num_gpus else stage.actors  # a pool on GPUs asks for all at once
    needed = per_actor * actors
    line = f"memory {per_actor:,g} GB per actor in {dtype} x {actors} = {needed:,g} GB"
    if available_gb is not None and (available_gb or gpu is None):
        source = "GPUs of this machine" if stage.num_gpus else "free on this machine"
        verdict = "" if needed <= available_gb else ": too little; use a smaller model, fewer actors or another dtype"
        return f"{line}; {source}: {available_gb:,.1f} GB{verdict}"
    if gpu is None:
        return f"{line}; not compared, because a plan does not query the cluster (resources.gpu= names its GPU)"
    verdict = "" if per_actor <= gpu.gb * stage.num_gpus else (
        f": too little; use resources.judge.num_gpus={math.ceil(per_actor / gpu.gb)} or more, a larger GPU, or a "
        "smaller or quantised model"
    )  # fmt: skip
    return f"{line}; each has {stage.num_gpus:g} x {gpu.name} of {gpu.gb:g} GB{verdict}"


def placing_lines(cfg: Common, model: Any) -> list[str]:
    """Return what makes a run slow because of where its model is placed, with the factor."""
    gpus, engine = cfg.resources.judge.num_gpus, getattr(cfg, "engine", None)
    lines = []
    if gpus > 1 and engine != "vllm":
        alternative = "; engine=vllm uses all at once" if engine is not None else ""
        lines.append(
            f"slow   transformers places the layers on {gpus:g} GPUs in turn, and one of them works at a time: "
            f"{gpus:g} times the GPU-hours{alternative}"
        )
    if getattr(model, "offload", False):
        lines.append("slow   model.offload=true: layers outside the GPUs take about 100 times as long")
    return lines


def _available_gb(stage: StageResources) -> float:
    """Return the GB of memory of this machine's GPUs if the stage uses GPUs, else its free memory."""
    from actors.vlm import memory

    return (sum(memory.gpu_bytes()) if stage.num_gpus else memory.free_cpu_bytes()) / GB


def _machine_gb() -> float:
    import psutil

    return float(psutil.virtual_memory().total) / GB

"""What plan=true says of a model: its licence, and the memory it needs next to the memory there is."""

from jobs.judging.settings import AskingConfig, ModelConfig
from jobs.runtime import ray_session
from jobs.runtime.resources import StageResources

GB = 1e9


def plan_lines(cfg: AskingConfig) -> list[str]:
    """Lines for the shown plan; nothing unless plan=true, so that a run does not wait for them."""
    if not cfg.plan:
        return []
    stage = cfg.resources.judge
    here = ray_session.address_of(cfg.ray) is None
    return [_model(cfg.model), memory_line(cfg.model, stage, available_gb=_available(stage) if here else None)]


def _model(model: ModelConfig) -> str:
    return f"model  {model.name} ({model.rater}), licence {model.licence or 'not stated (model.licence)'}"


def memory_line(model: ModelConfig, stage: StageResources, *, available_gb: float | None) -> str:
    """The memory that all actors of the stage need together, and whether it is there.

    Args:
        available_gb: memory of this machine's GPUs, or without GPUs its free memory; None where it is not known, as of
            a cluster, which is not asked for a plan.
    """
    if model.memory_gb is None:
        return "memory not stated (model.memory_gb)"
    dtype = model.dtype if model.dtype != "auto" else "bfloat16" if stage.num_gpus else "float32"
    each = model.memory_gb * (2 if dtype == "float32" else 1)
    needed = each * stage.actors
    line = f"memory {each:,g} GB an actor in {dtype} x {stage.actors} = {needed:,g} GB"
    if available_gb is None:
        return f"{line}; a cluster's memory is not looked up for a plan"
    where = "GPUs here have" if stage.num_gpus else "free here are"
    verdict = "" if needed <= available_gb else ": too little; take a smaller model, fewer actors or another dtype"
    return f"{line}; {where} {available_gb:,.1f} GB{verdict}"


def _available(stage: StageResources) -> float:
    """GB of this machine: of its GPUs if the stage asks for some, else of its memory that is free."""
    from actors.vlm import memory

    return (sum(memory.gpu_bytes()) if stage.num_gpus else memory.free_cpu_bytes()) / GB

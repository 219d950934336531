"""List the models, encoders and image models that have a name in conf/: memory, licence, gate, engines, tests.

    remine models
    remine models qwen
    remine models memory_gb=24 gated=false
    remine models json=true

memory_gb is what conf/ states for weights in 16-bit numbers, estimated. vLLM is used only where it answers as
transformers does about a sample (`engine_sample=`). `tested` is what a small checkpoint of the architecture gave in
comparison with transformers alone (docs/models.md): `equal` texts and likelihoods, and `naive` if no engine shares the
beginning of prompts. `template` has the variables of the chat template for model.template={…}, if it is on this
machine. A name is a value of `model=`, `embedder=` or `image_model=`.
"""

import difflib
import json
import sys
from dataclasses import dataclass
from typing import Any

from actors.quantities import quantity
from jobs.checkpoints import vlm
from jobs.errors import InputError
from jobs.inventory.found import in_columns
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config_files
from jobs.runtime.process.console import say

# Key that takes the name -> engines of the jobs that have it.
GROUPS = {"model": "transformers, vllm", "embedder": "", "image_model": "diffusers"}
HEADINGS = ("name", "key", "memory", "licence", "gate", "engines", "tested", "template", "checkpoint")


@dataclass
class ModelListConfig:
    """Keys of `models`."""

    name: str | None = None  # only those with this part in their name or checkpoint
    memory_gb: float | None = None  # only those that state at most this much; without a stated memory, none is listed
    gated: bool | None = None  # only those for which the hub asks to accept the licence, or only the others
    json: bool = False  # print one JSON object per model instead of columns


def execute(cfg: ModelListConfig) -> list[dict[str, Any]]:
    """Run the job and return one mapping per model; see the module's docstring.

    Raises:
        InputError: `memory_gb` is not positive, or no model has `name` in its name or checkpoint.
    """
    if cfg.memory_gb is not None and not cfg.memory_gb > 0:
        raise InputError("must be a number of GB above 0", key="memory_gb", value=cfg.memory_gb)
    models = _models()
    if cfg.name is not None and not any(_is_named(cfg, model) for model in models):
        names = {model["name"].casefold(): model["name"] for model in models}
        near = difflib.get_close_matches(cfg.name.casefold(), names, n=3, cutoff=0.4)
        remedy = f"did you mean {', '.join(names[name] for name in near)}?" if near else "remine models lists all"
        raise InputError("no model has this in its name or checkpoint", key="name", value=cfg.name, remedy=remedy)
    models = [model for model in models if _is_named(cfg, model) and _is_wanted(cfg, model)]
    if cfg.json:
        for model in models:
            say(json.dumps(model))
        return models
    for line in in_columns([HEADINGS, *map(_cells, models)], numbers=[2]):
        say(line)
    say(quantity(len(models), "model"))
    return models


def _models() -> list[dict[str, Any]]:
    entries = []
    for group, engines in GROUPS.items():
        for name in config_files.options(group, None):
            keys = config_files.read_option(group, name)[-1][1]
            source = str(keys["checkpoint"])
            entries.append({
                "name": name,
                "key": group,
                "checkpoint": source,
                "revision": keys.get("revision") or keys.get("pretrained"),
                "memory_gb": keys.get("memory_gb"),
                "licence": keys.get("licence"),
                "gated": bool(keys.get("gated")),
                "architecture": keys.get("architecture"),
                "tested": vlm.comparison_summary(keys.get("architecture")),
                "template": _template(source, keys.get("revision")) if group == "model" else None,
                "engines": engines or ("transformers" if source.startswith("transformers:") else "open_clip"),
            })  # fmt: skip
    return entries


def _is_named(cfg: ModelListConfig, model: dict[str, Any]) -> bool:
    part = (cfg.name or "").casefold()
    return part in model["name"].casefold() or part in model["checkpoint"].casefold()


def _is_wanted(cfg: ModelListConfig, model: dict[str, Any]) -> bool:
    fits = cfg.memory_gb is None or (model["memory_gb"] is not None and model["memory_gb"] <= cfg.memory_gb)
    return fits and cfg.gated in (None, model["gated"])


def _cells(model: dict[str, Any]) -> tuple[str, ...]:
    memory = "not stated" if model["memory_gb"] is None else f"{model['memory_gb']:g} GB"
    gate = "gated" if model["gated"] else ""
    return (
        model["name"],
        model["key"],
        memory,
        model["licence"] or "",
        gate,
        model["engines"],
        model["tested"],
        " ".join(model["template"] or ()),
        model["checkpoint"],
    )


def _template(checkpoint: str, revision: str | None) -> list[str] | None:
    """Return the variables of a model's chat template; None if it is not on this machine."""
    from actors.vlm.model_checks import template_variables

    names = template_variables(checkpoint, revision=revision)
    return None if names is None else list(names)


JOB = cli.Job("models", ModelListConfig, execute, positional=("name",), resumes=False)

if __name__ == "__main__":
    sys.exit(cli.main("models"))

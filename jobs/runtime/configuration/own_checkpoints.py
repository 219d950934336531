"""Checkpoints that users choose in place of those of the named options.

The file of `model=qwen2.5-vl-7b` also has the commit, the licence and the memory of its checkpoint. These do not hold
for another checkpoint, so that `model.checkpoint=org/other` drops them, as `embedder.checkpoint=ViT-B-32` drops the
weights of the encoder.
"""

import re
from collections.abc import Iterable, Mapping

from omegaconf import DictConfig, OmegaConf

CHECKPOINT, NAME = "checkpoint", "name"
DESCRIBED = ("revision", "pretrained", "memory_gb", "licence")  # keys that describe the option's checkpoint


def checkpoints(config: DictConfig) -> dict[str, str]:
    """Return the checkpoint of each model of a configuration, by group; interpolations are not resolved."""
    groups = ((name, group) for name, group in config.items_ex(resolve=False) if isinstance(group, DictConfig))
    # A group that is null or an interpolation has no keys.
    models = ((name, dict(group.items_ex(resolve=False))) for name, group in groups if list(group.keys()))
    return {str(name): values[CHECKPOINT] for name, values in models if CHECKPOINT in values}


def forget_descriptions(config: DictConfig, named: Mapping[str, str], keys: Iterable[str]) -> None:
    """Set the descriptions of replaced checkpoints to null, and name these models after their new checkpoints.

    Args:
        config: the configuration with the keys of the command line; modified in place.
        named: `checkpoints` of the configuration without these keys.
        keys: the keys of the command line, which keep their values.
    """
    stays = set(keys)
    for group, checkpoint in checkpoints(config).items():
        if named.get(group) == checkpoint:
            continue
        described: dict[str, str | None] = dict.fromkeys(DESCRIBED)
        if "${" not in checkpoint:
            described[NAME] = re.split("[/:]", checkpoint.rstrip("/"))[-1]
        for name, value in described.items():
            if name in config[group] and f"{group}.{name}" not in stays:
                OmegaConf.update(config, f"{group}.{name}", value)

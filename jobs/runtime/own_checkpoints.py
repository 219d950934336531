"""Checkpoints given by themselves, in place of those that named options have.

The file of `model=qwen2.5-vl-7b` also has the commit, the licence and the memory of its checkpoint. They are not those
of another checkpoint, and `model.checkpoint=org/other` leaves them behind, as `embedder.checkpoint=ViT-B-32` does the
weights of the encoder.
"""

import re
from collections.abc import Iterable, Mapping

from omegaconf import DictConfig, OmegaConf

CHECKPOINT, NAME = "checkpoint", "name"
DESCRIBED = ("revision", "pretrained", "memory_gb", "licence")  # keys that describe the option's checkpoint


def checkpoints(config: DictConfig) -> dict[str, str]:
    """Return the group -> checkpoint of the models of a configuration, interpolations as they are."""
    groups = ((name, group) for name, group in config.items_ex(resolve=False) if isinstance(group, DictConfig))
    # A group that is null or an interpolation has no keys.
    models = ((name, dict(group.items_ex(resolve=False))) for name, group in groups if list(group.keys()))
    return {str(name): values[CHECKPOINT] for name, values in models if CHECKPOINT in values}


def forget_descriptions(config: DictConfig, named: Mapping[str, str], keys: Iterable[str]) -> None:
    """Name the models with other checkpoints than their options have after these, and set what the options say to null.

    Args:
        config: the configuration with the keys of the command line; is changed.
        named: `checkpoints` of the configuration without them.
        keys: of the command line; they stay.
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

"""Speeds of GPUs (`conf/gpus.yaml`), used to convert measurements on one kind of GPU to another."""

import functools
from dataclasses import dataclass

import yaml

from jobs.errors import InputError
from jobs.runtime.configuration.config_files import CONF


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU.

    Attributes:
        tflops: dense products in bfloat16, 10^12 FLOP per second.
        tb_per_s: reads of its memory, 10^12 bytes per second.
    """

    name: str
    tflops: float
    tb_per_s: float

    def times_longer_than(self, other: "Gpu") -> tuple[float, float]:
        """Return how many times as long work takes as on `other`, if limited by products and if limited by memory."""
        return other.tflops / self.tflops, other.tb_per_s / self.tb_per_s


@functools.cache
def read_gpus() -> dict[str, Gpu]:
    """Return the kinds of `conf/gpus.yaml` by name."""
    content = yaml.safe_load((CONF / "gpus.yaml").read_text(encoding="utf-8"))
    return {name: Gpu(name, **figures) for name, figures in content.items()}


def gpu_named(name: str, *, key: str) -> Gpu:
    """Return the kind `name`.

    Args:
        key: the key whose value is `name`, for the message.

    Raises:
        InputError: `conf/gpus.yaml` has no such kind.
    """
    if (gpu := read_gpus().get(name)) is None:
        raise InputError(f"{key}={name}: must be one of {', '.join(read_gpus())} (conf/gpus.yaml), or null")
    return gpu

"""The number of tokens that may pass through a model at once, from a memory budget instead of a batch size."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from actors.devices import GPU_SHARE
from actors.vlm import errors
from actors.vlm.families import layer_configs

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig

    from actors.vlm.model_types import Vlm

SHARE = 0.5  # share of the memory free after loading the weights; the rest is for pictures and other processes
# Longer passes are hardly faster: matrices are large enough for full speed, and memory does not grow with the labels.
# On an H200, passes of 32,768 tokens rated 1 to 5 % more pairs per second than passes of 16,384.
MOST_TOKENS = {"cpu": 4096, "cuda": 32768}
LEAST_TOKENS = 64
ResultT = TypeVar("ResultT")
log = logging.getLogger(__name__)


class BudgetedScorer:
    """Base class of scorers: the bytes that a forward pass may take, halved when the device runs out of memory.

    Attributes:
        label: the model's name in messages.
        budget: bytes.
    """

    model: Vlm
    label: str
    budget: int
    _least_budget: int

    def _set_budget(self, gigabytes: float | None = None) -> None:
        """Set the budget; None: a share of the free memory."""
        self.budget = int((gigabytes or 0) * 1e9) or int(SHARE * free_bytes(self.model.device))
        self._least_budget = least_budget(self.model)

    def _in_budget(self, compute: Callable[[], ResultT]) -> ResultT:
        """Return the result of `compute`, called repeatedly with half the budget while memory is exhausted.

        If it fails even then, the budget is as before: one large prompt must not slow all others.
        """
        before = self.budget
        while True:
            try:
                return compute()
            except Exception as error:
                if not errors.is_out_of_memory(error) or self.budget <= self._least_budget:
                    self.budget = before
                    raise
            # outside the except clause, whose traceback would keep the failed pass's memory alive
            self._halve()

    def _halve(self) -> None:
        import torch

        self.budget = max(self._least_budget, self.budget // 2)
        log.warning("%s: out of memory; the memory budget is halved", self.label)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _raise_if_fatal(self, error: Exception) -> None:
        if errors.is_fatal(error):
            raise errors.EngineError(f"{self.label}: {error}") from error


def gpu_share() -> float:
    """Return the share of its GPU that this process may use; below 1 if others use it too."""
    return float(os.environ.get(GPU_SHARE, "1"))


def free_bytes(device: torch.device) -> int:
    """Return the free memory of `device`; for a CPU, that of the machine or its container.

    On a GPU shared by several processes, this is the process's share less what it has allocated: the free memory
    includes what the others are about to take.
    """
    import torch

    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        allocated = torch.cuda.memory_allocated(device)
        if (share := gpu_share()) < 1:
            return max(0, int(share * total - allocated))
        return int(free + torch.cuda.memory_reserved(device) - allocated)
    return free_cpu_bytes()


def placement() -> dict[int | str, int] | None:
    """Return the largest size of weights per device in bytes, as accelerate's `max_memory`; None: all free memory."""
    share = gpu_share()
    if share == 1 or not (totals := gpu_bytes()):
        return None
    return {number: int(share * total) for number, total in enumerate(totals)} | {"cpu": free_cpu_bytes()}


def free_cpu_bytes() -> int:
    """Return the free memory of the machine, or of its container if that is less."""
    return min(_machine_bytes(), _container_bytes())


def gpu_bytes() -> list[int]:
    """Return the total memory of each GPU of this machine."""
    import torch

    return [torch.cuda.get_device_properties(number).total_memory for number in range(torch.cuda.device_count())]


def key_bytes(config: PretrainedConfig, itemsize: int) -> int:
    """Return the bytes of one token's keys and values over all layers.

    Args:
        config: the config of the text model.
        itemsize: bytes of one number.
    """
    layers = layer_configs(config)
    return sum(2 * _key_heads(layer) * _head_size(layer) * itemsize for layer in layers)


def pass_bytes(config: PretrainedConfig, itemsize: int) -> int:
    """Return the bytes that one token takes in the widest layer: hidden states, projections, attention."""
    layers = layer_configs(config)
    queries = max(_heads(layer) * _head_size(layer) for layer in layers)
    width = 6 * config.hidden_size + 3 * max(map(_feed_forward_size, layers)) + 4 * queries
    # the two parts of cascade attention are merged in float32
    return int(width * itemsize + 3 * 4 * queries)


def _heads(layer: PretrainedConfig) -> int:
    """Return the number of heads; 0 without attention (Mamba)."""
    return int(getattr(layer, "num_attention_heads", None) or 0)


def _key_heads(layer: PretrainedConfig) -> int:
    return int(getattr(layer, "num_key_value_heads", None) or _heads(layer))


def _head_size(layer: PretrainedConfig) -> int:
    return int(getattr(layer, "head_dim", None) or layer.hidden_size // max(1, _heads(layer)))


def _feed_forward_size(layer: PretrainedConfig) -> int:
    """Return the width of the feed-forward network, of all experts of a token (Qwen3.5 MoE has no other).

    Where the config names none (GPT-2, BLOOM, Falcon), it is four times that of the hidden states.
    """
    if size := getattr(layer, "intermediate_size", None):
        return int(max(size) if isinstance(size, list) else size)
    expert = getattr(layer, "moe_intermediate_size", None) or 0
    experts = expert * (getattr(layer, "num_experts_per_tok", None) or 1)
    return int(experts + (getattr(layer, "shared_expert_intermediate_size", None) or 0)) or 4 * int(layer.hidden_size)


def least_budget(model: Vlm) -> int:
    """Return the bytes of the smallest pass; a smaller budget has no effect."""
    return int(LEAST_TOKENS * pass_bytes(model.config.get_text_config(), model.dtype.itemsize))


def tokens_per_pass(model: Vlm, *, budget: int, prefix: int, width: int, kind: str, state_bytes: int = 0) -> int:
    """Return how many tokens of suffixes fit into one pass.

    Args:
        budget: bytes.
        prefix: tokens of the prefix.
        width: tokens of the widest row.
        kind: `cascade` or `batched` (`actors.vlm.shared_prefix`).
        state_bytes: bytes of the states of all layers, which each row has.
    """
    config = model.config.get_text_config()
    itemsize = model.dtype.itemsize
    per_token = pass_bytes(config, itemsize) + state_bytes / max(1, width)
    if kind == "batched":
        # The prefix's keys of a layer are copied for each row, once joined and once for each head.
        keys = key_bytes(config, itemsize) / config.num_hidden_layers
        groups = max(_heads(layer) / max(1, _key_heads(layer)) for layer in layer_configs(config))
        per_token += prefix * keys * (1 + groups) / max(1, width)
    most = MOST_TOKENS.get(model.device.type, MOST_TOKENS["cpu"])
    return max(LEAST_TOKENS, min(most, int(budget / per_token)))


def packed_tokens(model: Vlm, *, budget: int) -> int:
    """Return how many tokens of several items may pass as one sequence while another one is in flight.

    The keys and values of both are kept for a while.
    """
    config = model.config.get_text_config()
    per_token = 2 * (pass_bytes(config, model.dtype.itemsize) + key_bytes(config, model.dtype.itemsize))
    most = MOST_TOKENS.get(model.device.type, MOST_TOKENS["cpu"])
    return max(LEAST_TOKENS, min(most, int(budget / per_token)))


def _machine_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _container_bytes() -> int:
    """Return what the container (cgroup version 2) may still allocate; without one, more than any machine has."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit, used = ((folder / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return 1 << 62

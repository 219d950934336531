"""Bytes and tokens of a small model, computed by hand."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.vlm import memory
from tests.cases import check_cases

# 2 layers, 4 heads of 8 numbers, 2 of them for keys; float16.
CONFIG = SimpleNamespace(
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    hidden_size=40,
    intermediate_size=100,
)
CONFIG.get_text_config = lambda: CONFIG
MODEL = SimpleNamespace(config=CONFIG, dtype=SimpleNamespace(itemsize=2), device=SimpleNamespace(type="cpu"))
# 6 x 40 + 3 x 100 + 4 x 4 x 8 numbers of 2 bytes, and 3 x 4 x 8 of 4.
PASS = (240 + 300 + 128) * 2 + 96 * 4


def test_bytes_of_a_token() -> None:
    assert memory.key_bytes(CONFIG, 2) == 2 * 2 * 2 * 8 * 2
    assert memory.pass_bytes(CONFIG, 2) == PASS == 1720
    assert memory.least_budget(MODEL) == memory.LEAST_TOKENS * PASS
    # Without key heads and a head size, each head has its keys, and its share of the hidden size.
    plain = SimpleNamespace(num_hidden_layers=2, num_attention_heads=4, hidden_size=40, intermediate_size=100)
    assert memory.key_bytes(plain, 2) == 2 * 2 * 4 * 10 * 2
    assert memory.pass_bytes(plain, 2) == (240 + 300 + 4 * 40) * 2 + 3 * 4 * 40


def test_widths_of_feed_forward_networks() -> None:
    """Not every config has `intermediate_size`, or attention."""
    sizes = {"num_hidden_layers": 2, "hidden_size": 40}
    cases: list[tuple[dict[str, Any], int]] = [
        ({"intermediate_size": [30, 100]}, 100),  # Gemma 3n
        ({"moe_intermediate_size": 10, "num_experts_per_tok": 3, "shared_expert_intermediate_size": 5}, 35),
        ({"moe_intermediate_size": 10}, 10),
        ({}, 160),
    ]

    def check(more: dict[str, Any], width: int) -> None:
        assert memory.pass_bytes(SimpleNamespace(**sizes, **more), 2) == (240 + 3 * width) * 2
        assert memory.key_bytes(SimpleNamespace(**sizes, **more), 2) == 0

    check_cases(check, cases)


def test_tokens_of_a_pass() -> None:
    cases = [
        (PASS * 100, "cascade", 100),
        (PASS * 101 - 1, "cascade", 100),
        (PASS * 10, "cascade", 64),
        (PASS * 10**6, "cascade", 4096),
        # Each row of 16 tokens has a copy of the prefix' 1000 keys of a layer (64 bytes), and one for twice the heads.
        (round((PASS + 1000 * 64 * 3 / 16) * 100), "batched", 100),
    ]

    def check(budget: int, kind: str, tokens: int) -> None:
        assert memory.tokens_per_pass(MODEL, budget=budget, prefix=1000, width=16, kind=kind) == tokens

    check_cases(check, cases)
    states = {"width": 16, "state_bytes": 16 * PASS}  # a row's states take as much as its tokens
    assert memory.tokens_per_pass(MODEL, budget=PASS * 200, prefix=9, kind="cascade", **states) == 100


def test_a_gpu_takes_longer_passes() -> None:
    for device, most in (("cuda", 32768), ("cpu", 4096), ("mps", 4096)):
        model = SimpleNamespace(**{**vars(MODEL), "device": SimpleNamespace(type=device)})
        assert memory.tokens_per_pass(model, budget=PASS * 10**6, prefix=9, width=9, kind="cascade") == most
        assert memory.packed_tokens(model, budget=PASS * 10**6) == most


def test_tokens_of_a_packed_pass() -> None:
    """The keys of a token are 128 bytes, and there are two passes at a time."""
    token = 2 * (PASS + 128)
    budgets = {token * 100: 100, token * 101 - 1: 100, token * 64: 64, token * 63: 64, token * 4097: 4096}
    assert {budget: memory.packed_tokens(MODEL, budget=budget) for budget in budgets} == budgets


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   3000 kB\n"}, 3000 * 1024),
        ({"proc/meminfo": "MemAvailable: 3000 kB", "memory.max": "5000\n", "memory.current": "1000\n"}, 4000),
        ({"proc/meminfo": "MemAvailable: 3000 kB", "memory.max": "max\n", "memory.current": "1000\n"}, 3000 * 1024),
        ({"proc/meminfo": "MemAvailable: 3000 kB", "memory.max": "500", "memory.current": "1000"}, 0),
        ({}, 7 * 11 // 2),  # half of the pages
    ],
)
def test_free_memory_of_the_machine_or_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], free: int
) -> None:
    folder = tmp_path / "sys/fs/cgroup"
    folder.mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    for name, text in files.items():
        (tmp_path / name if "/" in name else folder / name).write_text(text)
    names: dict[str, Any] = {"SC_PAGE_SIZE": 7, "SC_PHYS_PAGES": 11}
    monkeypatch.setattr(os, "sysconf", names.__getitem__)
    monkeypatch.setattr(memory, "Path", lambda path: tmp_path / path.lstrip("/"))
    assert memory.free_cpu_bytes() == free


def test_actors_that_share_a_gpu_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    total, weights = 80 << 30, 16 << 30
    device: Any = SimpleNamespace(type="cuda")
    cuda = memory_of_gpu(monkeypatch, total=total, free=total - weights - 9, allocated=weights, reserved=weights + 9)
    assert (memory.gpu_share(), memory.placement()) == (1, None)
    assert memory.free_bytes(device) == total - weights  # also what torch has reserved and does not use
    monkeypatch.setenv("REMINE_GPU_SHARE", "0.5")
    # Also where the other one has not loaded its weights yet.
    assert 2 * (memory.free_bytes(device) + weights) == total
    cuda["free"] = 0
    assert 2 * (memory.free_bytes(device) + weights) == total
    cuda["allocated"] = total
    assert memory.free_bytes(device) == 0
    monkeypatch.setattr(memory, "free_cpu_bytes", lambda: 7)
    assert memory.placement() == {0: total // 2, "cpu": 7}
    monkeypatch.setattr(memory, "gpu_bytes", lambda: [total, total + 2])
    assert memory.placement() == {0: total // 2, 1: total // 2 + 1, "cpu": 7}
    monkeypatch.setattr(memory, "gpu_bytes", list)
    assert memory.placement() is None
    assert memory.SHARE == 0.5


def memory_of_gpu(monkeypatch: pytest.MonkeyPatch, **numbers: int) -> dict[str, int]:
    """Return one GPU with these bytes; the result can be changed."""
    import torch

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (numbers["free"], numbers["total"]))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: numbers["allocated"])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: numbers["reserved"])
    monkeypatch.setattr(memory, "gpu_bytes", lambda: [numbers["total"]])
    return numbers

"""plan=true prints the memory that a model needs and its licence."""

import pytest

from actors.vlm import memory
from jobs.judging.settings import AskingConfig
from jobs.models import plan
from jobs.models.vlm import ModelConfig
from jobs.runtime.configuration.config import RayConfig
from jobs.runtime.configuration.resources import Resources, StageResources
from tests.cases import check_cases

JUDGE = ModelConfig(name="seven", checkpoint="me/seven", revision="abc", memory_gb=20, licence="Gemma Terms of Use")


def test_memory_next_to_what_there_is() -> None:
    cases = [
        ("auto", StageResources(actors=1, num_gpus=1), 24.0, ["20 GB per actor in bfloat16 x 1 = 20 GB", "24.0 GB"]),
        ("auto", StageResources(actors=1, num_gpus=1), 20.0, ["GPUs of this machine: 20.0 GB"]),
        ("auto", StageResources(actors=2, num_gpus=1), 24.0, ["x 2 = 40 GB", "too little"]),
        ("float32", StageResources(actors=1, num_gpus=1), 24.0, ["40 GB per actor in float32", "too little"]),
        ("auto", StageResources(actors=1), 64.0, ["40 GB per actor in float32", "free on this machine: 64.0 GB"]),
        ("bfloat16", StageResources(actors=1), 15.0, ["20 GB per actor in bfloat16", "too little"]),
        ("auto", StageResources(actors=3, num_gpus=1), None, ["x 3 = 60 GB", "not compared"]),
    ]

    def check(dtype: str, stage: StageResources, available: float | None, parts: list[str]) -> None:
        judge = ModelConfig(name="seven", checkpoint="me/seven", dtype=dtype, memory_gb=20)
        line = plan.memory_line(judge, stage, available_gb=available)
        assert all(part in line for part in parts), line
        assert ("too little" in line) == ("too little" in parts)

    check_cases(check, cases)


def test_lines_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(memory, "free_cpu_bytes", lambda: 10**10)
    monkeypatch.setattr(memory, "gpu_bytes", lambda: [80 * 10**9, 80 * 10**9])
    cfg = AskingConfig(out="o", input="i", model=JUDGE, plan=True)
    model, needs = plan.plan_lines(cfg, cfg.model)
    assert "me/seven@abc" in model
    assert "Gemma Terms of Use" in model
    assert "10.0 GB: too little" in needs
    cfg.resources = Resources(judge=StageResources(num_gpus=1))
    assert "160.0 GB" in plan.plan_lines(cfg, cfg.model)[1]
    cfg.ray = RayConfig(address="auto")  # a cluster's machines are not this one
    assert "not compared" in plan.plan_lines(cfg, cfg.model)[1]
    cfg.ray, cfg.resources = RayConfig(), Resources(judge=StageResources(num_gpus=1), autoscaling=True)
    assert "not compared" in plan.plan_lines(cfg, cfg.model)[1]  # nor are those that it will start
    cfg.model = ModelConfig(name="own", checkpoint="/models/own")
    assert [line.count("not stated") for line in plan.plan_lines(cfg, cfg.model)] == [1, 1]
    cfg.plan = False
    assert plan.plan_lines(cfg, cfg.model) == []

"""Device and dtype are checked before a run, and a plan prints the memory that a model needs."""

from pathlib import Path
from typing import Any

import pytest

from actors.vlm import memory
from jobs.checkpoints import placement
from jobs.checkpoints.vlm import ModelConfig
from jobs.errors import InputError
from jobs.judging.model_config import AskingConfig
from jobs.runtime.cluster import ray_session
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.resources import RayConfig, Resources, StageResources
from tests.cases import check_cases
from tests.factories import picture, write_table


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of a run that would be done, were it not refused; no Ray can start."""

    def started(*_: Any) -> None:
        raise AssertionError("a Ray was started")

    monkeypatch.setattr(ray_session, "start", started)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    images = write_table(str(tmp_path / "images"), "images", [picture(1)])
    return [f"input={images}", "embedder=local-tiny", f"out={tmp_path}/out"]


@pytest.mark.parametrize("job", ["embed", "zero_shot"])
@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("device=zzz", "embedder.device=zzz: must be auto, "),
        ("device=cuda:1", "embedder.device=cuda:1: "),
        ("dtype=int3", "embedder.dtype=int3: must be one of auto, "),
    ],
)
def test_embedders(asked: list[str], job: str, key: str, message: str) -> None:
    more = ["targets=[Japan]"] if job == "zero_shot" else []
    with pytest.raises(InputError) as caught:
        cli.execute(job, [*asked, *more, f"embedder.{key}"])
    assert message in str(caught.value)


def test_a_plan_and_a_cluster_may_have_what_this_machine_has_not(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main("embed", [*asked, "embedder.device=cuda", "plan=true"]) == 0
    assert cli.main("embed", [*asked, "embedder.device=zzz", "plan=true"]) == 2
    with pytest.raises(AssertionError, match="a Ray was started"):
        cli.execute("embed", [*asked, "embedder.device=cuda", "ray.address=10.0.0.1:6379"])


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
        line = placement.memory_line(judge, stage, available_gb=available)
        assert all(part in line for part in parts), line
        assert ("too little" in line) == ("too little" in parts)

    check_cases(check, cases)


def test_lines_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(memory, "free_cpu_bytes", lambda: 10**10)
    monkeypatch.setattr(memory, "gpu_bytes", lambda: [80 * 10**9, 80 * 10**9])
    cfg = AskingConfig(out="o", input="i", model=JUDGE, plan=True)
    model, needs = placement.plan_lines(cfg, cfg.model)
    assert "me/seven@abc" in model
    assert "Gemma Terms of Use" in model
    assert "10.0 GB: too little" in needs
    cfg.resources = Resources(judge=StageResources(num_gpus=1))
    assert "160.0 GB" in placement.plan_lines(cfg, cfg.model)[1]
    cfg.ray = RayConfig(address="auto")  # a cluster's machines are not this one
    assert "not compared" in placement.plan_lines(cfg, cfg.model)[1]
    cfg.ray, cfg.resources = RayConfig(), Resources(judge=StageResources(num_gpus=1), autoscaling=True)
    assert "not compared" in placement.plan_lines(cfg, cfg.model)[1]  # nor are those that it will start
    cfg.model = ModelConfig(name="own", checkpoint="/models/own")
    assert [line.count("not stated") for line in placement.plan_lines(cfg, cfg.model)] == [1, 1]
    cfg.plan = False
    assert placement.plan_lines(cfg, cfg.model) == []

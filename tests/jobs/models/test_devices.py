"""A device or dtype that there is not is refused before a Ray starts, whichever job is asked."""

from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.cluster import ray_session
from jobs.runtime.command_line import cli
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

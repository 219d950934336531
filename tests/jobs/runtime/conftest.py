"""The board of tests without Ray."""

import pytest

from jobs.runtime import attempts
from jobs.runtime.attempts import Device
from tests.jobs.runtime.ending_stage import LocalBoard


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> LocalBoard:
    monkeypatch.setattr(attempts, "device_of_process", lambda: Device("10.0.0.7", "n", ("0",), 1.0))
    monkeypatch.setattr(attempts, "_cluster_gpus", lambda: 1.0)
    monkeypatch.setattr(attempts, "_actor", lambda _: "a1")
    return LocalBoard()

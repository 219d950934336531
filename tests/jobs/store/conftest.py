"""Places for the tables of the store's tests, and processes that write them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.store.racing import Racer


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "out")


@pytest.fixture
def racers() -> Iterator[list[Racer]]:
    """Processes that a test adds; they end with it."""
    started: list[Racer] = []
    yield started
    for racer in started:
        racer.process.kill()
        racer.process.communicate()

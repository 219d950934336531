"""Places for the tables of the store's tests."""

from pathlib import Path

import pytest


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "out")

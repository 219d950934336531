"""Places for the tables of the store's tests."""

from pathlib import Path

import pytest


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "out")


@pytest.fixture(params=["local", "s3"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "out")
    return f"{request.getfixturevalue('s3')}/{tmp_path.name}/out"

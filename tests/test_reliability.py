"""Each test that docs/reliability.md names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_tests_of_the_table_exist() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > 20
    missing = [f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / file).read_text("utf-8")]
    assert missing == []

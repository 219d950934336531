"""tests/RELIABILITY.md names tests that exist, and has the tables of the results that were recorded."""

import json
import re
from pathlib import Path

import pytest

from tests import reliability, soak

ROOT = Path(__file__).parents[1]


def test_the_tests_of_the_table_exist() -> None:
    text = reliability.PAGE.read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > 20
    missing = [f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / file).read_text("utf-8")]
    assert missing == []


def test_the_page_has_the_tables_of_the_results() -> None:
    text, results = reliability.PAGE.read_text(encoding="utf-8"), reliability.read_results()
    assert reliability.page(text, results) == text, "run python -m tests.reliability"
    assert {result["attack"] for result in results} <= reliability.TABLES.keys()


def test_a_soak_fails_for_what_grows_after_its_first_rounds_only() -> None:
    flat = [dict.fromkeys(soak.ALLOWED, 100) for _ in range(10)]
    assert soak.growing(flat) == {}
    warm_up = [{**figures, "driver MB": 100 + 50 * min(n, soak.WARM_UP)} for n, figures in enumerate(flat)]
    one_high = [{**figures, "threads": 900 if n == 6 else 100} for n, figures in enumerate(flat)]
    assert soak.growing(warm_up) == soak.growing(one_high) == {}
    leak = [{**figures, "temporary files": 3 * n, "workers MB": 100 + 5 * n} for n, figures in enumerate(flat)]
    assert soak.growing(leak) == {"temporary files": 3.0}
    assert soak.growing(leak[: soak.WARM_UP + soak.LEAST_ROUNDS - 1]) == {}  # too few to tell


def test_results_are_appended_and_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "results.jsonl"
    reliability.record("signals", signal="SIGTERM", job="mine", runs=1)  # without a file nothing is kept
    monkeypatch.setenv("REMINE_RESULTS", str(file))
    for longest in (3.5, 2.0):
        reliability.record("signals", signal="SIGTERM", job="mine", runs=1, **{"longest (s)": longest})
    results = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(results) == 2
    assert "| SIGTERM | mine | 2 | 3.5 |" in reliability.tables(results)
    assert reliability.page(f"a{reliability.BEGIN}old{reliability.END}z", []) == (
        f"a{reliability.BEGIN}\n\n\n{reliability.END}z"
    )

"""The full size that a rehearsal's table states, and the rows that it misses."""

from typing import Any

import pytest

from jobs.runtime.planning.rate_tables import Machine, Prices
from jobs.testbed.synthetic import CorpusFacts
from tests import rehearsal
from tests.rehearsal import Step

PRICES = Prices(
    "2026", "here", "USD", (Machine("head", 9.0, head=True), Machine("c16", 0.8, 16), Machine("g1", 2.0, 8, 1, "L40S"))
)
FACTS = CorpusFacts(
    files={"a": 60}, rows=60, english=50, matched=40, main_image=35, single_image_pages=30, https=25, unique_images=20,
    surviving=(), planned=(), pictures=16, broken=(), missing=(),
)  # fmt: skip


def full_size(job: str, small: tuple[int, float], large: tuple[int, float]) -> list[str]:
    return rehearsal.table([[Step(job, *small, {})], [Step(job, *large, {})]], PRICES)[1].split()


def test_the_start_of_processes_does_not_grow_with_the_rows() -> None:
    # 300 more rows took 6 s: 11.5 M take 230,000 s on 16 cores
    line = full_size("curate", (100, 12.0), (400, 18.0))
    assert line[:7] == ["curate", "400", "18.0", "20", "11,500,000", f"{230_000 / 3600 / 16:.3f}", "3.19"]


def test_measured_rates_count_where_there_are_some() -> None:
    # 12.9 s for 200 x 5 M x 768 on cores; 34.6 s for 1,500 pictures on an H200, whose products are 989 / 362 as fast
    searched = full_size("retrieve", (1, 1.0), (2, 99.0))
    assert float(searched[5]) == pytest.approx(12.9 * 1_280 / 5 / 3600 / 16, rel=0.01)
    judged = full_size("judge", (1, 1.0), (2, 99.0))
    assert float(judged[5]) == pytest.approx(34.6 / 1500 * 11_500_000 * 989 / 362 / 3600, rel=0.01)


def test_rows_that_cost_less_than_the_noise_have_no_figure() -> None:
    line = full_size("report", (100, 12.0), (400, 11.0))
    assert line[3:9] == ["-3.33", "11,500,000", "-", "-", "no", "difference,"]


def test_rows_that_are_missing_are_named() -> None:
    counts: dict[str, dict[str, Any]] = {
        "mine": {"rows_in": 60, "rows_out": 40}, "curate": {"rows_out": 20}, "retrieve": {"rows_out": 1600},
        "fetch": {"rows_out": 20, "status": {"ok": 16}}, "embed": {"status": {"ok": 16}},
        "judge": {"status": {"ok": 127, "error": 1}},
    }  # fmt: skip
    steps = [Step(job, 0, 0.0, counted) for job, counted in counts.items()]
    assert rehearsal.differences(FACTS, steps, questions=8) == ["judge: rows that are ok: 127 instead of 128"]

"""A line a stage: what is done, how fast, how long it will take, what went wrong."""

from collections import Counter
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime import progress
from jobs.runtime.board import Reporter, StageCounts, Totals, board_options
from jobs.runtime.progress import INTERVAL, SUBMITTED, StageProgress, line, line_interval
from tests.cases import check_cases
from tests.jobs.runtime.ending_stage import LocalBoard


def test_lines() -> None:
    cases = [
        (StageProgress("embed", 1000, done=250), 10.0, "embed        250/1,000 rows  25.0 rows/s  0:30 left"),
        (StageProgress("decode", 4000, done=1), 2.0, "embed decode 1/4,000 rows  0.5 rows/s  2:13:18 left"),
        (StageProgress("embed", 10, done=10), 4.0, "embed        10/10 rows  2.5 rows/s"),
        (StageProgress("embed", 10, done=12), 4.0, "embed        12/10 rows  3.0 rows/s"),
        (StageProgress("embed", 10), 4.0, "embed        0/10 rows  0.0 rows/s"),
        (
            StageProgress("judge", 9, notes=Counter(tokens=2400)),
            4.0,
            "embed judge  0/9 rows  0.0 rows/s  2,400 tokens (600/s)",
        ),
        (StageProgress("embed", 0), 4.0, "embed        0/0 rows  0.0 rows/s"),
        (StageProgress("embed", None, unit="MB", done=5), 2.0, "embed        5 MB  2.5 MB/s"),
        (
            StageProgress("embed", 50, unit="MB", done=20, notes=Counter(rows=2500, matched=2)),
            2.0,
            "embed        20/50 MB  10.0 MB/s  0:03 left  2 matched  2,500 rows (1,250/s)",
        ),
        (
            StageProgress("embed", None, done=4, errors=1234, notes=Counter(rows=1000, matched=2)),
            2.0,
            "embed        4 rows  2.0 rows/s  2 matched  1,000 rows  1,234 errors",
        ),
    ]

    def check(stage: StageProgress, seconds: float, expected: str) -> None:
        stage.first, stage.changed = (0.0, 0), seconds
        assert line(stage, seconds, now=seconds, job="embed") == expected

    check_cases(check, cases)


@pytest.mark.parametrize("done", [0, 5])
def test_no_time_and_nothing_done_divide_nothing_by_zero(done: int) -> None:
    stage = StageProgress("embed", 10, done=done, first=(0.0, 0))
    assert line(stage, 0.0, now=0.0, job="embed").startswith(f"embed        {done}/10 rows")


def test_time_left_counts_down_between_batches() -> None:
    """Batches of 4 rows end every 20 s, the first one 50 s after the start."""
    with_tokens, silent = StageProgress("generate", 40), StageProgress("generate", 40)
    left: dict[int, list[float | None]] = {}
    for now in range(0, 120, 10):
        done = 0 if now < 50 else 4 * (1 + (now - 50) // 20)
        tokens = Counter(tokens=100 * (now - 30)) if now > 30 else Counter[str]()
        with_tokens.read(done, 0, tokens, now=float(now))
        silent.read(done, 0, Counter(), now=float(now))
        left[now] = [with_tokens.left(float(now)), silent.left(float(now))]
    assert [left[now] for now in (30, 40, 60)] == [[None, None], [None, None], [170.0, None]]
    assert [left[now][1] for now in (70, 80, 90, 100)] == [160.0, 150.0, 140.0, 130.0]
    assert [left[now][0] for now in (50, 70, 90, 110)] == [180.0, 160.0, 140.0, 120.0]
    silent.read(40, 0, Counter(), now=300.0)
    assert silent.left(300.0) is None
    assert StageProgress("mine", None, done=3).left(1.0) is None


def test_a_submitted_job_prints_a_line_per_minute_unless_the_environment_says_otherwise() -> None:
    assert line_interval({}) == 10.0
    assert line_interval({SUBMITTED: "{}"}) == 60.0
    assert line_interval({SUBMITTED: "{}", INTERVAL: "0.5"}) == 0.5
    for wrong in ("", "0", "-1", "nan", "inf", "1m"):
        with pytest.raises(InputError, match=f"^REMINE_LINE_EVERY_S={wrong}: "):
            line_interval({INTERVAL: wrong})


def test_a_reporter_gathers_and_loses_nothing() -> None:
    board, other = LocalBoard(), LocalBoard()
    Reporter(other, "mine").add(5)
    reporter = Reporter(board, "mine")
    for _ in range(500):
        reporter.add(2, errors=1, matched=3)
    reporter.flush()
    reporter.flush()
    assert board.of(StageCounts).read()[1] == {"mine": (1000, 500, Counter(matched=1500))}
    assert len(board.told[StageCounts]) < 11
    assert other.of(StageCounts).read()[1] == {"mine": (5, 0, Counter())}
    Reporter(None, "mine").add(1)  # without a board it is silent


def test_a_board_that_restarts_elsewhere_loses_no_counts() -> None:
    totals, first, second = Totals(), StageCounts(), StageCounts()
    first.add("judge", 5, 1, {"tokens": 7})
    assert totals.update(*first.read()) == {"judge": (5, 1, Counter(tokens=7))}
    assert totals.update(*first.read()) == {"judge": (5, 1, Counter(tokens=7))}
    assert totals.update(*second.read()) == {"judge": (5, 1, Counter(tokens=7))}
    second.add("judge", 2, 0, {"tokens": 1})
    second.add("decode", 3, 0, {})
    assert totals.update(*second.read()) == {"judge": (7, 1, Counter(tokens=8)), "decode": (3, 0, Counter())}
    options = board_options("0" * 56)
    assert options["max_restarts"] == -1
    assert options["scheduling_strategy"].soft


def test_the_facts_of_a_stage_are_its_counts() -> None:
    stage = StageProgress("judge", 9, done=3, errors=2, notes=Counter(tokens=5))
    assert stage.facts() == {
        "stage": "judge", "done": 3, "total": 9, "unit": "rows", "errors": 2, "counts": {"tokens": 5}
    }  # fmt: skip


def test_seconds_that_are_left_are_rounded() -> None:
    stage = StageProgress("embed", 10, done=1, first=(0.0, 0), changed=3.3)
    assert line(stage, 3.3, now=3.3, job="embed").endswith("  0:30 left")  # 29.7 s
    stage.changed = 400.0
    assert line(stage, 400.0, now=400.4, job="embed").endswith("  1:00:00 left")  # 3599.6 s


def test_the_rate_of_a_stage_is_since_its_first_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.time, "monotonic", lambda: 110.0)
    printed: Any = object.__new__(progress.Progress)
    printed._job, printed._begun = "judge", 10.0
    printed._stages = [StageProgress("judge", None, done=50, since=since) for since in (0.0, 60.0)]
    assert [text.split("  ")[-1] for text in printed.lines()] == ["0.5 rows/s", "1.0 rows/s"]

"""Where the seconds of a command went: phases of the driver, and of workers."""

from jobs.runtime.timings import FIRST, START, Measured, Phases, WorkerTimes


class Board:
    """Takes what a worker reports at once."""

    def __init__(self) -> None:
        self.measured = Measured()

    def tell(self, method: str, *arguments: object) -> None:
        getattr(self.measured, method)(*arguments)


def test_phases_follow_one_another_and_workers_come_last() -> None:
    phases = Phases(lambda: 100.0)
    phases.mark("imports", 101.25)
    phases.mark("Ray", 107.5)
    phases.add_workers({"Judge": {START: 5.0, FIRST: 0.25}})
    assert not phases.is_shown
    assert phases.take_lines() == [
        "time     1.2 s  imports",
        "time     6.2 s  Ray",
        "time            Judge: start 5.0 s, first batch 0.2 s",
    ]
    phases.mark("stages", 108.5)
    assert phases.take_lines() == ["time     1.0 s  stages"]  # of the next step of a pipeline


def test_a_worker_reports_its_start_and_its_first_batch() -> None:
    board = Board()
    times = WorkerTimes(board, "Judge")
    times.end()
    for _ in range(3):
        times.begin()
        times.end()
    spent = board.measured.spent()
    assert list(spent["Judge"]) == [START, FIRST]
    board.measured.spend("Judge", START, 1000.0)
    board.measured.spend("Judge", START, 1.0)
    assert board.measured.spent()["Judge"][START] == 1000.0
    WorkerTimes(None, "Judge").end()

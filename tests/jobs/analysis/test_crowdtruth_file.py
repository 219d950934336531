"""Judgements of a file -> the vectors of CrowdTruth: which judgement and annotations count."""

from typing import Any

import pyarrow as pa
import pytest

from jobs.analysis.from_file import crowdtruth as module
from jobs.analysis.from_file.config import AnalyzeConfig
from jobs.errors import InputError
from jobs.metrics.question import MAX_LINES
from jobs.runtime.configuration.config import load
from jobs.runtime.selection.exclusions import ExclusionFilter

Judgement = tuple[str | None, str | None, str | None]


@pytest.fixture
def task_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function from judgements (unit, worker, cell), in batches of two, to what CrowdTruth gets."""

    class Task:
        def __init__(self, **values: Any) -> None:
            self.__dict__ |= values

        def metrics(self, stop: float) -> list[Any]:
            return [self]

    monkeypatch.setattr(module, "CrowdTruthTask", Task)

    def task(judgements: list[Judgement], *keys: str) -> Any:
        rows = [dict(zip(("item", "rater", "value"), row, strict=True)) for row in judgements]
        schema = pa.schema([(name, pa.string()) for name in ("item", "rater", "value")])
        batches = [pa.Table.from_pylist(rows[n : n + 2], schema=schema) for n in range(0, len(rows), 2)]
        monkeypatch.setattr(module, "read_rows", lambda *_: iter(batches))
        cfg = load("analyze", AnalyzeConfig, ["input=F", "out=O", "task=crowdtruth", *keys])
        return module.crowdtruth(cfg, "F", {}, ExclusionFilter(frozenset())).metrics[0]

    return task


def test_the_last_judgement_with_an_annotation_counts(task_of: Any, capsys: pytest.CaptureFixture[str]) -> None:
    task = task_of(
        [("u", "w", "a"), ("v", "w", " b "), ("u", "x", ""), ("u", "w", "b"), ("v", "w", None), ("t", "y", "a")]
    )
    assert (task.units, task.workers, list(task.annotations)) == (["t", "u", "v"], ["w", "x", "y"], ["a", "b"])
    assert list(zip(task.unit.tolist(), task.worker.tolist(), task.vectors.tolist(), strict=True)) == [
        (1, 0, [0, 1]), (2, 0, [0, 1]), (0, 2, [1, 0]),
    ]  # fmt: skip
    assert (task.asked_of_unit.tolist(), task.asked_of_worker.tolist()) == ([1, 3, 2], [4, 1, 1])
    assert "3 of 6 judgements do not count" in capsys.readouterr().out
    task_of([("u", "w", "a"), ("v", "w", "b")])
    assert capsys.readouterr().out == ""


def test_cells_with_several_annotations_and_with_none(task_of: Any) -> None:
    judgements: list[Judgement] = [("u", "w", "b; a;;a"), ("v", "w", ";"), ("u", "x", None)]
    assert task_of(judgements, "separator=';'").vectors.tolist() == [[1, 1]]
    with_none = task_of(judgements, "separator=';'", "empty=none")
    assert list(with_none.annotations) == ["a", "b", "none"]
    assert with_none.vectors.tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert list(task_of(judgements[:1]).annotations) == ["b; a;;a"]


def test_a_closed_list_has_its_order_and_annotations_that_nobody_picked(task_of: Any) -> None:
    judgements: list[Judgement] = [("u", "w", "b"), ("u", "x", "a")]
    task = task_of(judgements, "annotations=[c,b,a]")
    assert (list(task.annotations), task.vectors.tolist()) == (["c", "b", "a"], [[0, 1, 0], [0, 0, 1]])
    with pytest.raises(InputError, match=r"F: annotation 'b' is not in annotations=\['a', 'c'\]"):
        task_of(judgements, "annotations=[a,c]")


def test_a_task_with_too_many_annotations_is_not_closed(task_of: Any) -> None:
    judgements: list[Judgement] = [("u", f"w{n}", f"a{n}") for n in range(MAX_LINES + 1)]
    assert len(task_of(judgements[:-1]).annotations) == MAX_LINES
    with pytest.raises(InputError, match=f"F: {MAX_LINES + 1} different annotations, more than {MAX_LINES}"):
        task_of(judgements)

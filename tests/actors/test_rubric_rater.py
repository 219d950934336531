"""Rows of a batch of prepared items: their order, items that cannot be rated, and how long the device took."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import torch

from actors import rubric_rater, schemas
from actors.items import asked_pairs, default_targets, item_targets
from actors.rubric_rater import PreparedItem, RubricRater
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import Question
from actors.schemas import RatingRow
from actors.vlm.errors import EngineError
from actors.vlm.loading import RaterFacts
from actors.vlm.model_inputs import to_bytes
from actors.vlm.settings import RubricSettings

RUBRIC = {
    "name": "mood",
    "targets": ["joy", "fear"],
    "questions": [
        {"name": "shown", "text": "How strongly?", "answers": [1, 2]},
        {"name": "people", "text": "Are there people?", "answers": ["yes", "no"], "targets": False},
    ],
}
OWN = {
    **RUBRIC,
    "name": "own",
    "targets": [],
    "questions": [{"name": "*", "text": "A question of the set", "answers": ["yes", "no"]}],
}
INPUTS = to_bytes({"input_ids": torch.tensor([[1, 2]])})


class Clock:
    """Seconds that pass only while items are rated, and before a batch."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now


class Rater(RubricRater):
    """Rates each item 1, in a quarter of a second; ids that begin with `bad` cannot be rated."""

    def __init__(
        self,
        clock: Clock,
        *,
        together: int | None,
        targets: Sequence[str] | None = None,
        rubric: dict[str, Any] = RUBRIC,
        condition: str = "",
    ) -> None:
        self.clock, self.items_at_once, self.calls = clock, together, list[list[str]]()
        unused: Any = None
        super().__init__(RubricSettings(rubric=rubric, condition=condition), model=unused, targets=targets)

    def _load(self, model: object, threads: int | None) -> RaterFacts:
        return RaterFacts("m@1", "f", "1", "float32", "e")

    def _method(self, question: Question) -> str:
        return "closed"

    def _ratings(self, items: Sequence[PreparedItem]) -> list[list[RatingRow]]:
        self.calls.append([item.item_id for item in items])
        self.clock.now += 0.25 * len(items)
        if any(item.item_id.startswith("lost") for item in items):
            raise EngineError("the device is gone")
        if any(item.item_id.startswith("bad") for item in items):
            raise ZeroDivisionError
        return [
            [{**self._key(item.item_id, *pair), "value": "1", "status": "ok"} for pair in item.pairs] for item in items
        ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(rubric_rater, "time", SimpleNamespace(perf_counter=one.perf_counter))
    return one


def batch(*items: dict[str, Any]) -> pa.Table:
    ready = {"status": "ok", "inputs": INPUTS, "shared": 2, "suffixes": [[3]]}
    return pa.Table.from_pylist([ready | item for item in items], schema=schemas.PREPARED_QUESTIONS)


MISSING = {"inputs": None, "status": "missing", "error_kind": "http_404", "error_message": "gone"}


@pytest.mark.parametrize(
    ("together", "calls"), [(1, [["a"], ["bad"], ["b"]]), (None, [["a", "bad", "b"], ["a"], ["bad"], ["b"]])]
)
def test_rows_are_in_the_order_of_the_batch(clock: Clock, together: int | None, calls: list[list[str]]) -> None:
    rater = Rater(clock, together=together)
    items: list[dict[str, Any]] = [
        {"item_id": "a"},
        {"item_id": "x", **MISSING},
        {"item_id": "bad"},
        {"item_id": "y", "inputs": b"no"},
        {"item_id": "b", "targets": ["awe"]},
    ]
    rows = rater(batch(*items)).to_pylist()
    common = [("people", ""), ("shown", "joy"), ("shown", "fear")]
    assert [(row["item_id"], row["question"], row["target"]) for row in rows] == [
        *((name, *pair) for name in ("a", "x", "bad", "y") for pair in common),
        ("b", "people", ""), ("b", "shown", "awe"),
    ]  # fmt: skip
    assert [row["status"] for row in rows[::3]] == ["ok", "missing", "error", "error", "ok"]
    assert (rows[3]["error_kind"], rows[3]["error_message"]) == ("http_404", "gone")
    assert rater.calls == calls


def test_items_with_their_own_questions_have_rows_about_these_or_one(clock: Clock) -> None:
    rater = Rater(clock, together=2, rubric=OWN, condition="photo")
    questions = [{"set_id": "s", "question_id": name, "text": "?"} for name in ("1", "2")]
    rows = rater(
        batch(
            {"item_id": "a", "questions": questions, "suffixes": [[3], [4]]},
            {"item_id": "x", "questions": questions, **MISSING},
            {"item_id": "y", **MISSING, "error_kind": None, "error_message": None},
        )
    ).to_pylist()
    keys = [(row["item_id"], row["target"], row["question"], row["status"], row["error_kind"]) for row in rows]
    assert keys == [
        ("a", "s", "1", "ok", None), ("a", "s", "2", "ok", None), ("x", "s", "1", "missing", "http_404"),
        ("x", "s", "2", "missing", "http_404"), ("y", "", "*", "missing", ""),
    ]  # fmt: skip
    facts = {(row["rubric"], row["rater"], row["condition"], row["method"], row["sample"]) for row in rows}
    assert facts == {("own", "m@1", "photo", "closed", 0)}


def test_a_row_without_an_answer_is_written_for_each_sample(clock: Clock) -> None:
    rater = Rater(clock, together=1, targets=["joy"])
    rater.samples = 2
    rows = rater(batch({"item_id": "x", **MISSING})).to_pylist()
    keys = [(row["question"], row["target"], row["sample"]) for row in rows]
    assert keys == [("people", "", 0), ("people", "", 1), ("shown", "joy", 0), ("shown", "joy", 1)]


def test_a_lost_device_fails_the_batch(clock: Clock) -> None:
    rater = Rater(clock, together=None)
    with pytest.raises(EngineError):
        rater(batch({"item_id": "a"}, {"item_id": "lost"}))
    assert rater.calls == [["a", "lost"]]


def test_the_devices_time_is_in_milliseconds_and_that_of_all_counts_waiting(clock: Clock) -> None:
    rater = Rater(clock, together=1)
    rater(batch({"item_id": "a"}, {"item_id": "b"}))
    clock.now += 2  # for the next batch
    rater(batch({"item_id": "c"}, {"item_id": "x", **MISSING}))
    assert rater.take_tally() == {"milliseconds/device": 750, "milliseconds/all": 2750}
    assert rater.take_tally() == {}
    rater(batch({"item_id": "x", **MISSING}))
    assert rater.take_tally() == {"milliseconds/all": 0}


def test_labels_of_an_item_come_before_those_of_all() -> None:
    rubric, of_sets = Rubric.from_dict(RUBRIC), Rubric.from_dict(OWN)
    assert default_targets(rubric, None) == ("joy", "fear")
    assert default_targets(rubric, ["awe"]) == ("awe",)
    assert default_targets(of_sets, None) == ("",)
    with pytest.raises(ValueError, match="targets=awe: rubric 'own' asks about no target"):
        default_targets(of_sets, ["awe"])
    assert item_targets(rubric, {"targets": ["a", "b"]}) == ["a", "b"]
    assert item_targets(rubric, {"targets": None}) == item_targets(of_sets, {"targets": ["a"]}) == []
    questions = [{"set_id": "s", "question_id": "1", "text": "Is it red?"}]
    pairs = asked_pairs(of_sets, {"questions": questions}, ())
    assert [(target, question.name, question.text) for target, question in pairs] == [("s", "1", "Is it red?")]
    assert asked_pairs(of_sets, {"questions": None}, ()) == ()

"""`parse`: what identifies the ratings of a table of responses, and how many answers it reads."""

from pathlib import Path
from typing import Any

import pytest

from actors.rubrics.rubric import Rubric, identity
from jobs import parse
from jobs.errors import InputError
from jobs.judging import kept_rubric
from jobs.parse import ParseConfig
from jobs.runtime.configuration import config
from jobs.runtime.outcomes import Plan
from jobs.runtime.selection import exclusions
from jobs.store.reading import open_table
from tests.factories import write_table


@pytest.fixture
def responses(tmp_path: Path) -> str:
    columns = {"model": "m", "prompt": "p", "condition": "", "sample": 0, "text": "4", "status": "ok"}
    rows = [{"response_id": f"r{n}", "item_id": f"i{n}", **columns} for n in range(5)]
    return write_table(tmp_path / "responses", "responses", rows)


def begin(monkeypatch: pytest.MonkeyPatch, responses: str, *keys: str) -> dict[str, Any]:
    """Return what the job begins a run with."""
    begun: dict[str, Any] = {}

    def begin_run(name: str, cfg: ParseConfig, plan: Any, excluded: Any, **more: Any) -> Plan:
        begun.update(plan=plan, **more)
        return Plan([])

    monkeypatch.setattr(parse.lifecycle, "begin", begin_run)
    arguments = [f"input={responses}", "rubric=century_labels", "out=/R", *keys]
    cfg = config.load("parse", ParseConfig, arguments)
    assert parse.execute(cfg) == Plan([])
    return begun | {"rubric": cfg.rubric}


def test_every_response_answers_every_question(monkeypatch: pytest.MonkeyPatch, responses: str) -> None:
    for limit, counts in (("null", "40 answers (5 responses x 8)"), ("3", "24 answers (3 responses x 8)")):
        begun = begin(monkeypatch, responses, f"limit={limit}")
        assert (begun["note"], begun["pools"]) == (f"reads {counts}", ["decode"])


def test_ratings_are_identified_by_rubric_input_and_condition(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, responses: str
) -> None:
    (tmp_path / "list.txt").write_text("https://pictures.example/gone.jpg\n")
    begun = begin(monkeypatch, responses, "condition=c", f"exclusions={tmp_path}/list.txt")
    plan, rubric = begun["plan"], Rubric.from_dict(begun["rubric"])
    assert plan.identity == {
        "rubric": {"name": "century_labels", "hash": identity(rubric)},
        "input": open_table(responses, "responses").identity,
        "condition": "c",
        **exclusions.identity(exclusions.read_exclusions(f"{tmp_path}/list.txt")),
    }
    kept = kept_rubric.of_rubric(rubric, begun["rubric"])
    assert plan.metadata == {**kept.metadata, "rater": ""}
    assert (plan.table, plan.files, plan.derived) == ("ratings", kept.files, True)


def test_a_rubric_that_no_response_can_answer_is_refused(responses: str) -> None:
    with pytest.raises(InputError, match=r"^rubric: "):
        parse.execute(ParseConfig(input=responses, rubric={"name": "r"}, out="/R"))

"""Judgements of a file -> the vectors of CrowdTruth: which judgement and annotations count."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from jobs.analysis import file_analysis as module
from jobs.analysis import rating_codes
from jobs.analysis.file_analysis import (
    NULLS,
    ColumnAttributes,
    RatedFile,
    _is_valid,
    as_numbers,
    named_columns,
    shown_distributions,
)
from jobs.analysis.report_tables import ALL_PEOPLE, MAX_PEOPLE_SHOWN, of_all_people
from jobs.analysis.scene_graph_scores import BINS, _scored, score_rows
from jobs.corpora.user_tables import file_parts
from jobs.errors import InputError
from jobs.metrics.distributions import Distributions
from jobs.metrics.dsg import DsgQuestion
from jobs.metrics.rated_question import MAX_LINES
from jobs.runtime.configuration.config import load
from jobs.runtime.configuration.resources import PartResources
from jobs.runtime.selection.exclusions import ExclusionFilter, marks_of
from jobs.runtime.tasks import Tasks

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
        cfg = load("report", RatedFile, ["input=F", "out=O", "task=crowdtruth", *keys])
        return module.file_crowdtruth(cfg, "F", {}, ExclusionFilter(frozenset())).metrics[0]

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


def test_texts_that_are_numbers():
    numbers = {"3": 3, " 3,5 ": 3.5, "-1,25": -1.25, "+2": 2, ".5": 0.5, "5.": 5, "1e3": 1000, "1E-2": 0.01,
               "9e99": 9e99, "-9e99": -9e99}  # fmt: skip
    others = ["", ".", "1,2,3", "1,", ",5", "1e", "nan", "inf", "3 4", "1e100", "-1e100", "0x1", "three", None]
    texts = pa.chunked_array([pa.array([*numbers, *others], pa.string())])
    assert as_numbers(texts).to_pylist() == [*numbers.values(), *[None] * len(others)]


def test_a_name_with_a_comma_is_a_column_if_the_file_has_it():
    assert named_columns("a,b", ["a", "b"]) == ["a", "b"]
    assert named_columns("a,b", ["a,b", "a", "b"]) == ["a,b"]
    assert named_columns(" a , ,c", []) == ["a", "c"]
    assert named_columns(None, ["a"]) == []


def test_words_for_valid_and_invalid_questions():
    assert [_is_valid("f", word) for word in (None, "Yes", "VALID", "T", "1.0")] == [True] * 5
    assert [_is_valid("f", word) for word in ("no", "Invalid", "F", "0")] == [False] * 4
    with pytest.raises(InputError, match="'maybe'"):
        _is_valid("f", "maybe")


def test_an_attribute_has_one_value_and_may_be_missing():
    attributes = ColumnAttributes("item", ["country"])
    names = ["item", attributes.column("country")]
    attributes.add("f", pa.table([["a", "a", "b"], ["Mali", None, None]], names=names))
    attributes.add("f", pa.table([["a", "c"], ["Mali", "Peru"]], names=names))
    assert attributes.values == {"country": {"a": "Mali", "c": "Peru"}}
    with pytest.raises(InputError, match="'Mali' and 'Peru'"):
        attributes.add("f", pa.table([["a"], ["Peru"]], names=names))


def test_a_score_is_in_the_bin_that_begins_at_or_below_it():
    for number, name in enumerate(BINS):
        assert _scored(number / 20)["value"] == name
        assert _scored(min(number / 20 + 0.04, 1))["value"] == name
    assert (BINS[0], BINS[-1], len(BINS)) == ("0.00", "1.00", 21)


def test_answers_of_other_rubrics_and_failed_ones_do_not_count():
    def answer(question, value, *, target="set", rubric="r", status="ok"):
        key = {"item_id": "i", "target": target, "rater": "m", "condition": "", "method": "closed", "order": "",
               "sample": 0}  # fmt: skip
        return key | {"rubric": rubric, "question": question, "value": value, "status": status,
                      "error_kind": None, "error_message": None}  # fmt: skip

    graph = {"set": [DsgQuestion("1"), DsgQuestion("2", ("1",))], "i": [DsgQuestion("1")]}
    rows = [answer("1", "no"), answer("2", "yes"), answer("1", "yes", rubric="other")]
    scores = [row["score"] for row in score_rows(pa.Table.from_pylist(rows), graph, rubric="r")]
    assert scores == [0, 1 / 2]
    rows = [answer("1", "yes", status="refused"), answer("2", "yes")]
    scores = [row["score"] for row in score_rows(pa.Table.from_pylist(rows), graph, rubric="r")]
    assert scores == [1, 1]  # a refusal does not count, nor for its child
    table = pa.Table.from_pylist(rows)
    tally: Counter[str] = Counter()
    published = list(score_rows(table, graph, rubric="r", convention="published", tally=tally))
    assert [row["score"] for row in published] == [0, 1 / 2]
    assert [row["comment"] for row in published] == ["1 of 2 questions answered"] * 2
    assert tally == {"scores": 1, "partial": 1, "answered": 1, "questions": 2}
    (row, _) = score_rows(pa.Table.from_pylist([answer("1", None, status="refused")]), graph, rubric="r")
    assert (row["status"], row.get("score")) == ("refused", None)
    (row, _) = score_rows(pa.Table.from_pylist([answer("1", "yes", target="")]), graph, rubric="r")
    assert row["score"] == 1  # without a target the item names the set
    (row, _) = score_rows(pa.Table.from_pylist([answer("9", "yes")]), graph, rubric="r")
    assert (row["status"], row["error_kind"]) == ("skipped", "no_questions")


@pytest.mark.parametrize(("people", "shown"), [(MAX_PEOPLE_SHOWN, MAX_PEOPLE_SHOWN), (MAX_PEOPLE_SHOWN + 1, 1)])
def test_answers_are_in_the_order_of_their_numbers_and_all_allowed(people: int, shown: int) -> None:
    of_each, pooled = Distributions(), Distributions()
    for person in range(people):
        answers = ["10", "9", "unsure"] if person else ["9", "9", "10"]
        rows = {"rater": [f"p{person:02}"] * 3, "rubric": ["r"] * 3, "question": ["q"] * 3, "value": answers}
        scores = [None if answer == "unsure" else float(answer) for answer in answers]
        rows |= {"status": ["ok"] * 3, "method": ["human"] * 3}
        nulls = {name: pa.nulls(3, kind) for name, kind in NULLS.items()}
        ratings = pa.table({**rows, "score": pa.array(scores, pa.float64()), **nulls})
        of_each.add(ratings)
        pooled.add(of_all_people(ratings))
    distributions = shown_distributions(of_each, pooled)
    assert len(distributions) == shown
    first = distributions[0]
    nines, tens, unsure = (2, 1, 0) if shown > 1 else (people + 1, people, people - 1)
    expected = {"9": nines, "10": tens, "unsure": unsure}
    assert {share.answer: share.count for share in first.answers if share.count} == {
        answer: n for answer, n in expected.items() if n
    }
    assert [share.answer for share in first.answers] == [a for a in expected if a in [s.answer for s in first.answers]]
    assert all(share.listed for share in first.answers)
    assert first.rater == ("p00" if shown > 1 else ALL_PEOPLE)


LANDS = ("PE", "KE", None)


def ratings_file(folder: Path, ending: str) -> str:
    """Write ratings of two questions, some of them repeated, empty, words, with a comma or excluded."""
    rows = [
        {"image": f"i{n % 40}", "who": f"w{n % 7}", "q": question, "country": LANDS[n % 7 % 3], "kept": "yes",
         "score": None if n % 11 == 0 else "unsure" if n % 13 == 0 else f"{1 + n * n % 5},0" if n % 5 else "4"}
        for n in range(300) for question in ("fit", "free")
    ]  # fmt: skip
    rows += [{**rows[4], "score": "a word", "q": "free"}, {**rows[4], "kept": "no"}, {**rows[6], "score": "n/a"}]
    place = folder / f"ratings.{ending}"
    table = pa.Table.from_pylist(rows)
    if ending == "parquet":
        pq.write_table(table, place, row_group_size=90)
    else:
        pa_csv.write_csv(table, place)
    return str(place)


def everything(uri: str, tasks: Tasks) -> tuple[Any, ...]:
    """Return all that a report computes of a file."""
    keys = [
        "columns.item=image",
        "columns.rater=who",
        "columns.value=score",
        "columns.question=q",
        "missing=[n/a,unsure]",
    ]
    keys += ["metrics.groups=[country]", "keep_rows.kept=yes", "metrics.crowdtruth=true", "scale=[1,5]"]
    cfg = load("report", RatedFile, [f"input={uri}", "out=O", *keys])
    excluded = ExclusionFilter(frozenset(marks_of("i3")))
    result = module.file_agreement(cfg, uri, module.find_columns(cfg, uri), excluded, tasks=tasks)
    confusions = [(dims, one.rater, one.counts.tolist()) for dims, one in result.observations.confusions]
    return repr(result.metrics), repr(result.distributions), confusions, excluded.matched


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_neither_parts_nor_tasks_of_ray_change_a_number_of_a_file(
    ending: str,
    ray_session: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = ratings_file(tmp_path, ending)
    whole, printed = everything(uri, Tasks()), capsys.readouterr().out
    assert "fit: answers have a decimal comma" in printed
    assert "free: 1 of" in printed
    assert whole[-1] == {"i3": 17}
    monkeypatch.setattr(module, "PART", 100)
    monkeypatch.setattr("jobs.corpora.delimited.BLOCK_BYTES", 2000)
    assert len(list(file_parts(uri, ["image"], 100))) == (7 if ending == "parquet" else 5)
    assert everything(uri, Tasks()) == whole
    monkeypatch.setattr(rating_codes, "BUNDLE", 20)
    assert everything(uri, Tasks(PartResources(num_cpus=0.5, tasks=2))) == whole
    assert capsys.readouterr().out == printed * 2


def test_a_wrong_row_is_refused_in_whichever_part_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART", 2)
    place = str(tmp_path / "r.parquet")
    rows = [{"item": str(n), "rater": "r", "value": str(n), "scene": f"s{n % 4}"} for n in range(6)]

    def refused(row: dict[str, Any], *keys: str) -> str:
        pq.write_table(pa.Table.from_pylist([*rows, row]), place, row_group_size=2)
        cfg = load("report", RatedFile, [f"input={place}", "out=O", *keys])
        columns = module.find_columns(cfg, place)
        with pytest.raises(InputError) as raised:
            module.file_agreement(cfg, place, columns, ExclusionFilter(frozenset()), tasks=Tasks())
        return str(raised.value)

    assert "columns.rater is empty in 1 row" in refused({**rows[0], "rater": None})
    assert "the answer 9 to 'value'" in refused({**rows[0], "value": "9"}, "scale=[0,5]")
    two = refused({**rows[0], "scene": "s9"}, "metrics.disaggregate=[scene]")
    assert "column 'scene' has two values for item '0', 's0' and 's9'" in two

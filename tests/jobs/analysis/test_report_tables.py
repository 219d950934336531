"""One pass over all ratings: what is summarized, without excluded items, and which distributions a page shows."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from actors.ids import content_id
from jobs.analysis import rating_codes, report_tables
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.report_metrics import compute_results
from jobs.analysis.report_tables import (
    ALL_PEOPLE,
    MAX_PEOPLE_SHOWN,
    RatingSummary,
    ReportInputs,
    ReportRatings,
    ReportTables,
    open_inputs,
    rows_of_items,
    summarize_ratings,
)
from jobs.analysis.standings import standings
from jobs.errors import InputError
from jobs.judging.kept_rubric import Rubrics
from jobs.metrics.distributions import Distribution
from jobs.metrics.rated_question import MetricSettings
from jobs.runtime.configuration.resources import PartResources
from jobs.runtime.selection.exclusions import ExclusionFilter, marks_of
from jobs.runtime.tasks import Tasks
from jobs.store.hashing import hash_texts
from jobs.store.reading import TableSource, open_table
from jobs.tables import CONDITION
from tests.factories import FIVE, rating, record, write_table, write_units

EXCLUDED = content_id("excluded")
ROWS: dict[str, list[dict[str, Any]]] = {
    "ratings": [rating("a", "m", "q", "1")],
    "matches": [record("a")],
    "records": [record("b")],
    "responses": [{"response_id": "r", "item_id": "a", "model": "m", "prompt": "p", "condition": "", "sample": 0,
                   "status": "ok"}],
    "items": [{"item_id": "a"}],
    "texts": [{"text_id": "t", "role": "caption", "text": "x"}],
}  # fmt: skip


def summary(folder: Path, *tables: list[dict[str, Any]]) -> tuple[RatingSummary, dict[str, set[str]]]:
    """Return the summary of tables of ratings, and the methods of each rater."""
    sources = [open_table(write_table(folder / f"t{n}", "ratings", rows, rubric=FIVE)) for n, rows in enumerate(tables)]
    exclusion_filter = ExclusionFilter(frozenset(marks_of(EXCLUDED)))
    with Reduction(by=[CONDITION]) as reduction:
        result = summarize_ratings(
            ReportTables(ratings=sources), MetricSettings(), reduction, models=[], exclusion_filter=exclusion_filter
        )
        return result, {name: set(methods) for name, methods in reduction.methods.items()}


def shares(distributions: list[Distribution]) -> dict[str, dict[str, int]]:
    """Rater -> answer -> count."""
    return {one.rater: {share.answer: share.count for share in one.answers if share.count} for one in distributions}


def test_excluded_items_count_nowhere(tmp_path: Path) -> None:
    """Not for the distributions, and not as items that two tables share."""
    models = [rating(item, "m", "fit", "1") for item in ("a", "b", EXCLUDED)]
    people = [rating(item, "p1", "fit", "5") for item in (EXCLUDED, "c")] + [rating("d", "p2", "fit", "4")]
    result, methods = summary(tmp_path, models, people)
    assert shares(result.distributions.result()) == {"m": {"1": 2}, "p1": {"5": 1}, "p2": {"4": 1}}
    assert shares(result.pooled.result()) == {ALL_PEOPLE: {"4": 1, "5": 1}}
    assert [one.of["r"].items.tolist() for one in result.rated] == [
        sorted(hash_texts(names).tolist()) for names in (["a", "b"], ["c", "d"])
    ]
    assert methods == {"m": {"closed"}, "p1": {"human"}, "p2": {"human"}}


def test_many_people_are_shown_together(tmp_path: Path) -> None:
    def rows(number: int) -> list[dict[str, Any]]:
        return [rating("a", f"p{person}", "fit", "2") for person in range(number)] + [rating("a", "m", "fit", "1")]

    few, of_few = summary(tmp_path / "few", rows(MAX_PEOPLE_SHOWN))
    assert ALL_PEOPLE not in shares(few.shown(of_few))
    assert len(few.shown(of_few)) == MAX_PEOPLE_SHOWN + 1
    many, of_many = summary(tmp_path / "many", rows(MAX_PEOPLE_SHOWN + 1))
    assert shares(many.shown(of_many)) == {"m": {"1": 1}, ALL_PEOPLE: {"2": MAX_PEOPLE_SHOWN + 1}}


def test_conditions_are_apart_if_a_question_was_answered_under_several(tmp_path: Path) -> None:
    def rows(*conditions: str) -> list[dict[str, Any]]:
        return [rating("a", rater, "fit", "1", condition=name) for rater in ("m", "p") for name in conditions]

    def extras(result: RatingSummary) -> list[list[dict[str, str]]]:
        return [
            [dict(one.extra) for one in distributions.result()]
            for distributions in (result.distributions, result.pooled)
        ]

    assert extras(summary(tmp_path / "one", rows("article"))[0]) == [[{}, {}], [{}]]
    two = extras(summary(tmp_path / "two", rows("", "article"))[0])
    assert two == [[{CONDITION: ""}, {CONDITION: "article"}] * 2, [{CONDITION: ""}, {CONDITION: "article"}]]


def test_a_rater_with_other_methods_than_people_is_shown_alone(tmp_path: Path) -> None:
    rows = [rating("a", f"p{person}", "fit", "2") for person in range(MAX_PEOPLE_SHOWN + 1)]
    rows += [rating("a", "both", "fit", "4", method="human"), rating("b", "both", "fit", "5", method="closed")]
    result, methods = summary(tmp_path, rows)
    assert set(shares(result.shown(methods))) == {"both", ALL_PEOPLE}


def test_cards_have_no_rows_of_excluded_items(tmp_path: Path) -> None:
    """Also if the item is asked for: a page is built from items that other tables may name."""
    rows = [rating(item, "m", "fit", value, comment=value) for item, value in (("a", "1"), (EXCLUDED, "2"), ("b", "3"))]
    tables = ReportTables(ratings=[open_table(write_table(tmp_path / "t", "ratings", rows, rubric=FIVE))])
    exclusion_filter = ExclusionFilter(frozenset(marks_of(EXCLUDED)))
    by_item = rows_of_items(tables, {"a", EXCLUDED, "absent"}, [CONDITION], exclusion_filter, Tasks())
    rows_by_item = {
        item: [(row["rater"], row["value"], row["condition"]) for row in of_item] for item, of_item in by_item.items()
    }
    assert rows_by_item == {"a": [("m", "1", "")]}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    tables = {"matches": "records"}
    return {
        key: write_table(tmp_path / key, tables.get(key, key), rows, rubric=FIVE if key == "ratings" else None)
        for key, rows in ROWS.items()
    }


def test_each_key_opens_its_table(places: dict[str, str]) -> None:
    lists = {"ratings", "responses", "items", "texts"}
    assert lists <= {one.name for one in fields(ReportInputs)}
    keys: dict[str, Any] = {key: [uri] if key in lists else uri for key, uri in places.items()}
    tables = open_inputs(ReportInputs(**keys))
    assert {name: source.uri for name, source in tables.corpus.items()} == {
        "matches": places["matches"], "records": places["records"]
    }  # fmt: skip
    opened = {name: [source.uri for source in getattr(tables, name)] for name in lists}
    assert opened == {name: [places[name]] for name in lists}
    assert {source.uri for source in tables.sources} == set(places.values())
    assert (tables.questions, tables.spans, tables.terms) == (None, [], [])


def test_tables_that_only_describe_others_are_no_report(places: dict[str, str]) -> None:
    for inputs in (ReportInputs(items=[places["items"]]), ReportInputs(texts=[places["texts"]]), ReportInputs()):
        with pytest.raises(InputError, match="report: no table to report on"):
            open_inputs(inputs)
    assert open_inputs(ReportInputs(records=places["records"])).corpus.keys() == {"records"}
    assert len(open_inputs(ReportInputs(responses=[places["responses"]])).responses) == 1


AWKWARD = [
    [],
    [rating("only", "p1", "fit", "3", method="human")],
    [rating(item, rater, "fit", value, target=target, sample=sample) for item in ("a", "b", "c", "d", "e", "f")
     for rater, value, sample in (("m", "2", 0), ("m", "4", 1), ("p1", "3", 0), ("p2", None, 0))
     for target in ("x", "")],
    [rating(f"{item}{n}", rater, "free", f"text {n}", condition="seen") for n, item in enumerate("abcdef" * 100)
     for rater in ("m", "n")],
    [rating(item, rater, "fit", "5", target=target) for item in ("f", "e", "a") for rater in ("n", "p1", "p9")
     for target in ("y", "x")],
]  # fmt: skip


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_the_parts_of_a_table_do_not_change_a_number(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty units, one row, items over several units, samples, two tables with a rater, an open question."""
    sources = [open_table(write_units(tmp_path / "t", "ratings", AWKWARD[:3]), "ratings")]
    sources.append(open_table(write_units(tmp_path / "u", "ratings", AWKWARD[3:]), "ratings"))
    whole = everything(sources)
    monkeypatch.setattr(report_tables, "PART", rows)
    assert everything(sources) == whole


def test_tasks_of_ray_do_not_change_a_number(
    ray_session: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [open_table(write_units(tmp_path / "t", "ratings", AWKWARD), "ratings")]
    monkeypatch.setattr(report_tables, "PART", 100)
    in_process = everything(sources)
    tasks = Tasks(PartResources(num_cpus=0.5, tasks=2))
    monkeypatch.setattr(rating_codes, "BUNDLE", 20)
    assert everything(sources, tasks) == in_process


def everything(sources: list[TableSource], tasks: Tasks | None = None) -> tuple[Any, ...]:
    """Return all that a report computes of ratings."""
    tables, nothing = ReportTables(ratings=sources), ExclusionFilter(frozenset())
    with Reduction(by=[CONDITION], keep_ids=True, tasks=tasks) as reduction:
        result = summarize_ratings(tables, MetricSettings(), reduction, models=[], exclusion_filter=nothing)
        opened = ReportRatings(tables, reduction, result, Rubrics({}), nothing)
        results = compute_results(
            opened, MetricSettings(crowdtruth=True), added=MetricSettings(), questions_rubric="dsg", likert=None
        )
        places = standings(reduction, [], lambda *_: ((1.0, 5.0), ""))
    rows = rows_of_items(tables, {"a", "only"}, [CONDITION], nothing, tasks or Tasks())
    confusions = [(dims, one.rater, one.counts.tolist()) for dims, one in results.observations.confusions]
    numbers = [[str(column.tolist()) for column in places[:3]], repr(results.metrics), repr(results.of_answers)]
    return numbers, repr(results.of_people), results.notices, confusions, dict(rows)

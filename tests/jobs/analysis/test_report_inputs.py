"""Tables that each key of a report names."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from jobs.analysis.report_inputs import ReportInputs, open_inputs
from jobs.errors import InputError
from tests.factories import FIVE, rating, record, write_table

ROWS: dict[str, list[dict[str, Any]]] = {
    "ratings": [rating("a", "m", "q", "1")],
    "matches": [record("a")],
    "records": [record("b")],
    "responses": [{"response_id": "r", "item_id": "a", "model": "m", "prompt": "p", "condition": "", "sample": 0,
                   "status": "ok"}],
    "items": [{"item_id": "a"}],
    "texts": [{"text_id": "t", "role": "caption", "text": "x"}],
}  # fmt: skip


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

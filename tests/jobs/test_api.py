"""`jobs.api`: jobs with keyword arguments, tables as data frames, metrics with dims as columns."""

import csv
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from jobs import api
from jobs.errors import InputError
from tests.factories import write_table, write_units
from tests.jobs.small_jobs import NODES, response

ITEMS: list[dict[str, Any]] = [
    {"item_id": f"i{n}", "kind": "image", "image_ids": [f"p{n}"], "attributes": [("region", "Asia"), ("year", str(n))]}
    for n in range(5)
]


@pytest.fixture
def items(tmp_path: Path) -> Path:
    write_units(tmp_path / "items", "items", [ITEMS[:3], ITEMS[3:]])
    return tmp_path / "items"


def test_a_table_is_read_in_each_form(items: Path) -> None:
    table = api.StoredTable(items)
    assert (table.name, len(table), table.place) == ("items", 5, str(items))
    assert repr(table).startswith(f"StoredTable('{items}'): items, 5 rows, columns item_id, kind, ")
    rows = table.arrow(["item_id", "attributes"])
    assert (rows.num_rows, rows.column_names) == (5, ["item_id", "attributes"])
    frame = table.pandas()
    assert list(frame.columns) == table.schema.names
    assert frame.attributes[4] == {"region": "Asia", "year": "4"}
    pairs = [{"key": "region", "value": "Asia"}, {"key": "year", "value": "4"}]
    polars = pytest.importorskip("polars")
    assert isinstance(table.polars(), polars.DataFrame)
    assert table.polars(["item_id", "attributes"]).row(4) == ("i4", pairs)
    with pytest.raises(InputError, match=r"no column 'regoin'; its columns are item_id, "):
        table.arrow(["regoin"])
    with pytest.raises(InputError, match=r"no table here"):
        api.StoredTable(items.parent / "nowhere")


def test_a_dataset_gets_the_rows_without_maps(items: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`datasets` has no type for maps; it is an extra, and the test has what is called of it."""
    module: Any = types.ModuleType("datasets")
    module.table = types.SimpleNamespace(InMemoryTable=lambda rows: rows)
    module.Dataset = lambda rows: rows
    monkeypatch.setitem(sys.modules, "datasets", module)
    rows: Any = api.StoredTable(items).dataset()
    assert not any(pa.types.is_map(kind) for kind in rows.schema.types)
    assert rows["attributes"].to_pylist()[0][0] == {"key": "region", "value": "Asia"}


def test_an_empty_table_keeps_its_columns(tmp_path: Path) -> None:
    write_table(tmp_path / "none", "items", [])
    table = api.StoredTable(tmp_path / "none")
    assert len(table) == 0
    assert list(table.pandas().columns) == list(table.arrow().column_names) == table.schema.names


def test_a_job_runs_with_keyword_arguments_and_its_metrics_have_dims_as_columns(tmp_path: Path) -> None:
    file = tmp_path / "it, é.csv"
    with file.open("w", newline="") as output:
        pairs = [(item, rater) for item in range(12) for rater in ("x", "yy")]
        rows = [[item, rater, 1 + (item + len(rater)) % 5, "ab"[item % 2]] for item, rater in pairs]
        csv.writer(output).writerows([["image", "who", "score", "scene"], *rows])
    columns = {"item": "image", "rater": "who", "value": "score"}
    scale = (np.int64(1), 5)
    manifest = api.run(
        "report", input=file, columns=columns, scale=scale, metrics={"disaggregate": "scene"}, out=tmp_path / "F"
    )
    assert isinstance(manifest, api.Manifest)
    assert manifest["out"] == f"{tmp_path}/F/metrics"
    frame = api.metrics(tmp_path / "F")
    assert frame.equals(api.metrics(f"{tmp_path}/F/metrics"))
    assert len(frame) == manifest["counts"]["rows_out"] == len(pd.read_csv(tmp_path / "F" / "metrics.csv"))
    stored = api.StoredTable(f"{tmp_path}/F/metrics").pandas()
    for row, (metric, dims, n) in zip(frame.to_dict("records"), stored[["metric", "dims", "n"]].values, strict=True):
        read = {name: row[f"dim_{name}" if name == "status" else name] for name in json.loads(dims)}
        assert (row["metric"], read, row["n"]) == (metric, json.loads(dims), n)
    alpha = frame[(frame.metric == "alpha") & (frame.level == "ordinal")]
    assert len(alpha) == 3  # of all, and of each scene
    assert alpha.value.dtype == float


def test_wrong_jobs_and_keys_are_refused_as_on_the_command_line(tmp_path: Path) -> None:
    for call, why in (
        (lambda: api.run("jugde"), "no such job (did you mean judge?)"),
        (lambda: api.run("import-ratings", inputs="x", out=tmp_path), "inputs='x': no such key (did you mean input?)"),
        (lambda: api.run("tric rank", split=tmp_path), "required"),
        (lambda: api.run("report", metrics={"disagregate": ["x"]}, out="F"), "did you mean metrics.disaggregate?"),
        (lambda: api.metrics(tmp_path), "no table here"),
    ):
        with pytest.raises(InputError) as refused:
            call()
        assert why in str(refused.value)


def test_a_plan_is_returned_and_nothing_is_written(tmp_path: Path) -> None:
    write_units(tmp_path / "answers", "responses", [[response("p0", "a thing")]])
    write_table(tmp_path / "kb" / "nodes", "nodes", NODES)
    keys = {"responses": tmp_path / "answers", "kb": {"path": tmp_path / "kb"}}
    plan = api.run("link names", **keys, plan=True, out=tmp_path / "L")
    assert isinstance(plan, api.Plan)
    assert plan.lines
    assert not (tmp_path / "L").exists()

"""The table of metrics in the folder of a page: its inputs, its replacement, and folders of other programs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.analysis.metrics_output import metrics_table, read_computed, refuse_foreign, table_name, wide, write_metrics
from jobs.errors import InputError
from jobs.metrics.intervals import Interval, proportion
from jobs.metrics.metric import Metric, MetricKind, estimated, undefined
from jobs.runtime.command_line import cli
from jobs.store.files.objects import Object
from jobs.store.reading import open_table
from jobs.store.run_files import read_inputs, run_uri
from jobs.tables import TableError
from tests.factories import rating, write_table, write_units

KIND, ALPHA = MetricKind("m", definition="d"), MetricKind("alpha", definition="d")


def test_a_row_of_the_table() -> None:
    metric = estimated(
        MetricKind("share", definition="one sentence"), 0.5, 4, coverage=0.8, interval=Interval(0.2, 0.8, "wilson 95%")
    )
    (row,) = metrics_table([metric.at(rater="é", question="q")]).to_pylist()
    of_array: Any = np.int64(3)
    assert json.dumps(undefined(ALPHA, "r", n=of_array).n) == "3"
    assert row["dims"] == '{"question":"q","rater":"é"}'
    assert (row["value"], row["low"], row["high"], row["n"], row["coverage"]) == (0.5, 0.2, 0.8, 4, 0.8)
    assert (row["status"], row["reason"], row["interval_method"]) == ("ok", None, "wilson 95%")


def test_an_undefined_metric_has_a_status_and_a_reason() -> None:
    metric = undefined(ALPHA, "one rater", n=3, coverage=0.5, dims={"level": "nominal"})
    (row,) = metrics_table([metric]).to_pylist()
    assert (row["value"], row["status"], row["reason"]) == (None, "skipped", "one rater")
    assert (row["definition"], row["n"], row["coverage"]) == ("d", 3, 0.5)
    assert undefined(ALPHA, "nobody", status="missing_input").status == "missing_input"
    assert json.loads(row["dims"]) == {"level": "nominal"}


def test_two_metrics_of_one_name_are_refused() -> None:
    with pytest.raises(TableError, match="duplicate"):
        metrics_table([undefined(KIND, "r"), undefined(KIND, "r")])


def test_wide_columns_have_different_names() -> None:
    """A dim that is called as a column of the table is distinguished from it, whatever the other dims are called."""
    dims = {"status": "reported", "value": "a", "dim_value": "b", "metric": "c", "group": "people"}
    first = estimated(KIND, 0.5, 4, interval=proportion(2, 4), dims=dims)
    second = undefined(ALPHA, "one rater", dims={"group": "models"})
    columns, rows = wide([first, second])
    assert len(set(columns)) == len(columns)
    one, other = (dict(zip(columns, row, strict=True)) for row in rows)
    assert (one["status"], one["dim_status"], one["value"], one["dim_value"]) == ("ok", "reported", 0.5, "b")
    assert (one["metric"], one["dim_metric"], one["dim_dim_value"]) == ("m", "c", "a")
    assert (other["status"], other["dim_status"], other["value"], other["group"]) == ("skipped", "", None, "models")


def test_a_table_of_metrics_has_its_inputs_and_replaces_an_earlier_one(tmp_path: Path) -> None:
    for name in ("first", "second"):
        source = Object(f"memory/{name}", 1, "etag")
        manifest = write_metrics(
            str(tmp_path),
            [undefined(MetricKind(name, definition="definition"), "reason")],
            inputs=[source],
            identity={"n": name},
            settings={"key": name},
        )
        assert manifest["out"] == str(tmp_path / "metrics")
        table = open_table(manifest["out"], "metrics")
        (unit,) = read_inputs(run_uri(manifest["out"], "inputs.jsonl"))
        assert unit.inputs == (source,)
        assert [row for batch in table.batches(["metric"]) for row in batch["metric"].to_pylist()] == [name]


def test_a_page_of_another_program_is_refused(tmp_path: Path) -> None:
    """A folder is this job's if it has a table of metrics; one without the named files is free."""
    (tmp_path / "index.html").write_text("mine")
    refuse_foreign(str(tmp_path), "metrics.csv")
    with pytest.raises(InputError, match=r"did not write its index\.html"):
        refuse_foreign(str(tmp_path), "metrics.csv", "index.html")
    ratings = write_table(tmp_path / "ratings", "ratings", [rating("i", "ann", "q", "1")])
    with pytest.raises(InputError, match=r"did not write its index\.html"):
        cli.execute("report", [f"ratings=[{ratings}]", f"out={tmp_path}"])
    (tmp_path / "sheet").mkdir()
    (tmp_path / "sheet" / "metrics.csv").touch()
    with pytest.raises(InputError, match=r"did not write its metrics\.csv"):
        cli.execute("report", ["input=ratings.csv", f"out={tmp_path}/sheet"])
    write_metrics(str(tmp_path), [undefined(MetricKind("a", definition="d"), "r")], inputs=[], identity={}, settings={})
    refuse_foreign(str(tmp_path), "index.html")


def test_the_name_of_a_table_is_what_it_is_about() -> None:
    names = {
        "R/ranked/clip-b32/metrics": "clip-b32",
        "R/ranked/clip-b32/metrics/": "clip-b32",
        "R/linked/lemma": "lemma",
        "s3://b/R/lemma/": "lemma",
        "metrics": "metrics",
        "/metrics": "metrics",
        "R/metrics/all": "all",
    }
    assert {uri: table_name(uri) for uri in names} == names


def test_metrics_are_as_they_were_written(tmp_path: Path) -> None:
    metrics = [
        Metric(name="mrr", definition="d", value=0.5, n=4, coverage=0.8, low=0.4, high=0.6, interval_method="bootstrap",
               dims={"encoder": "e"}),
        undefined(MetricKind("mrr", definition="d"), "no captions", status="missing_input", dims={"decade": "1900"}),
    ]  # fmt: skip
    uris = [
        write_units(tmp_path / name, "metrics", [metrics_table(of_table).to_pylist()])
        for name, of_table in (("clip/metrics", metrics), ("siglip", metrics[:1]))
    ]
    read = list(read_computed([open_table(uri) for uri in uris]))
    assert [metric.dims for metric in read] == [
        {"encoder": "e", "table": "clip"}, {"decade": "1900", "table": "clip"}, {"encoder": "e", "table": "siglip"}
    ]  # fmt: skip
    first, second, _ = read
    assert (first.name, first.value, first.n, first.coverage, first.low, first.high) == ("mrr", 0.5, 4, 0.8, 0.4, 0.6)
    assert (second.value, second.status, second.reason) == (None, "missing_input", "no captions")

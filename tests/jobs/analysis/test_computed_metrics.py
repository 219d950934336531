"""Metrics of other jobs: their dims with the name of their table."""

from pathlib import Path

from jobs.analysis.computed_metrics import read_computed, table_name
from jobs.metrics.metric import Metric, metrics_table, undefined
from jobs.store.reading import open_table
from tests.factories import write_units


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
        undefined("mrr", "d", "no captions", status="missing_input", dims={"decade": "1900"}),
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

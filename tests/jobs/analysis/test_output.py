"""The table of metrics in the folder of a page: its inputs, its replacement, and folders of other programs."""

from pathlib import Path

import pytest

from jobs.analysis.output import refuse_foreign, write_metrics
from jobs.errors import InputError
from jobs.metrics.metric import undefined
from jobs.runtime.command_line import cli
from jobs.store.files.objects import Object
from jobs.store.reading import open_table
from jobs.store.run_files import read_inputs, run_uri
from tests.factories import rating, write_table


def test_a_table_of_metrics_has_its_inputs_and_replaces_an_earlier_one(tmp_path: Path) -> None:
    for name in ("first", "second"):
        source = Object(f"memory/{name}", 1, "etag")
        manifest = write_metrics(
            str(tmp_path),
            [undefined(name, "definition", "reason")],
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
        cli.execute("analyze", ["input=ratings.csv", f"out={tmp_path}/sheet"])
    write_metrics(str(tmp_path), [undefined("a", "d", "r")], inputs=[], identity={}, settings={})
    refuse_foreign(str(tmp_path), "index.html")

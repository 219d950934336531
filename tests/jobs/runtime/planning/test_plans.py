"""plan=calibrate and the plans of pipelines, with whole jobs in the process of the test."""

import gzip
import html
import json
from pathlib import Path
from typing import Any

import pytest

from jobs.runtime.command_line import cli
from jobs.runtime.pipeline.pipeline_plan import plan_steps
from jobs.runtime.pipeline.pipelines import Step
from tests.in_process import stages_in_process

HEADER = "language\tpage_url\timage_url\tpage_title\tis_main_image\n"
FILES = 8
PIPELINE = """
name: own
inputs: {{corpus: "{folder}/*.tsv", terms: "{folder}/terms.txt"}}
steps:
  - job: mine
    set:
      corpus: wit
      corpus.path: "${{pipeline.inputs.corpus}}"
      terms.path: "${{pipeline.inputs.terms}}"
      out: "${{out}}/matches"
  - job: curate
    set: {{input: "${{out}}/matches", out: "${{out}}/records"}}
  - job: report
    set: {{matches: "${{out}}/matches", records: "${{out}}/records", out: "${{out}}/report"}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(FILES):
        row = f"en\thttps://p/{number}\thttps://i/{number}\twar {number}\ttrue\n"
        (tmp_path / f"part-{number}.tsv").write_text(HEADER + row * (number + 1))
    (tmp_path / "terms.txt").write_text("war\n")
    (tmp_path / "own.yaml").write_text(PIPELINE.format(folder=tmp_path))
    return tmp_path


def manifest(folder: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((folder / "R/matches/_run/manifest.json").read_text())
    return kept


def test_a_pipeline_is_planned_calibrated_run_and_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = [f"pipeline={folder}/own.yaml", f"out={folder}/R", "resources.prices=aws-us-east-1"]
    size = sum(path.stat().st_size for path in folder.glob("*.tsv"))

    def lines(*more: str) -> list[str]:
        assert cli.main("run", [*keys, *more]) == 0
        return [line.strip() for line in capsys.readouterr().out.splitlines() if not line.startswith("remine ")]

    with stages_in_process():
        first = lines("plan=true")
        assert not (folder / "R").exists()
        assert first[0].startswith(f"[1/3] mine: {FILES} units, ")
        assert first[1].startswith(f"time   unknown for {size:,} bytes: resources.measured=rates has no measurement")
        assert first[1].endswith("plan=calibrate does some units, which are kept, and measures the pace")
        assert first[2].startswith("money  USD 0.96 per hour for 1 x m6i.xlarge, ")
        waiting = "not planned: reads what step"
        assert first[3] == f"[2/3] curate: {waiting} 1 has not written yet"
        assert first[4] == f"[3/3] report: {waiting} 1, 2 has not written yet"
        assert first[5].startswith(f"total: {FILES} units, ")
        assert first[-1] == "not in these sums: 1 mine (no pace); 2 curate (no plan); 3 report (no plan)"

        tried = lines("plan=calibrate")
        assert "6 units done, 2 left" in tried[0]
        assert tried[1].startswith("pace ")
        assert tried[-1] == "not in these sums: 2 curate (no plan); 3 report (no plan)"
        assert any(line.startswith("money  USD ") for line in tried)
        assert not manifest(folder)["complete"]
        assert len(list((folder / "R/matches").glob("*.parquet"))) == 6
        (folder / "R/matches/_run/manifest.json").unlink()

        lines()
        kept = manifest(folder)
        assert kept["complete"]
        assert (kept["estimate"]["units"], kept["estimate"]["counted"]) == (6, "bytes")
        assert kept["estimate"]["left"] == kept["actual"]["done"] > 0
        assert kept["actual"]["currency"] == "USD"

        done = lines("plan=true")
        assert f"{FILES} units done, 0 left" in done[0]
        assert f"{FILES} units done, 0 left" in done[1]
        assert done[2] == "[3/3] report: not planned: report has no plan"
        page = (folder / "R/report/index.html").read_text()
        assert f"{kept['actual']['seconds']:,.1f} s, estimated " in page
        assert cli.main("run", keys) == 0
        assert manifest(folder)["actual"] == kept["actual"]  # of the run that did the units
        assert "time   0:00 h (0:00 h to 0:00 h)" in done


def test_a_step_waits_for_the_tables_that_it_names() -> None:
    """Also by a glob; not for one whose name merely begins in the same way."""
    values: dict[str, tuple[Any, bool]] = {
        "the table": ("R/images", True),
        "below it": ({"path": ["x", "R/images/*.parquet"]}, True),
        "a glob": (["R/im*"], True),
        "another table": ("R/images_1024", False),
        "what begins like it": ("s3://b/R/images", False),
        "no path": ("*", False),
    }
    steps = [Step("report", {"out": "R/images"}), *(Step("report", {"input": value}) for value, _ in values.values())]
    plans = plan_steps(steps, [object()] * len(steps), True)
    waits = {case: "step 1 has not written" in plan.unknown for case, plan in zip(values, plans[1:], strict=True)}
    assert waits == {case: expected for case, (_, expected) in values.items()}


def test_a_plan_from_a_committed_measurement_is_compared_with_the_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in folder.glob("*.tsv"):
        path.with_suffix(".tsv.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    pipeline = (folder / "own.yaml").read_text().replace("*.tsv", "*.tsv.gz")
    (folder / "own.yaml").write_text(pipeline)
    keys = [f"pipeline={folder}/own.yaml", f"out={folder}/R", "resources.prices=aws-us-east-1"]
    command = "python -m tests.benchmarks mine full"
    with stages_in_process():
        assert cli.main("run", [*keys, "plan=true"]) == 0
        printed = capsys.readouterr().out
        pace, time_line, cpus, *_ = (line.strip() for line in printed.splitlines() if line.startswith("      "))
        assert pace.startswith("pace ")
        assert command in pace
        assert time_line.startswith("time   0:01 h (0:01 h to 0:01 h) for ")
        assert cpus.startswith("CPUs   0.0 ")
        assert printed.count("CPU-hours") == 2  # of the step, and the sum
        assert "not in these sums: 2 curate (no plan); 3 report (no plan)" in printed
        assert cli.main("run", keys) == 0
    kept = manifest(folder)
    assert command in kept["estimate"]["source"]
    assert (kept["estimate"]["units"], kept["estimate"]["coverage"]) == (0, None)
    assert kept["estimate"]["seconds"]["low"] >= 4.0  # of which the start is most
    assert kept["actual"]["seconds"] > 0
    page = html.unescape((folder / "R/report/index.html").read_text())
    assert f"{kept['actual']['seconds']:,.1f} s, estimated " in page
    assert command in page


def test_unknown_measurements_are_refused_before_anything_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["corpus=wit", f"corpus.path={folder}/*.tsv", f"terms.path={folder}/terms.txt", f"out={folder}/M"]
    assert cli.main("mine", [*keys, "resources.measured=mars"]) == 2
    assert "resources.measured=mars: no such table of measurements" in capsys.readouterr().err
    assert not (folder / "M").exists()
    assert cli.main("mine", [*keys, "resources.measured=null", "plan=true"]) == 0
    assert "time   unknown" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("job", "keys"),
    [
        ("mine", ["plan=later"]),
        ("curate", ["input=x", "plan=calibrate"]),
        ("kb", ["knowledge_base.path=x", "plan=calibrate"]),
        ("run", ["pipeline=tric", "pipeline.inputs.split=x", "plan=later"]),
    ],
)
def test_other_values_of_plan_are_refused(
    job: str, keys: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if job == "mine":
        keys = [*keys, "corpus=wit", "corpus.path=x", "terms.path=x"]
    assert cli.main(job, [*keys, f"out={tmp_path}/R"]) == 2
    assert "plan=" in capsys.readouterr().err


def test_a_plan_refuses_an_actor_that_no_machine_of_the_cluster_has_room_for(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    keys = [
        "corpus=wit",
        f"corpus.path={folder}/*.tsv",
        f"terms.path={folder}/terms.txt",
        f"out={folder}/R",
        "plan=true",
    ]
    assert cli.main("mine", [*keys, "resources=cluster"]) == 0
    assert cli.main("mine", [*keys, "resources=cluster", "resources.mine.num_cpus=64"]) == 2
    assert "resources.mine.num_cpus=64: no machine can fit one actor" in capsys.readouterr().err
    assert cli.main("mine", [*keys, "resources.mine.num_cpus=64"]) == 0  # another machine may have them

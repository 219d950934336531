"""`plan=true` of jobs that the driver does alone: the plan is printed, and nothing is written."""

from dataclasses import fields
from pathlib import Path

import pytest

from jobs.runtime.command_line import cli
from tests.cases import check_cases
from tests.jobs.small_jobs import SMALL_JOBS, job_of, write_small_jobs


def test_a_plan_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = write_small_jobs(tmp_path / "inputs")

    def check(name: str) -> None:
        job, out = job_of(name), tmp_path / "out"
        assert cli.main(job, [*commands[name], f"out={out}", "plan=true"]) == 0
        assert not out.exists()
        assert str(out) in (printed := capsys.readouterr().out) or "would" in printed

    planned = {name for name in SMALL_JOBS if "plan" in {key.name for key in fields(cli.job(job_of(name)).schema)}}
    assert planned > {"annotate", "calibrate", "copy", "import_ratings", "link names", "question_scores"}
    check_cases(check, sorted(planned))

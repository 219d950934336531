"""A run whose rows are all errors ends with exit code 1; one whose rows have other statuses does not."""

from pathlib import Path
from typing import Any

import pytest

from jobs.errors import RunError
from jobs.runtime.command_line import cli
from jobs.runtime.outcomes import check_outcome
from tests.actors.vlm.helpers import png
from tests.factories import rows_of, write_table

pytestmark = pytest.mark.usefixtures("in_process")


def outcome(**status: int) -> dict[str, Any]:
    failures = {f"{name}/boom": {"rows": n, "where": "i1", "message": "why"} for name, n in status.items() if n}
    return {"counts": {"status": status, "failures": failures}}


def test_a_run_of_errors_alone_has_failed() -> None:
    for status in ({"error": 1}, {"error": 6, "ok": 0}, {"error": 2, "missing_input": 5}, {"error": 1, "skipped": 1}):
        for returned in (outcome(**status), {"images": outcome(**status), "items": outcome()}):
            with pytest.raises(RunError, match=rf"{status['error']} error \(boom\), for example i1: why"):
                check_outcome(returned)
    for status in ({}, {"ok": 3}, {"error": 99, "ok": 1}, {"missing_input": 3}, {"refused": 2, "error": 5}):
        check_outcome(outcome(**status))
    others: list[object] = [None, [], 3, {"counts": None}, {"a": 1}, {"counts": {"rows_in": 0}}]
    for other in others:
        check_outcome(other)


def test_a_job_whose_rows_are_all_errors_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(name: str, rows: list[dict[str, Any]]) -> int:
        pictures = [{"image_id": f"p{n}", "rendition": "original", **row} for n, row in enumerate(rows)]
        write_table(tmp_path / name, "images", pictures)
        keys = [f"input={tmp_path}/{name}", "embedder=local-tiny", f"out={tmp_path}/{name}-out"]
        code = cli.main("embed", keys)
        assert cli.main("embed", keys) == code, "the same command again"
        assert len(rows_of(f"{tmp_path}/{name}-out")) == len(rows), "what is written is kept"
        return code

    broken, missing = {"status": "ok", "bytes": b"no picture"}, {"status": "missing", "bytes": None}
    whole = {"status": "ok", "bytes": png(1)}
    assert run("errors", [broken, broken]) == 1
    assert "every row that was worked on failed (2 error (not_an_image), for example p0" in capsys.readouterr().err
    assert run("missing", [missing, missing]) == 0
    assert run("with-one-good", [broken, broken, whole]) == 0

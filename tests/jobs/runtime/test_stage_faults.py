"""Work units whose rows or actors fail: an error or a message each, and the other units written."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs.errors import RunError
from jobs.runtime import stages
from jobs.runtime.configuration.resources import Resources, StageResources, TaskResources
from tests.in_process import stages_in_process
from tests.jobs.runtime.cluster.numbered_units import (
    POISON,
    Finish,
    Poisoned,
    go,
    numbered_but_one,
    opened,
    units_there,
)

pytestmark = pytest.mark.timeout(600)


def test_an_actor_that_loses_a_row_is_named_and_its_unit_not_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = opened(str(out), [64, 64])
    with (
        stages_in_process(),
        pytest.raises(RunError, match=r"stage Finish: returned 63 rows for 64, expected 1 per row") as caught,
    ):
        go(run, tmp_path / "log", {"u001-005": "drop"})
    assert caught.value.exit_code == 1
    assert "u001" not in units_there(out)
    with pytest.raises(RunError, match="units were not written"):
        run.finish()


@pytest.mark.long
@pytest.mark.usefixtures("ray_session")
def test_an_actor_that_cannot_be_built_says_why(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^a worker failed: FileNotFoundError: no weights at nowhere"):
        go(opened(str(tmp_path / "out"), [3]), tmp_path / "log", weights="nowhere")
    assert not units_there(tmp_path / "out")


@pytest.mark.parametrize("actors", [pytest.param(1, id="warm"), pytest.param(2, id="pool", marks=pytest.mark.torture)])
@pytest.mark.long
@pytest.mark.usefixtures("ray_session")
def test_poisoned_rows_are_errors_and_the_rest_of_their_unit_is_kept(tmp_path: Path, actors: int) -> None:
    run = opened(str(tmp_path / "out"), [4, 2, 16])
    rows = {f"u002-{number:03}": fault for number, fault in enumerate(POISON, 5)}
    pool = StageResources(actors=actors, num_cpus=0.2, row_timeout_s=3)
    resources = Resources(decode=pool, embed=pool, read=TaskResources(0.3), write=TaskResources(0.3))
    read = stages.Read(numbered_but_one, item="item", output_item="image_id")
    chain = [stages.Stage("embed", Finish, {"faults": rows})]
    stages.stream(run, name="test", read=read, stages=chain, resources=resources)
    with pytest.raises(RunError, match=r"1 of 3 units were not written; u001: the process that reads it ended 3 times"):
        run.finish()
    assert units_there(tmp_path / "out") == {"u000", "u002"}
    written = pq.read_table(tmp_path / "out" / "u002.parquet").to_pylist()
    kinds = {row["image_id"]: row["error_kind"] for row in written if row["status"] == "error"}
    assert kinds.keys() == rows.keys()
    for item, fault in rows.items():  # a process that starts again after more than three seconds looks like a hang
        assert kinds[item] in {POISON[fault], "timed_out" if fault in ("exit", "kill") else None}, fault
    assert [row["status"] for row in written].count("ok") == 16 - len(POISON)


@pytest.mark.long
@pytest.mark.usefixtures("ray_session")
def test_poisoned_units_are_left_out_and_named(tmp_path: Path) -> None:
    run = opened(str(tmp_path / "out"), [0] * 5)
    faults = {"u001": "raise", "u002": "exit", "u003": "hang"}
    resources = Resources(mine=StageResources(actors=2, num_cpus=0.2, row_timeout_s=3))
    stage = stages.Stage("mine", Poisoned, {"faults": faults})
    stages.process(run, name="test", stage=stage, resources=resources, total=None, counted="rows")
    assert units_there(tmp_path / "out") == {"u000", "u004"}
    assert run.given_up["u001"] == "Poisoned failed: ValueError: this picture is cursed"
    assert set(run.given_up) == set(faults)
    with pytest.raises(RunError, match="3 of 5 units were not written"):
        run.finish()

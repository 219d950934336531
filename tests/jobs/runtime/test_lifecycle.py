"""Configurations that can be refused without a cluster are refused before Ray is imported."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from jobs.errors import InputError
from jobs.runtime import lifecycle
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.resources import Demand, RayConfig, Resources
from jobs.runtime.process import signals
from jobs.store.files.objects import Object
from jobs.store.runs.table_run import check_place, open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from tests.in_process import stages_in_process

ROOT = Path(__file__).parents[3]
REFUSED = """
import json, sys
from jobs.runtime.command_line import cli
for arguments in json.loads(sys.argv[1]):
    code = cli.main("mine", arguments)
    print(json.dumps([code, "ray" in sys.modules]))
"""


def plan(out: Path, **changed: Any) -> TablePlan:
    units = [Unit("u", (Object("file:///u", 1, "1"),), rows=1)]
    asked: dict[str, Any] = {"table": "images", "identity": {"a": 1}, "units": units, **changed}
    return TablePlan(str(out), config={}, metadata={}, derived=True, **asked)


def test_a_free_place_and_a_table_to_be_continued_pass(tmp_path: Path) -> None:
    out = tmp_path / "out"
    check_place(plan(out), resume=False, overwrite=False, retry=[])
    assert not out.exists()
    run = open_run(plan(out), resume=False, overwrite=False, retry=[])
    before = sorted((p, p.stat().st_mtime_ns) for p in out.rglob("*"))
    check_place(plan(out), resume=True, overwrite=False, retry=["error"])
    check_place(plan(out, identity={"a": 2}), resume=False, overwrite=True, retry=[])
    assert sorted((p, p.stat().st_mtime_ns) for p in out.rglob("*")) == before
    assert run.todo  # its lock is still its own


@pytest.mark.parametrize(
    ("changed", "settings", "key"),
    [
        ({"identity": {"a": 2}}, {}, "a was 1, now 2"),
        ({"table": "records"}, {}, "'images'"),
        ({"units": [Unit("v", (Object("file:///v", 1, "1"),), rows=1)]}, {}, "file:///u is gone"),
        ({}, {"resume": False}, "resume=false"),
        ({}, {"retry": ["eror"]}, "retry=eror"),
    ],
    ids=["identity", "table", "inputs", "resume", "retry"],
)
def test_refusals_of_the_opening_come_from_the_check_too(
    tmp_path: Path, changed: dict[str, Any], settings: dict[str, Any], key: str
) -> None:
    out = tmp_path / "out"
    open_run(plan(out), resume=True, overwrite=False, retry=[])
    asked: dict[str, Any] = {"resume": True, "overwrite": False, "retry": [], **settings}
    for refuse in (check_place, open_run):
        with pytest.raises(InputError, match=key):
            refuse(plan(out, **changed), **asked)


def test_a_table_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = open_run(plan(out), resume=True, overwrite=False, retry=[])
    del run  # gives its lock back
    folder = os.open(out / "_run", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        with pytest.raises(InputError, match="another process is writing"):
            check_place(plan(out), resume=True, overwrite=False, retry=[])
    finally:
        os.close(folder)
    check_place(plan(out), resume=True, overwrite=False, retry=[])
    open_run(plan(out), resume=True, overwrite=False, retry=[])


def test_this_machine_is_checked_before_a_ray_is_started_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: started.append("ray"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(InputError, match=r"needs 9 CPUs .* this machine has 2;"):
        ray_session.start(RayConfig(num_cpus=2), Resources(), [Demand("mine", 9, 1, 0)])
    with pytest.raises(InputError, match=r"needs 64 GPUs .* this machine has \d+;"):
        ray_session.start(RayConfig(), Resources(), [Demand("mine", 64, 0, 1)])
    assert started == []


def test_a_refused_job_never_imports_ray(tmp_path: Path) -> None:
    from jobs.runtime.command_line import cli

    (tmp_path / "part.tsv").write_text("language\tpage_url\timage_url\tpage_title\tis_main_image\n")
    (tmp_path / "terms.txt").write_text("riot\n")
    out, other = tmp_path / "out", tmp_path / "foreign"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    keys = [f"corpus.path={tmp_path}/part.tsv", f"terms.path={tmp_path}/terms.txt"]
    with stages_in_process():
        assert cli.main("mine", [*keys, f"out={out}"]) == 0
    asked = [
        [*keys, f"out={out}", "corpus.language=de"],
        [*keys, f"out={out}", "resume=false"],
        [*keys, f"out={out}", "retry=[eror]"],
        [*keys, f"out={other}"],
        [*keys, f"out={tmp_path}"],
        [*keys, f"out={tmp_path}/new", "ray.address=127.0.0.1:1"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, json.dumps(asked)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[2, False]] * len(asked), done.stderr


def test_a_complete_table_starts_no_ray_and_one_that_lost_a_unit_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from jobs.runtime.command_line import cli

    (tmp_path / "part.tsv").write_text("language\tpage_url\timage_url\tpage_title\tis_main_image\n")
    (tmp_path / "terms.txt").write_text("riot\n")
    out = tmp_path / "out"
    keys = [f"corpus.path={tmp_path}/part.tsv", f"terms.path={tmp_path}/terms.txt", f"out={out}"]
    with stages_in_process():
        assert cli.main("mine", keys) == 0
    started: list[Any] = []
    monkeypatch.setattr(ray_session, "start", lambda *_: started.append(1))
    assert cli.main("mine", keys) == 0
    assert started == []
    assert "1 done before" in capsys.readouterr().out
    (unit,) = out.glob("*.parquet")
    unit.unlink()
    with stages_in_process():
        monkeypatch.setattr(ray_session, "start", lambda *_: started.append(1))
        assert cli.main("mine", keys) == 0
    assert started == [1]
    assert unit.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_signal_while_ray_starts_ends_the_processes_that_it_had_started(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    started: list[Any] = []

    def interrupted(**_: Any) -> None:
        started.append(subprocess.Popen(["sleep", "600"]))
        raise error

    before = subprocess.Popen(["sleep", "600"])
    try:
        monkeypatch.setattr(ray, "init", interrupted)
        monkeypatch.setattr(signals, "settle", lambda: None)
        with pytest.raises(KeyboardInterrupt):
            ray_session._start_here(RayConfig(), Resources())
        assert started[0].wait(20) == -signal.SIGKILL
        assert before.poll() is None
    finally:
        before.kill()


def test_a_calibration_tries_some_units_and_a_complete_table_needs_no_ray(tmp_path: Path) -> None:
    def complete(manifest: str | None, **keys: Any) -> bool:
        folder = tmp_path / "t" / "_run"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "manifest.json").unlink(missing_ok=True)
        if manifest is not None:
            (folder / "manifest.json").write_text(manifest)
        cfg: Any = SimpleNamespace(**{"overwrite": False, "retry": [], **keys})
        plan: Any = SimpleNamespace(out=f"{tmp_path}/t")
        return lifecycle._is_complete(cfg, plan)

    whole = '{"complete": true}'
    assert complete(whole)
    assert not any([complete(None), complete('{"complete": false}'), complete("{}"), complete(whole, overwrite=True)])
    assert not complete(whole, retry=["error"])

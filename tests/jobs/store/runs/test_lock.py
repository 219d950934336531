"""Two processes do not write one table; what one process does twice is its own affair."""

import _thread
import fcntl
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.locations import find
from jobs.store.run_files import run_uri
from jobs.store.runs import lock
from jobs.store.runs.lock import Holder
from jobs.store.runs.table_run import check_place, open_run, survey
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from tests.jobs.store.small_runs import begin, complete, contents, open_below, plan, write

ROOT = Path(__file__).resolve().parents[4]
HOLDER = """
import sys
from jobs.store.runs import lock
lock.acquire(sys.argv[1])
print('held', flush=True)
sys.stdin.read()
"""


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "out")


def test_a_table_that_another_process_writes_is_refused_until_that_ends(out: str) -> None:
    complete(plan(out))
    before = contents(out)
    arguments = [sys.executable, "-c", HOLDER, out]
    with subprocess.Popen(arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        for overwrite in (False, True):
            with pytest.raises(InputError, match="another process is writing this table"):
                begin(plan(out), overwrite=overwrite)
            with pytest.raises(InputError, match="another process is writing this table"):
                check_place(plan(out), resume=True, overwrite=overwrite, retry=[])
        assert contents(out) == before
        holder.kill()
    check_place(plan(out), resume=True, overwrite=False, retry=[])
    assert lock.acquire(out), "the check leaves no lock"
    lock.release(out)
    assert begin(plan(out)).todo == []


def test_a_failed_run_leaves_no_lock_once_nothing_refers_to_it(out: str) -> None:
    run = begin(plan(out))
    assert not lock.acquire(out)  # it is this process's already
    assert begin(plan(out)).todo  # which may open its own table again
    del run
    complete(plan(out))
    assert lock.acquire(out)
    lock.release(out)


def test_a_lock_that_is_not_taken_leaves_no_file_open(out: str) -> None:
    complete(plan(out))
    with (Path(out) / "_run" / "identity.json").open() as file:
        assert len(open_below(Path(out))) == 1
        folder = os.open(Path(out) / "_run", os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process is writing this table"):
            lock.acquire(out)
        os.close(folder)
        assert open_below(Path(out)) == [file.name]
    assert [lock.acquire(out) for _ in range(3)] == [True, False, False]
    assert open_below(Path(out)) == [f"{out}/_run"]
    lock.release(out)
    assert open_below(Path(out)) == []


def test_a_lease_is_taken_once_and_only_of_a_table(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(plan(out))
    released: list[str] = []
    monkeypatch.setattr(lock, "Lease", lambda uri: SimpleNamespace(release=lambda: released.append(uri)))
    for _ in range(2):
        assert [lock._acquire_lease(uri) for uri in (f"{out}/none", out, out)] == [False, True, False]
        lock.release(out)
    assert released == [out, out]


def test_a_refusal_leaves_no_lock(out: str) -> None:
    complete(plan(out))
    with pytest.raises(InputError, match="another configuration"):
        begin(plan(out, identity={"rules": {"x": 2}}))
    assert lock.acquire(out)
    lock.release(out)


def test_units_that_another_configuration_wrote_over_are_not_done(out: str) -> None:
    """On S3, where no lock is: the other run's overwrite=true and this one's units in one place."""
    first = begin(plan(out))
    for task in first.todo:
        write(first, task)
    second = plan(out, identity={"rules": {"x": 2}})
    replaced = begin(second, overwrite=True)
    for task in first.todo:
        write(first, task)  # the first run has not noticed
    again = begin(second)
    assert [task.unit.name for task in again.todo] == [task.unit.name for task in replaced.todo]
    for task in again.todo:
        write(again, task)
    again.finish()


def test_a_plan_is_refused_where_the_run_would_be(out: str, tmp_path: Path) -> None:
    complete(plan(out))
    assert survey(plan(out)).done == 3
    other = plan(out, identity={"rules": {"x": 2}})
    with pytest.raises(InputError, match=r"another configuration: rules\.x was 1, now 2"):
        survey(other)
    assert survey(other, overwrite=True).done == 0
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").touch()
    with pytest.raises(InputError, match="not a table that remine wrote"):
        survey(plan(str(tmp_path / "foreign")))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_table_is_not_written_where_its_input_lies(out: str, overwrite: bool) -> None:
    complete(plan(out))
    before = contents(out)
    source = next(Path(out).glob("*.parquet"))
    derived = TablePlan(out, "node_images", {"rules": 1}, [Unit("a", tuple(find(str(source))))], {}, {}, derived=True)
    with pytest.raises(InputError, match="is the table that this job reads"):
        open_run(derived, resume=True, overwrite=overwrite, retry=[])
    assert contents(out) == before


class TestLease:
    """On S3."""

    @pytest.fixture
    def table(self, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(lock, "SETTLE_S", (0.0, 0.0))  # no other process writes at the same time
        uri = f"{s3}/{tmp_path.name}/out"
        complete(plan(uri))
        return uri

    def test_another_host_is_waited_for_until_its_lease_expires(
        self, table: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = time.time()
        other = lock.Holder("head-2", 7, now)
        with monkeypatch.context() as patch:
            patch.setattr(lock.Holder, "this_process", staticmethod(lambda: other))
            assert lock.acquire(table)
        lock._leases.pop(table)._released.set()  # it is another process's
        for overwrite in (False, True):
            with pytest.raises(
                InputError, match=r"process 7 on head-2 is writing this table; wait .* or 1\d\d s after"
            ):
                begin(plan(table), overwrite=overwrite)
        taken = lock.Lease(table, clock=lambda: now + 2 * lock.LEASE_S)
        assert taken._is_ours()
        taken.release()
        assert not locations.exists(run_uri(table, lock.LEASE))

    def test_a_process_of_this_host_that_was_killed_is_not_waited_for(self, table: str) -> None:
        holder = subprocess.run([sys.executable, "-c", HOLDER, table], cwd=ROOT, input=b"", check=True, timeout=120)
        assert holder.returncode == 0
        ended = lock.Holder(socket.gethostname(), 2**22 - 1, 0.0)
        content = {"holder": asdict(ended), "until": time.time() + lock.LEASE_S}
        locations.replace(run_uri(table, lock.LEASE), json.dumps(content).encode())
        run = begin(plan(table), overwrite=True)  # which deletes all but the lease
        assert lock._leases[table]._is_ours()
        complete(plan(table))
        del run
        locations.replace(run_uri(table, lock.LEASE), b"damaged")
        assert lock.acquire(table)
        lock.release(table)

    def test_a_lease_is_renewed_until_another_process_has_it(self, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
        interrupted: list[bool] = []
        monkeypatch.setattr(_thread, "interrupt_main", lambda _: interrupted.append(True))
        monkeypatch.setattr(lock, "RENEW_S", 0.01)
        clock = itertools.count(1e9)
        held = lock.Lease(table, clock=lambda: float(next(clock)))
        first = lock._read_lease(run_uri(table, lock.LEASE))
        while (read := lock._read_lease(run_uri(table, lock.LEASE))) == first:
            time.sleep(0.01)
        assert read is not None
        content = {**read, "holder": asdict(lock.Holder("head-2", 7, 0.0))}
        while not interrupted:  # a renewal may write over it once
            locations.replace(run_uri(table, lock.LEASE), json.dumps(content).encode())
            time.sleep(0.1)
        assert held.is_lost
        held.release()
        assert locations.exists(run_uri(table, lock.LEASE))  # it is the other's

    def test_a_lease_that_is_released_while_it_is_renewed_is_not_lost(
        self, table: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The run has ended: its process, perhaps at the next step of a pipeline, must not be interrupted."""
        interrupted: list[bool] = []
        monkeypatch.setattr(_thread, "interrupt_main", lambda _: interrupted.append(True))
        monkeypatch.setattr(lock, "RENEW_S", 0.01)
        read, renewing, released = lock._read_lease, threading.Event(), threading.Event()

        def paused(uri: str) -> Any:
            if threading.current_thread().name == "lease":
                renewing.set()
                released.wait(1)
            return read(uri)

        monkeypatch.setattr(lock, "_read_lease", paused)
        held = lock.Lease(table)
        assert renewing.wait(60)
        held.release()
        released.set()
        time.sleep(0.3)
        assert not held.is_lost
        assert not interrupted
        assert not locations.exists(run_uri(table, lock.LEASE))


def test_a_process_with_a_reused_number_is_another_one() -> None:
    holder = Holder.this_process()
    assert not holder.has_ended()
    assert replace(holder, started=holder.started - 100).has_ended()
    assert not replace(holder, started=holder.started - 100, host="elsewhere").has_ended()  # of others nothing is known
    assert replace(holder, pid=2**22 + 1).has_ended()  # more than Linux gives

"""Two processes that claim one table on S3 at the same time: one of them writes it, and configurations never mix."""

import itertools
import json
import os
import signal
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from jobs.errors import InputError, RunError
from jobs.runtime.command_line import cli
from jobs.runtime.process import signals
from jobs.store.files import locations
from jobs.store.run_files import IDENTITY, read_json, run_uri
from jobs.store.runs import lock
from tests.fault_proxy import FaultProxy, through
from tests.jobs.store.racing import Racer, race
from tests.jobs.store.small_runs import ALL_ROWS, begin, complete, contents, plan, write

TAKE = """
import sys
from jobs.errors import InputError
from jobs.store.runs import lock
refuse = lock.Lease._refuse_other
calls = []

def pausing(self):
    refuse(self)
    if not calls:
        calls.append(1)
        print("ready", flush=True)
        sys.stdin.readline()

lock.Lease._refuse_other = pausing
try:
    lock.Lease(sys.argv[1])
    print("taken", flush=True)
    sys.stdin.readline()
except InputError:
    print("refused", flush=True)
"""


@pytest.fixture
def out(s3: str, tmp_path: Path) -> str:
    return f"{s3}/{tmp_path.name}/table"


@pytest.mark.parametrize("identities", [(1, 1), (1, 2)], ids=["same configuration", "two configurations"])
def test_one_of_two_runs_writes_the_table(racers: list[Racer], out: str, identities: tuple[int, int]) -> None:
    opened, answers = race(racers, out, identities)
    assert len(opened) == 1, answers
    refusal = next(answer for answer in answers if answer != "opened")
    assert "is writing this table" in refusal or "another configuration" in refusal
    opened[0].go_on()
    assert opened[0].read() == "finished"
    identity = identities[racers.index(opened[0])]
    assert read_json(run_uri(out, IDENTITY))["rules"] == {"x": identity}
    assert contents(out) == ALL_ROWS
    assert complete(plan(out, identity={"rules": {"x": identity}}))["complete"]  # the refused command, later


@pytest.mark.long
def test_two_configurations_on_a_store_that_ignores_conditions(racers: list[Racer], out: str) -> None:
    with FaultProxy(os.environ["AWS_ENDPOINT_URL"]) as proxy, through(proxy):
        proxy.ignores_conditions = True
        opened, answers = race(racers, out, (1, 2))
        assert len([answer for answer in answers if "ignores conditional writes" in answer]) == 2
        assert len(opened) <= 1, answers
        for racer in opened:
            racer.go_on()
            assert racer.read() == "finished"
            assert contents(out) == ALL_ROWS  # readers refuse units of two configurations
            with pytest.raises(InputError, match="another configuration"):
                begin(plan(out, identity={"rules": {"x": 3}}))


@pytest.mark.long
def test_one_of_two_takes_over_an_expired_lease(racers: list[Racer], out: str) -> None:
    complete(plan(out))
    expired = {"holder": asdict(lock.Holder("head-2", 7, 0.0)), "until": time.time() - 1}
    locations.replace(run_uri(out, lock.LEASE), json.dumps(expired).encode())
    racers += [Racer(TAKE, out), Racer(TAKE, out)]
    assert [racer.read() for racer in racers] == ["ready", "ready"]
    for racer in racers:
        racer.go_on()
    assert sorted(racer.read() for racer in racers) == ["refused", "taken"]


def test_a_run_that_lost_its_lease_is_interrupted_and_writes_no_manifest(
    out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "RENEW_S", 0.05)
    run = begin(plan(out))
    stolen = {"holder": asdict(lock.Holder("head-2", 7, 0.0)), "until": time.time() + 100}

    def execute(_: object) -> None:
        for task in run.todo:
            write(run, task)
        for _ in itertools.count():
            locations.replace(run_uri(out, lock.LEASE), json.dumps(stolen).encode())  # a renewal may write over it once
            time.sleep(0.1)

    monkeypatch.setattr(cli, "job", lambda name: cli.Job(name, object, execute))
    monkeypatch.setattr(signals, "_received", [])  # a signal that this process received decides its exit code
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
    signals.listen()
    try:
        with pytest.raises(RunError, match="another process took over"):
            cli.execute_loaded("mine", None, [])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert lock._read_lease(run_uri(out, lock.LEASE)) == stolen

"""Processes that claim one table at the same moment."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Waits before the claim, and again before the first unit, until the test writes a line.
RUN = """
import logging, sys
from jobs.errors import InputError, RunError
from jobs.store.runs import table_run
from tests.jobs.store.small_runs import begin, plan, write

def pause(word):
    print(word, flush=True)
    sys.stdin.readline()

claim = table_run.claim
table_run.claim = lambda *arguments: (pause("ready"), claim(*arguments))
logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
try:
    opened = begin(plan(sys.argv[1], identity={"rules": {"x": int(sys.argv[2])}}))
    pause("opened")
    for task in opened.todo:
        write(opened, task)
    opened.finish()
    print("finished", flush=True)
except (InputError, RunError) as error:
    print(f"refused: {error}", flush=True)
"""

# A whole command, which waits before its claim.
COMMAND = """
import sys
from jobs.runtime.command_line import cli
from jobs.store.runs import table_run

claim = table_run.claim

def pause_and_claim(*arguments):
    print("ready", flush=True)
    sys.stdin.readline()
    claim(*arguments)

table_run.claim = pause_and_claim
sys.stderr = sys.stdout
print(f"exit code {cli.main(sys.argv[1], sys.argv[2:])}", flush=True)
"""
EXIT_CODE = "exit code "


class Racer:
    """A process that pauses where the race begins."""

    def __init__(self, program: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def race(racers: list[Racer], out: str, identities: tuple[int, int]) -> tuple[list[Racer], list[str]]:
    """Claim `out` by a run of each identity at the same time; returns the runs that opened it, and other answers."""
    racers += [Racer(RUN, out, str(identity)) for identity in identities]
    warnings = []
    for racer in racers:
        while (line := racer.read()) != "ready":
            warnings.append(line)
    for racer in racers:
        racer.go_on()
    answers = [racer.read() for racer in racers]
    return [racer for racer, answer in zip(racers, answers, strict=True) if answer == "opened"], answers + warnings


def race_commands(racers: list[Racer], job: str, commands: list[list[str]]) -> list[tuple[int, str]]:
    """Run commands of `job` that claim their table at the same time; returns their exit codes and last lines."""
    racers += [Racer(COMMAND, job, *arguments) for arguments in commands]
    for racer in racers:
        while racer.read() != "ready":
            pass
    for racer in racers:
        racer.go_on()
    return [_end(racer) for racer in racers]


def _end(racer: Racer) -> tuple[int, str]:
    last = ""
    while not (line := racer.read()).startswith(EXIT_CODE):
        assert racer.process.poll() is None or line, last
        last = line or last
    return int(line.removeprefix(EXIT_CODE)), last

"""Exit codes, help, what a command imports, and how signals end it."""

import errno
import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from jobs.errors import InputError, RunError
from jobs.runtime.command_line import cli, commands, help_text
from jobs.runtime.configuration.key_types import UNKNOWN, type_of
from jobs.runtime.process import signals
from jobs.runtime.process.console import say
from jobs.store.files import locations
from jobs.store.runs import lock
from jobs.verify import VerifyConfig
from tests.cases import check_cases
from tests.factories import write_table

ROOT = Path(__file__).resolve().parents[4]


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        (None, 0, ""),
        (RunError("it broke"), 1, "error: it broke\n"),
        (InputError("no input"), 2, "error: no input\n"),
        (KeyboardInterrupt(), 130, "interrupted: completed units are kept; run the same command again to resume\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/full/x"),
            1,
            "error: /full/x: No space left on device; free space there. "
            "Completed units are kept; run the same command again to resume.\n",
        ),
        (signals.Terminated(), 143, "interrupted: completed units are kept; run the same command again to resume\n"),
    ]

    def check(raised: BaseException | None, code: int, message: str) -> None:
        def execute(name: str, overrides: list[str]) -> None:
            if raised is not None:
                raise raised

        monkeypatch.setattr(cli, "execute", execute)
        monkeypatch.setattr(signals, "settle", lambda: None)  # it would leave this process deaf to Ctrl-C
        assert cli.main("curate", ["input=x"]) == code
        assert capsys.readouterr().err == message

    check_cases(check, cases)


def test_a_job_that_cannot_resume_does_not_promise_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(name: str, overrides: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "execute", execute)
    monkeypatch.setattr(signals, "settle", lambda: None)
    assert cli.main("view", ["R"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_bug_is_not_dressed_up_as_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(name: str, overrides: list[str]) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "execute", execute)
    with pytest.raises(ZeroDivisionError):
        cli.main("verify", [])


def test_help_and_cfg_of_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    def check(name: str) -> None:
        assert cli.main(name, ["--help"]) == 0
        printed = capsys.readouterr().out
        assert re.search(rf"(python -m jobs\.|remine ){name}\b", printed)
        for key in help_text.keys(name, cli.job(name).schema):
            assert f"  {key.name}" in printed
        assert [line for line in printed.splitlines() if len(line) > help_text.WIDEST] == []
        schema = cli.job(name).schema
        place = next(key for key in ("out", "input", "inputs", "a") if type_of(schema, key) is not UNKNOWN)
        assert cli.main(name, ["--cfg", f"--{place}", "somewhere"]) == 0
        assert "somewhere" in capsys.readouterr().out

    check_cases(check, commands.JOBS)


def test_the_module_lists_all_jobs_and_exits_as_main_says(tmp_path: Path) -> None:
    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    listed = python("jobs")
    assert listed.returncode == 0
    assert re.findall(r"^  (\w+) +\S", listed.stdout, re.M) == list(commands.JOBS)
    for unknown in (["jobs.verfy"], ["jobs", "verfy"]):
        refused = python(*unknown)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith("error: verfy: no such job (did you mean verify?)")
    for module in (["jobs.verify"], ["jobs", "verify"]):
        failed = python(*module, f"input={tmp_path}")
        assert (failed.returncode, failed.stdout) == (2, "")
        assert failed.stderr.startswith(f"error: input={tmp_path}: no table here (no .parquet objects)")


def test_a_misspelt_job_is_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_command(["jugde", "input=x"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: jugde: no such job (did you mean judge?); must be one of analyze, "
    )


def test_an_option_before_the_job_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_command(["--overwrite", "mine"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: --overwrite: no such option")
    for asked in ([], ["--help"], ["help"]):
        assert commands.run_command(asked) == 0
        assert "mine" in capsys.readouterr().out


def test_help_may_be_asked_for_before_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_command(["help", "ls"]) == 0
    assert "inputs" in capsys.readouterr().out
    assert commands.run_command(["help", "jugde"]) == 2
    assert capsys.readouterr().err.startswith("error: jugde: no such job (did you mean judge?)")


def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_command(["--version"]) == 0
    assert cli.main("verify", ["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second == f"remine {metadata.version('remine')}, Python {platform.python_version()}"


IMPORTED = """
import sys
from jobs.runtime.command_line import commands

code = commands.run_command({arguments!r})
print(*sorted(sys.modules))
sys.exit(code)
"""
MODELS = {"ray", "torch", "transformers", "open_clip"}
DRAWING = {"matplotlib", "scipy", "pandas"}


def test_lists_help_and_refusals_import_little() -> None:
    # Each takes seconds to import, and a folder that does not exist is refused before a model is built.
    cases: dict[tuple[str, ...], tuple[int, set[str]]] = {
        (): (0, MODELS | DRAWING | {"omegaconf", "yaml", "pyarrow", "numpy"}),
        ("completion", "bash"): (0, MODELS | DRAWING | {"omegaconf", "yaml", "pyarrow", "numpy"}),
        ("judge", "--help"): (0, MODELS | DRAWING | {"jinja2", "pyarrow.compute"}),
        ("report", "--help"): (0, MODELS | DRAWING),
        ("embed", "nokey=1"): (2, MODELS | DRAWING),
        ("run",): (2, MODELS | DRAWING),
        ("judge", "input=nothing", "model=local-tiny", "rubric=dsg", "out=o"): (2, MODELS | DRAWING),
        ("zero_shot", "input=nothing", "embedder=local-tiny", "targets=[a,b]", "out=o"): (2, MODELS | DRAWING),
        ("generate_images", "input=nothing", "out=o"): (2, MODELS | DRAWING),
    }
    for arguments, (code, banned) in cases.items():
        process = subprocess.run(
            [sys.executable, "-c", IMPORTED.format(arguments=list(arguments))],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (process.returncode, process.stderr[:7]) == (code, "error: "[: 7 * (code > 0)]), arguments
        assert banned & set(process.stdout.splitlines()[-1].split()) == set(), arguments


def test_a_closed_pipe_does_not_end_a_run() -> None:
    talkative = (
        "from jobs.runtime.process.console import say; [say('x' * 100_000) for _ in range(20)]; say('done', err=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", talkative], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == "done\n"
    assert process.returncode == 0


def test_a_terminal_without_the_letters_gets_a_mark_instead() -> None:
    process = subprocess.run(
        [sys.executable, "-c", "from jobs.runtime.process.console import say; say('Łódź')"],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert process.stdout == b"??d?\n"


def test_names_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("title\x1b]0;mine\x07, clear\x9b2J, back\r\b, reversed\u202eflow, tab\tline\nŁódź 写真")
    assert capsys.readouterr().out == (
        r"title\x1b]0;mine\x07, clear\x9b2J, back\r\x08, reversed\u202eflow, tab" "\tline\nŁódź 写真\n"
    )


INTERRUPTED = """
import os, signal, sys, time
from jobs.runtime.command_line import cli

def run(name, overrides):
    os.kill(os.getpid(), signal.{first})
    time.sleep(10)

cli.execute = run
code = cli.main("curate", [])
os.kill(os.getpid(), signal.SIGINT)  # a second Ctrl-C, while the process is ending
os.kill(os.getpid(), signal.SIGTERM)
sys.exit(code)
"""


@pytest.mark.parametrize(("first", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_a_run_with_one_line_and_a_second_one_disturbs_nothing(first: str, code: int) -> None:
    program = INTERRUPTED.format(first=first)
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert ended.stderr == "interrupted: completed units are kept; run the same command again to resume\n"


def test_a_run_that_is_interrupted_releases_its_table_at_once(
    tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [write_table(place, "images", []) for place in (tmp_path / "local", locations.join(s3, "interrupted"))]

    def execute(_: object) -> None:
        assert all(lock.acquire(place) for place in places)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "job", lambda name: cli.Job(name, VerifyConfig, execute))
    lock.release_all()
    with pytest.raises(KeyboardInterrupt) as caught:  # which holds the frames of the run
        cli.execute("verify", ["input=x"])
    assert all(lock.acquire(place) for place in places)
    for place in places:
        lock.release(place)
    assert not locations.exists(locations.join(places[1], "_run", lock.LEASE))
    assert caught.value.__traceback__ is not None

"""Candidates for the last word of a command line, and the scripts that ask for them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.runtime.command_line import commands
from jobs.runtime.command_line.completion import SHELLS
from tests.cases import check_cases


def test_candidates() -> None:
    cases = [
        ([], [*commands.JOBS, "completion"]),
        (["jud"], ["judge"]),
        (["nosuch", "x"], []),
        (["completion", "b"], ["bash"]),
        (["parse", "overw"], ["overwrite="]),
        (["parse", "--overw"], ["--overwrite"]),
        (["parse", "overwrite="], ["overwrite=true", "overwrite=false"]),
        (["judge", "model=local-t"], ["model=local-text-tiny", "model=local-tiny"]),
        (["judge", "--model=local-ti"], ["--model=local-tiny"]),
        (["judge", "--model", "local-ti"], ["local-tiny"]),
        (["judge", "input=x", "inpu"], []),
        (["judge", "--input", ""], []),
    ]

    def check(words: list[str], candidates: list[str]) -> None:
        assert commands.candidates(words) == candidates

    check_cases(check, cases)


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_command(["completion", "tcsh"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err
    assert commands.run_command(["completion", "bash"]) == 0
    assert capsys.readouterr().out.strip() == SHELLS["bash"]


def test_bash_completes_words_that_contain_an_equals_sign(tmp_path: Path) -> None:
    command = tmp_path / "remine"
    root = Path(__file__).resolve().parents[4]
    command.write_text(f"#!/bin/sh\ncd '{root}' && exec '{sys.executable}' -m jobs \"$@\"\n")
    command.chmod(0o755)
    script = f"""{SHELLS["bash"]}
COMP_LINE='remine judge model=local-t'; COMP_POINT=${{#COMP_LINE}}
_remine 2>/dev/null; echo "${{COMPREPLY[@]}}"
"""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "-c", script], check=False, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["local-text-tiny", "local-tiny"]

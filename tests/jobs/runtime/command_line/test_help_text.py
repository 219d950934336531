"""`--help` explains every key of every job, with its default and what it can be."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jobs.runtime.command_line import cli, commands, help_text, job_names
from jobs.runtime.command_line.commands import SHELLS
from jobs.runtime.command_line.help_text import HelpKey
from jobs.runtime.configuration import config_files, key_types
from jobs.runtime.configuration.key_types import defaults, groups
from tests.cases import check_cases


def test_every_key_of_every_job_is_explained() -> None:
    silent = [
        f"{name}: {key.name}"
        for name in job_names.JOBS
        for key in help_text.keys(name, cli.job(name).schema)
        if not key.text
    ]
    assert silent == []


def test_every_key_of_resources_is_explained() -> None:
    keys = list(help_text.stage_keys())
    assert [key.name for key in keys if not key.text] == []
    assert "resources.STAGE.batch_size" in [key.name for key in keys]
    assert {"mine", "judge"} <= set(help_text.stages())


def test_groups_show_what_there_is() -> None:
    keys = {key.name: key for key in help_text.keys("judge", cli.job("judge").schema)}
    assert keys["model"].options == config_files.options("model", None)
    assert "local-tiny" in keys["model"].options
    assert keys["rubric"].default == "century_labels"
    assert keys["input"] == HelpKey("input", "???", "text", "a table of images, or of items")
    assert "model.name" not in keys


def test_a_group_shows_only_what_the_job_can_take() -> None:
    keys = {key.name: key for key in help_text.keys("mine", cli.job("mine").schema)}
    assert keys["corpus"].options == ("wit", "wit_base")


def test_keys_without_a_default_inside_a_pipeline_are_required() -> None:
    keys = {key.name: key.default for key in help_text.keys("run", cli.job("run").schema)}
    assert keys["pipeline.inputs.corpus"] == help_text.REQUIRED


@dataclass
class Base:
    """Keys of a base."""

    kept: int = 1  # from the base
    changed: str = "a"  # what the base says


@dataclass
class Derived(Base):
    """Keys of a job."""

    changed: str = "b"  # what the job says
    # On a separate line.
    above: bool = False
    several: list[str] = field(  # the first half
        default_factory=list,
    )  # and the second
    silent: float = 0.5


def test_keys_that_choose_a_file_and_those_of_the_job_itself_come_first() -> None:
    names = [key.name for key in help_text.keys("judge", cli.job("judge").schema)]
    order = ["model", "model.checkpoint", "rubric", "method", "targets", "input", "temperature", "out", "plan"]
    assert sorted(order, key=names.index) == order
    of_report = [key.name for key in help_text.keys("report", cli.job("report").schema)]
    order = ["ratings", "likert", "paper"]  # which chooses none by default
    assert sorted(order, key=of_report.index) == order


def test_comments_are_found_next_to_a_key_above_it_and_in_a_base() -> None:
    assert key_types.explanations(Derived) == {
        "kept": "from the base",
        "changed": "what the job says",
        "above": "On a separate line.",
        "several": "the first half and the second",
        "silent": "",
    }


@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit_the_terminal(width: int) -> None:
    for name in ("judge", "mine", "retrieve"):
        lines = help_text.render(name, cli.job(name).schema, width=width).splitlines()
        assert [line for line in lines if len(line) > width and " " in line.strip()] == []


@dataclass
class Inner:
    """Keys below a key."""

    a: int = 1  # a number
    b: int = 2  # rarely: another


@dataclass
class Marked:
    """Keys of which some are rarely needed."""

    plain: int = 1  # says what it is
    seldom: int = 1  # rarely: says what it is
    below: Inner = field(default_factory=Inner)  # of all
    hidden: Inner = field(default_factory=Inner)  # rarely: of few


def test_a_key_that_chooses_a_file_names_those_that_there_are() -> None:
    def shown(text: str, *options: str) -> str:
        (line,) = help_text._lines(HelpKey("model", "a", "", text, options), 120).splitlines()
        return line.strip()

    assert shown("the model", "a", "b").endswith("  the model; one of a, b, or your own .yaml file")
    assert shown("", "a").endswith("  one of a, or your own .yaml file")
    assert shown("the model").endswith("  the model")


def test_rarely_needed_keys_and_those_below_them_have_their_own_section() -> None:
    assert key_types.explanations(Marked)["seldom"] == "says what it is"
    below = help_text._below(Marked, defaults(Marked), {}, "", rare=False)
    assert {key.name for key in below if key.rare} == {"seldom", "below.b", "hidden.…", "hidden.a", "hidden.b"}
    text = help_text.render("judge", cli.job("judge").schema)
    first, rare = text.split("Rarely needed:")
    for key, is_rare in {"targets": False, "plan": False, "model.revision": True, "ray.address": True}.items():
        line = f"\n  {key}="  # an explanation may begin a line with `plan=true`, further to the right
        assert (line in rare, line in first) == (is_rare, not is_rare)
    required = [key.name for name in job_names.JOBS for key in help_text.keys(name, cli.job(name).schema)
                if key.rare and key.default == help_text.REQUIRED]  # fmt: skip
    assert required == []


def test_help_lists_the_stages_that_the_job_begins_with() -> None:
    """The stages in the code of the job are those that it declares."""

    def check(name: str) -> None:
        job = cli.job(name)
        assert set(job.pools) <= {*help_text.stages(), "reduce"}
        begun = re.findall(
            r"pools(?:, lines)? ?= ?(\[.*?\](?: if .*? else \[.*?\])?)", inspect.getsource(sys.modules[f"jobs.{name}"])
        )
        assert {pool for text in begun for pool in re.findall(r'"(\w+)"', text)} - {"texts", "images"} <= set(job.pools)
        text = help_text.render(name, job.schema, pools=job.pools)
        assert f"STAGE: {', '.join(job.pools)};" in text
        assert ("STAGE.tasks " in text, "STAGE.actors " in text) == (reduces := job.pools == ("reduce",), not reduces)

    check_cases(check, [name for name in job_names.JOBS if cli.job(name).pools])


def test_every_job_with_stages_declares_them() -> None:
    silent = [name for name in job_names.JOBS
              if "resources" in groups(cli.job(name).schema) and not cli.job(name).pools]  # fmt: skip
    assert silent == ["run"]  # whose steps may have any


def test_candidates() -> None:
    cases = [
        ([], [*job_names.COMMANDS, "completion"]),
        (["tric", "ra"], ["rank"]),
        (["tric", "rank", "spl"], ["split="]),
        (["link", "sh"], ["show"]),
        (["link", "neigh"], ["neighbors="]),
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

"""Console output of jobs: lines that cannot steer a terminal, or JSON objects."""

import io
import json
import logging
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.process import console
from jobs.runtime.progress import StageProgress


@pytest.fixture(autouse=True)
def text_again() -> Iterator[None]:
    yield
    console.use_text()


def printed(text: str, **facts: object) -> str:
    stream = io.StringIO()
    console.write(stream, text, **facts)  # type: ignore[arg-type]
    return stream.getvalue()


def test_lines_are_text_unless_json_is_chosen() -> None:
    console.use_format("text")
    assert printed("a\x1b[2J line\n", done=3) == "a\\x1b[2J line\n"
    with pytest.raises(InputError, match=r"^log=xml: no such format; must be one of text, json$"):
        console.use_format("xml")
    assert not console.is_json()


def test_warnings_of_python_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    console.show_log_records()
    line = warnings.formatwarning("Glyph 155 (\x9b) missing", UserWarning, "figures.py", 7)
    assert "UserWarning: Glyph 155 (\\x9b) missing" in line


def test_a_line_without_end_is_cut() -> None:
    long = "x" * (2 * console.LONGEST)
    assert printed(f"first\nrater {long}\nlast") == f"first\n{f'rater {long}'[: console.LONGEST]}…\nlast\n"


def test_log_records_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.Logger("root")
    monkeypatch.setattr(logging, "root", logger)
    console.show_log_records()
    logger.warning("%s of\nothers", "a title\x1b]0;mine\x07")
    assert capsys.readouterr().err == "a title\\x1b]0;mine\\x07 of\nothers\n"


def test_a_line_as_json_has_the_fields_of_its_context() -> None:
    console.use_format("json")
    console.use_format("text")  # a step of a run, whose own log is text
    with console.fields(job="run"):
        with console.fields(job="judge", step="1/2 judge"):
            line = json.loads(printed("  three\n rows\x1b\n", level="warning", done=3))
        outer = json.loads(printed("end"))
    last = json.loads(printed("last"))

    assert (line["message"], line["level"], line["done"]) == ("three\n rows\\x1b", "warning", 3)
    assert (line["job"], line["step"]) == ("judge", "1/2 judge")
    assert timedelta(0) <= datetime.now().astimezone() - datetime.fromisoformat(line["time"]) < timedelta(hours=1)
    assert outer["job"] == "run"
    assert "step" not in outer
    assert "job" not in last
    assert len({line["run"], outer["run"], last["run"]}) == 1
    assert printed("\n") == ""  # an empty line separates paragraphs of text only


def test_what_libraries_log_is_json_too() -> None:
    handler = logging.StreamHandler(stream := io.StringIO())
    logger = logging.getLogger()
    logger.addHandler(handler)
    try:
        console.use_format("json")
        logging.getLogger("some.library").warning("%d is odd", 3)
    finally:
        logger.removeHandler(handler)
    line = json.loads(stream.getvalue())
    assert (line["level"], line["logger"], line["message"]) == ("warning", "some.library", "3 is odd")


def test_the_error_of_a_run_is_its_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main("embed", ["input=nowhere", "out=o", "log=json"]) == 2
    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (line["level"], line["job"]) == ("error", "embed")
    assert "nowhere: no table here" in line["message"]
    assert not console.is_json()


@pytest.mark.parametrize("arguments", [["log=json", "inptu=x"], ["--log", "json", "out=o"], ["log=json", "limit=a"]])
def test_what_is_refused_because_of_its_keys_is_json_too(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main("embed", arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert {"level": "error", "job": "embed"}.items() <= json.loads(line).items()
    assert not console.is_json()


def test_json_is_printed_from_the_first_line_unless_a_text_was_asked_for() -> None:
    """The configuration can still be wrong, so that its errors cannot depend on it."""
    cases = {
        "log=json": True,
        "--log=json input=i": True,
        "input=i --log json": True,
        "": False,
        "log=text": False,
        "--log text json": False,
        "json --log": False,
        "--log": False,
        "out=log=json": False,
        **dict.fromkeys(("log=json -h", "log=json --help", "--version --log=json", "--log json --cfg"), False),
    }
    assert {words: cli._asks_for_json(words.split()) for words in cases} == cases


def test_facts_of_progress() -> None:
    stage = StageProgress("embed", 10, done=4, errors=1)
    stage.notes["tokens"] = 7
    assert json.loads(json.dumps(stage.facts())) == {
        "stage": "embed", "done": 4, "total": 10, "unit": "rows", "errors": 1, "counts": {"tokens": 7},
    }  # fmt: skip

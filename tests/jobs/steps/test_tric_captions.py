"""Captions with dates, by hand."""

from datetime import date
from pathlib import Path

import pytest

from jobs.corpora.tric import Split
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.steps.tric_captions import TricCaptionsConfig, captions, execute
from tests.cases import check_cases

TEMPLATES = {"none": "{caption}", "year": "{date}: {caption}", "decade": "In the {date}s, {caption}"}


def test_a_text_for_each_template_date_and_caption() -> None:
    days = (date(1894, 7, 13), date(1891, 1, 1), date(1894, 1, 1), date(1901, 5, 5))
    split = Split(("a", "b", "c", "d"), days, {"1": "A boat.", "2": "The {date} and {caption}"}, None)
    rows = captions(split, TEMPLATES, "en")
    assert [(row["revision"], row["date"], row["source"], row["text"]) for row in rows] == [
        ("none", None, "1", "A boat."),
        ("none", None, "2", "The {date} and {caption}"),
        ("year", "1891", "1", "1891: A boat."),
        ("year", "1891", "2", "1891: The {date} and {caption}"),
        ("year", "1894", "1", "1894: A boat."),
        ("year", "1894", "2", "1894: The {date} and {caption}"),
        ("year", "1901", "1", "1901: A boat."),
        ("year", "1901", "2", "1901: The {date} and {caption}"),
        ("decade", "1890", "1", "In the 1890s, A boat."),
        ("decade", "1890", "2", "In the 1890s, The {date} and {caption}"),
        ("decade", "1900", "1", "In the 1900s, A boat."),
        ("decade", "1900", "2", "In the 1900s, The {date} and {caption}"),
    ]
    assert len({row["text_id"] for row in rows}) == len(rows)
    assert {(row["role"], row["language"]) for row in rows} == {("caption", "en")}


def test_wrong_templates_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        ("templates.month='{caption} {date}'", "templates.month={caption} {date}: must be one of none, year, decade"),
        ("templates.none=photo", "templates.none=photo: {caption} is missing"),
        ("templates.none='{caption} {date}'", "templates.none={caption} {date}: {date} is not allowed"),
        ("templates.decade='{caption}'", "templates.decade={caption}: {date} is missing"),
        ("unit_rows=0", "unit_rows=0: must be at least 1"),
    ]

    def check(key: str, message: str) -> None:
        assert cli.main("tric captions", [f"split={tmp_path}/split", f"out={tmp_path}/out", key]) == 2
        assert message in capsys.readouterr().err

    check_cases(check, cases)
    with pytest.raises(InputError, match=r"templates=\{\}: set at least one of none, year, decade"):
        execute(TricCaptionsConfig(split="split", out="out", templates={}))

"""An error about a path names the key that has it."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.named_keys import (
    named,
    with_full_key,
    with_key,
    with_option,
    with_own_key,
    with_value,
    without_job,
)
from tests.cases import check_cases


@dataclass
class Corpus:
    path: str = "/c/*.tsv"


@dataclass
class Keys:
    input: str = "/r/a"
    out: str = "/r"
    model: str = "local:tiny"
    hub: str = "org/model"
    ratings: list[str] = field(default_factory=lambda: ["/r/x", "s3://b/y"])
    corpus: Corpus = field(default_factory=Corpus)
    columns: Any = None


def test_a_message_that_begins_with_a_value_gets_its_key() -> None:
    expected = {
        "/r/a: no table": "input=/r/a: no table",
        "job: /r/a: no table": "input=/r/a: no table",
        "/r/a/x.parquet: damaged": "input=/r/a: /r/a/x.parquet: damaged",
        "/r/b: not empty": "out=/r: /r/b: not empty",
        "s3://b/y: no table": "ratings=s3://b/y: no table",
        "/c/1.tsv: empty": "corpus.path=/c/*.tsv: /c/1.tsv: empty",
        "local:tiny: no such local model": "model=local:tiny: no such local model",
        "job: org/model at revision main: no weights": "hub=org/model at revision main: no weights",
        "out=/r/a: not empty": "out=/r/a: not empty",
        "job: set out=": "job: set out=",
        "/r2/a: no table": "/r2/a: no table",
        "/c/d: a file": "/c/d: a file",
    }
    assert {message: with_key(message, "job", asdict(Keys())) for message in expected} == expected


def test_a_message_about_the_content_of_a_file_gets_the_option_that_chose_it() -> None:
    cases = [
        ("rubric 'mood': missing key 'text'", "rubric=my/mood.yaml: missing key 'text'"),
        ("job: rubric 'mood', question 'a': one", "rubric=my/mood.yaml: question 'a': one"),
        ('rubric "it\'s", layout: x', "rubric=my/mood.yaml: layout: x"),
        ("rubric: missing key 'name'", "rubric=my/mood.yaml: missing key 'name'"),
        ("rubric=mood: asks about targets", "rubric=my/mood.yaml: asks about targets"),
        ("refusals, language 'en': one", "refusals=all: language 'en': one"),
        ("model=tiny: no such option", "model=tiny: no such option"),
        ("rubric 'mood' is one", "rubric 'mood' is one"),
        ("layout=x: rubric 'mood' has none", "layout=x: rubric 'mood' has none"),
        ("records: one", "records: one"),
    ]

    def check(message: str, named: str) -> None:
        chosen = {"rubric": "my/mood.yaml", "refusals": "all", "model": "laptop"}
        assert with_option(message, "job", chosen) == named

    check_cases(check, cases)


def test_the_key_of_a_settings_dataclass_gets_the_key_that_holds_it() -> None:
    values = {"model": {"dtype": "x", "pad": None}, "judge": {"size": 2.0}, "embed": {"size": 3.0}, "out": "o"}
    assert with_full_key("dtype=x: unknown", "job", values) == "model.dtype=x: unknown"
    assert with_full_key("pad=null: required", "job", values) == "model.pad=null: required"
    assert with_full_key("job: size=2: too small", "job", values) == "judge.size=2: too small"
    for message in ("out=o: not empty", "dtype=y: unknown", "other=x: unknown", "no key"):
        assert with_full_key(message, "job", values) == message
    twice = {"model": {"dtype": "x"}, "embedder": {"dtype": "x"}}
    assert with_full_key("dtype=x: unknown", "job", twice) == "dtype=x: unknown"


def test_a_key_without_its_value_gets_it() -> None:
    values: dict[str, Any] = {"ratings": ["a", "b"], "many": ["a", "b", "c", "d"], "source": {"path": "/x"}, "by": None}
    values |= {"axes": {}, "three": [1, True, 0.5], "size": 2.0, "plan": True, "strict": False}
    for message, expected in (
        ("job: ratings: none is ok", "ratings=[a,b]: none is ok"),
        ("ratings=: none is ok", "ratings=[a,b]: none is ok"),
        ("many: too many", "many=[a,b,c,…]: too many"),
        ("three: odd", "three=[1,true,0.5]: odd"),
        ("size: odd", "size=2: odd"),
        ("plan: odd", "plan=true: odd"),
        ("strict: odd", "strict=false: odd"),
        ("source.path: /x/1: no entity", "source.path=/x: /x/1: no entity"),
        ("by: unknown", "by=null: unknown"),
        ("axes: none", "axes: none"),
        ("source: none", "source: none"),
        ("ratings=c: none is ok", "ratings=c: none is ok"),
        ("by.name: unknown", "by.name: unknown"),
        ("other: none", "other: none"),
    ):
        assert with_value(message, "job", values) == expected


def test_all_that_can_be_named_is_named() -> None:
    values = {"rubric": {"name": "mood"}, "model": {"dtype": "x"}, "input": "/r/a"}
    for message, expected in (
        ("job: dtype=x: unknown", "model.dtype=x: unknown"),
        ("rubric 'mood': unknown", "rubric=mood.yaml: unknown"),
        ("/r/a: no table", "input=/r/a: no table"),
    ):
        assert named(message, "job", values, {"rubric": "mood.yaml"}) == expected


def test_the_name_of_the_job_does_not_precede_a_key() -> None:
    for message, expected in (
        ("job: out=o: not empty", "out=o: not empty"),
        ("job: --verbose: no such key", "--verbose: no such key"),
        ("job: set out=", "job: set out="),
        ("other: out=o: not empty", "other: out=o: not empty"),
    ):
        assert without_job(message, "job") == expected
    for message, expected in (
        ("job: out=o: not empty", "out=o: not empty"),
        ("job: R/model: no weights", "models=mine.yaml: R/model: no weights"),
        ("R/model: no weights", "models=mine.yaml: R/model: no weights"),
    ):
        assert with_own_key(message, "job", "models=mine.yaml") == expected


def test_relative_paths_are_recognised_as_they_were_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_key(f"{tmp_path}/r/a: no table", "job", asdict(Keys(input="r/a"))) == f"input={tmp_path}/r/a: no table"
    assert with_key("r/a: no table", "job", asdict(Keys(input="r/a"))) == "input=r/a: no table"
    below = f"{tmp_path}/r/a/x.parquet: damaged"
    assert with_key(below, "job", asdict(Keys(input="r/a"))) == f"input=r/a: {below}"
    with pytest.raises(InputError, match=f"^input={tmp_path}/r: no table here"):
        cli.execute("verify", ["input=r"])

"""An error about a path names the key that has it."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.error_keys import complete


@dataclass
class Corpus:
    path: str = "/c/*.tsv"


@dataclass
class Keys:
    input: str = "/r/a"
    out: str = "/r"
    model: str = "local:tiny"
    ratings: list[str] = field(default_factory=lambda: ["/r/x", "s3://b/y"])
    corpus: Corpus = field(default_factory=Corpus)
    columns: Any = None


def text(error: InputError, values: Any = None, **chosen: str) -> str:
    complete(error, asdict(Keys()) if values is None else values, chosen)
    return str(error)


def test_the_key_that_names_a_place_is_found() -> None:
    expected = {
        "/r/a": "input=/r/a: no table",
        "/r/a/x.parquet": "input=/r/a: /r/a/x.parquet: no table",
        "/r/b": "out=/r: /r/b: no table",
        "s3://b/y": "ratings=s3://b/y: no table",
        "/c/1.tsv": "corpus.path=/c/*.tsv: /c/1.tsv: no table",
        "local:tiny": "model=local:tiny: no table",
        "/r2/a": "/r2/a: no table",
    }
    assert {place: text(InputError("no table", place=place)) for place in expected} == expected


def test_a_key_that_is_known_is_not_looked_for() -> None:
    """Two keys may have the same path."""
    values = {"input": "/r/a", "records": "/r/a", "ratings": ["/r/x", "/r/y"]}
    for key, place, expected in (
        ("records", "/r/a", "records=/r/a: odd"),
        ("records", "/r/a/x", "records=/r/a: /r/a/x: odd"),
        ("records", "/r/z", "records=/r/a: /r/z: odd"),
        ("ratings", "/r/y", "ratings=/r/y: odd"),
    ):
        assert text(InputError("odd", key=key, place=place), values) == expected


def test_a_key_gets_its_value() -> None:
    values: dict[str, Any] = {"ratings": ["a", "b"], "many": ["a", "b", "c", "d"], "source": {"path": "/x"}, "by": None}
    values |= {"axes": {}, "three": [1, True, 0.5], "size": 2.0, "plan": True}
    for key, expected in (
        ("ratings", "ratings=[a,b]: odd"),
        ("many", "many=[a,b,c,…]: odd"),
        ("three", "three=[1,true,0.5]: odd"),
        ("size", "size=2: odd"),
        ("plan", "plan=true: odd"),
        ("by", "by=null: odd"),
        ("axes", "axes: odd"),
        ("source", "source: odd"),
        ("source.path", "source.path=/x: odd"),
        ("rubric", "rubric=mood.yaml: odd"),
        ("other", "other: odd"),
    ):
        assert text(InputError("odd", key=key), values, rubric="mood.yaml") == expected
    assert text(InputError("odd", key="size", value=3), values) == "size=3: odd"


def test_relative_paths_are_recognised_as_they_were_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = {"input": "r/a"}
    assert text(InputError("no table", place=f"{tmp_path}/r/a"), values) == f"input={tmp_path}/r/a: no table"
    assert text(InputError("no table", place="r/a"), values) == "input=r/a: no table"
    below = f"{tmp_path}/r/a/x.parquet"
    assert text(InputError("damaged", place=below), values) == f"input=r/a: {below}: damaged"
    with pytest.raises(InputError, match=f"^input={tmp_path}/r: no table here"):
        cli.execute("verify", ["input=r"])

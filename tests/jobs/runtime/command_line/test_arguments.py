"""Every form of an argument becomes the same override."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.command_line.arguments import to_overrides
from jobs.runtime.configuration.config import Common
from tests.cases import check_cases


@dataclass
class Inner:
    name: str = ""


@dataclass
class Keys(Common):
    input: str | None = None
    near_distance: int = 4
    ratings: list[str] = field(default_factory=list)
    counts: list[int] | None = None
    targets: Any = None
    columns: dict[str, Any] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)


def test_forms() -> None:
    cases = [
        ("input=a", "input=a"),
        ("--input a", "input=a"),
        ("--input=a", "input=a"),
        ("--input a=b", "input=a=b"),
        ("--inner.name x --columns.item id", "inner.name=x columns.item=id"),
        ("--near-distance -1", "near_distance=-1"),
        ("--overwrite", "overwrite=true"),
        ("--overwrite input=a", "overwrite=true input=a"),
        ("--resume false --input a", "resume=false input=a"),
        ("--ratings a", "ratings=[a]"),
        ("--ratings a b", "ratings=[a,b]"),
        ("--ratings a --input x --ratings b", "ratings=[a,b] input=x"),
        ("ratings=a input=x ratings=b", "ratings=[a,b] input=x"),
        ("--ratings a b out=x", "ratings=[a,b] out=x"),
        ("--ratings a input b", "ratings=[a,input,b]"),  # a value may be named like a key
        ("--ratings a year=2020/x", "ratings=[a,'year=2020/x']"),
        ("--ratings a,b", "ratings=['a,b']"),
        ("ratings=[a,b]", "ratings=[a,b]"),
        ("--ratings [a,b]", "ratings=[a,b]"),
        ("ratings=[a] ratings=[b]", "ratings=[a] ratings=[b]"),
        ("ratings=${a}", "ratings=${a}"),
        ("++ratings=a ++ratings=b", "++ratings=[a,b]"),
        ("++targets=a ++targets=b", "++targets=[a,b]"),
        ("input=a input=b", "input=a input=b"),
        ("--columns.my-key x", "columns.my-key=x"),
        ("--counts 1 2", "counts=[1,2]"),
        ("--counts 1 -2 -0.5", "counts=[1,-2,-0.5]"),
        ("--input out=x out=y", "input=out=x out=y"),  # the first value is one, whatever it looks like
        ("--ratings out=x out=y", "ratings=['out=x'] out=y"),
        ("--ratings a inner.name=x", "ratings=[a] inner.name=x"),
        ("--ratings a --resume input=b", "ratings=[a] resume=true input=b"),
        ("--ratings a ++columns.x=b", "ratings=[a] ++columns.x=b"),
        ("counts=null", "counts=null"),
        ("--targets Japan", "targets=Japan"),
        ("--targets Japan Brazil", "targets=[Japan,Brazil]"),
        ("--nosuch 3", "--nosuch=3"),
        ("--nosuch", "--nosuch="),
        ("++columns.a=b", "++columns.a=b"),
    ]

    def check(arguments: str, overrides: str) -> None:
        assert to_overrides("job", Keys, arguments.split(" ")) == overrides.split(" ")

    check_cases(check, cases)


def test_what_is_refused() -> None:
    cases = [
        ("--input", "--input: a value is missing"),
        ("--input --overwrite", "--input: a value is missing"),
        ("--ratings --overwrite", "--ratings: a value is missing"),
        ("--input a b", "'b' is not key=value"),
        ("overwrite", "'overwrite' is not key=value"),
        ("-x", "'-x' is not key=value"),
        ("--overwrite yes", "'yes' is not key=value"),
        ("ratings=[a] ratings=b", "given both as a list and as single values"),
    ]

    def check(arguments: str, message: str) -> None:
        with pytest.raises(InputError, match=f"^job: .*{message.replace('[', '.')}"):
            to_overrides("job", Keys, arguments.split(" "))

    check_cases(check, cases)


def test_values_alone_belong_to_positional_keys() -> None:
    for arguments, positional, overrides in (
        ("a", ("input",), ["input=a"]),
        ("a b", ("ratings",), ["ratings=[a,b]"]),
        ("a --overwrite b c", ("input", "ratings"), ["input=a", "overwrite=true", "ratings=[b,c]"]),
        ("near_distance=3 s3://b/x", ("input",), ["near_distance=3", "input=s3://b/x"]),
        ("a b c", ("ratings", "input"), ["ratings=[a,b]", "input=c"]),
        ("a b --inner.name c", ("ratings", "input"), ["ratings=[a]", "input=b", "inner.name=c"]),
        ("ratings=[a,b] c", ("ratings", "input"), ["ratings=[a,b]", "input=c"]),
        ("a input=b", ("ratings", "input"), ["ratings=[a]", "input=b"]),
        ("a --input b", ("ratings", "input"), ["ratings=[a]", "input=b"]),
        ("a b out=x", ("ratings", "input"), ["ratings=[a]", "input=b", "out=x"]),
        ("ratings=a b c", ("ratings", "input"), ["ratings=[a,b]", "input=c"]),
        ("a", ("input", "ratings"), ["input=a"]),
        ("input", ("input",), ["input=input"]),
    ):
        assert to_overrides("job", Keys, arguments.split(" "), positional=positional) == overrides
    for arguments, refused in (("a b", "'b'"), ("-x", "'-x'"), ("overwrite", "'overwrite'")):
        with pytest.raises(InputError, match=f"{refused} is not key=value"):
            to_overrides("job", Keys, arguments.split(" "), positional=("input",))


def test_a_file_may_be_named_like_a_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "overwrite").touch()
    assert to_overrides("job", Keys, ["overwrite"], positional=("input",)) == ["input=overwrite"]


def test_what_to_write_instead_of_a_value_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.csv.gz"):
        (tmp_path / name).touch()
    cases = [
        ("overwrite", "use overwrite=true or --overwrite"),
        ("input=a overwrite", "use overwrite=true or --overwrite"),
        ("input", "use input=VALUE or --input VALUE"),
        ("input= a.csv", "input= has no value: remove the space after =, as in input=a.csv"),
        ("input=a.csv b.csv.gz", "the shell made several words of input=: quote it, as in 'input=*.csv'"),
        ("--input b.csv.gz a.csv", "the shell made several words of input=: quote it, as in 'input=*.csv.gz'"),
        ("input=a nosuch", "use key=value or --key value"),
        ("a.csv", "use key=value or --key value"),
    ]

    def check(arguments: str, remedy: str) -> None:
        last = arguments.rpartition(" ")[2]
        with pytest.raises(InputError, match=re.escape(f"job: '{last}' is not key=value; {remedy}")):
            to_overrides("job", Keys, arguments.split(" "))

    check_cases(check, cases)


def test_v_is_for_jobs_that_use_ray() -> None:
    assert cli._overrides("embed", ["out=o", "-v"]) == ["out=o", "timings=true"]
    assert cli._overrides("verify", ["input=T"]) == ["input=T"]
    with pytest.raises(InputError, match=r"^verify: -v: only for jobs that use Ray; omit it$"):
        cli._overrides("verify", ["input=T", "-v"])

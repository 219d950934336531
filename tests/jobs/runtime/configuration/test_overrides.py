"""Values of the command line in Hydra's grammar, which mean what was typed."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from omegaconf import MISSING, OmegaConf

from jobs.errors import InputError
from jobs.runtime.configuration.overrides import (
    UnknownKeyError,
    apply,
    as_typed,
    check,
    key_of,
    literal,
    quoted,
    to_hydra,
    with_unknown_key,
)
from tests.cases import check_cases


@dataclass
class Part:
    """Keys below a key."""

    size: int = 1
    depth: int = 5


@dataclass
class Keys:
    """Keys of each type."""

    needed: str = "???"
    text: str = "t"
    perhaps: str | None = None
    number: float = 0.5
    flag: bool = False
    words: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=lambda: {"old": "o"})
    free: Any = None
    part: Part = field(default_factory=Part)
    amount: int = MISSING
    count: int | None = None
    either: bool | str = False
    columns: dict[str, Any] = field(default_factory=dict)
    # conf/ has folders of these names
    corpus: Part = field(default_factory=Part)
    rubric: dict[str, Any] = field(default_factory=dict)
    source: Any = None
    topics: dict[str, str] = field(default_factory=dict)


def value(override: str) -> Any:
    """Return the value of the key after `override`."""
    composed = OmegaConf.structured(Keys)
    apply(composed, to_hydra(Keys, override))
    chosen = OmegaConf.select(composed, override.partition("=")[0])
    return OmegaConf.to_container(chosen) if OmegaConf.is_config(chosen) else chosen


def test_values_mean_what_was_typed() -> None:
    cases = {
        "text=a,b": "a,b",
        "text=[a]": "[a]",
        "text=choice(a,b)": "choice(a,b)",
        "text='a b'": "a b",
        "text='a','b'": "'a','b'",  # not a sweep over two values
        "text=it's": "it's",
        r"text=a\b": r"a\b",
        "text=null": "null",
        "perhaps=null": None,
        "text=": "",
        "number=2": 2.0,
        "flag=true": True,
        "part.size=3": 3,
        "words=[a,b c, d ]": ["a", "b c", "d"],
        "words=['a,b',c]": ["a,b", "c"],
        "words=[it's,b]": ["it's", "b"],
        "words=[]": [],
        "numbers=[1,2]": [1, 2],
        "names.new=x": "x",
        "free=a,b": "a,b",
        "free=choice(a,b)": "choice(a,b)",
        "free=range(1,3)": "range(1,3)",
        "free=[a,b]": ["a", "b"],
        "free={a: b}": {"a": "b"},
        "free.key=x": "x",
        'text="a, b"': "a, b",
        "part={size: 2}": {"size": 2, "depth": 5},
        "names={new: x}": {"old": "o", "new": "x"},
        "either=TRUE": True,
        "either=False": False,
        "either=calibrate": "calibrate",
        "either=a,b": "a,b",
        "words=[it's, b ]": ["it's", "b"],
        r"free=a\,b": r"a\,b",
        "free={a: b, c: [d, e]}": {"a": "b", "c": ["d", "e"]},
    }

    def check_case(override: str, expected: object) -> None:
        assert value(override) == expected

    check_cases(check_case, {override: (override, expected) for override, expected in cases.items()})


def test_values_that_a_key_cannot_have_are_refused() -> None:
    cases = {
        "text": "is not key=value",
        "~text=1": "is not key=value",
        "=1": "is not key=value",
        "words=a": r"expected a list, as in words=\[a,b\]",
        "words=a[b]": r"expected a list, as in words=\[a,b\]",
        "part=1": r"holds several keys; set one of part\.size=",
        "part=null": "cannot be null",
        "perhaps=": "empty value; for no value, use perhaps=null",
        "needed=": "empty value; the key is required",
    }

    def check_case(override: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            check("job", Keys, [override])

    check_cases(check_case, {override: (override, message) for override, message in cases.items()})
    check("job", Keys, ["text=", "words=[a]", "part={size: 2}", "unknown=1", "needed=x", "corpus=wit"])
    check("job", Keys, ["count=", "amount="])  # not texts: their types refuse an empty value


def test_keys_that_users_name_are_added_and_those_of_files_are_not() -> None:
    cases = {
        "names.new=x": "++names.new=x",
        "+names.new=x": "++names.new=x",
        "++names.new=x": "++names.new=x",
        "names={a: b}": "++names={a: b}",
        "columns.a=x": "++columns.a=x",
        "free.key=x": "++free.key=x",
        "free=x": "free=x",
        "part.size=3": "part.size=3",
        "rubric.name=x": "rubric.name=x",
        "source.name=x": "source.name=x",
        "topics.a=x": "++topics.a=x",
        "++text=[a]": "++text='[a]'",
        "words=[it's,b": r"words='[it\'s,b'",
    }
    assert {override: to_hydra(Keys, override) for override in cases} == cases


def test_a_key_that_does_not_exist_is_added_only_with_two_signs() -> None:
    for composed in (OmegaConf.structured(Keys), OmegaConf.create({"text": "t", "part": {"size": 1}})):
        OmegaConf.set_struct(composed, True)
        for key in ("no", "part.no"):
            with pytest.raises(UnknownKeyError) as caught:
                apply(composed, f"{key}=1")
            assert caught.value.key == key
        apply(composed, "part.size=2")
        assert composed.part.size == 2
    apply(composed, "++part.no=1")
    assert composed.part.no == 1


def test_the_first_override_whose_key_does_not_exist() -> None:
    assert with_unknown_key(Keys, ["text=no=1", "++part.size=1", "names.any=1", "--part.size=1"]) is None
    assert with_unknown_key(Keys, ["text=x", "++part.no=1", "no=1"]) == "++part.no=1"
    assert [as_typed(override) for override in ("--no=", "--no=x", "no=", "++no=")] == [
        "--no",
        "--no=x",
        "no=",
        "++no=",
    ]


def test_infinity_may_be_written_as_in_yaml() -> None:
    @dataclass
    class Numbers:
        bounds: list[float] = field(default_factory=list)
        bound: float | None = None
        text: str = ""
        inputs: Any = None

    cases = {
        "bounds=[-.inf,-20]": "bounds=[-inf,-20]", "bounds=[ .Inf, +.INF]": "bounds=[ Inf, +INF]",
        "bound=-.inf": "bound=-inf", "bound=.nan": "bound=nan", "inputs=[-.inf]": "inputs=[-inf]",
        "inputs=[a.inf]": "inputs=[a.inf]", "inputs=.info": "inputs=.info", "text=.inf": "text='.inf'",
    }  # fmt: skip
    assert {override: to_hydra(Numbers, override) for override in cases} == cases


def test_literals_and_keys() -> None:
    assert [literal(one) for one in (None, True, 2, 0.5, "a'b", ["x", 1])] == [
        "null", "true", "2", "0.5", r"'a\'b'", "['x',1]"
    ]  # fmt: skip
    with pytest.raises(InputError, match="expected text, a number"):
        literal({"a": 1})
    assert quoted("a\\") == "'a\\\\'"
    assert [key_of(one) for one in ("a.b=1", "++a=1", "--a=1", "a")] == ["a.b", "a", "a", "a"]


def test_a_dollar_and_brace_in_a_text_refer_only_to_what_exists() -> None:
    composed = OmegaConf.create({"title": "", "out": "R", "part": {"key": None}})

    def check(text: str, expected: str) -> None:
        apply(composed, f"title={quoted(text)}")
        assert composed.title == expected

    check_cases(check, [
        ("A … ${x}", "A … ${x}"), ("${x} b", "${x} b"), ("a ${", "a ${"), ("}${", "}${"),
        ("a ${nope:1}", "a ${nope:1}"),
        ("$5 {a} ${out}", "$5 {a} R"), ("${out}/${part.other}", "${out}/${part.other}"), ("${out}", "R"),
        ("a \\${x}", "a \\${x}"), ("${out}${", "${out}${"),
    ])  # fmt: skip

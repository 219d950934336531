"""Values of keys: what was typed, the types, and what is refused."""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.configuration.key_types import MISSING, defaults, type_of
from jobs.runtime.configuration.key_values import UnknownKeyError, convert, literal, merge, quoted, read, replaced
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
    parts: list[Part] = field(default_factory=list)
    perhaps_part: Part | None = None


def put(override: str, *, adds: bool = True) -> dict[str, Any]:
    """Return the values of all keys after `override`."""
    key, _, text = override.partition("=")
    return replaced(Keys, defaults(Keys), key.split("."), read(text, type_of(Keys, key)), adds=adds)


def value(override: str) -> Any:
    """Return the value of the key after `override`."""
    node: Any = put(override)
    for name in override.partition("=")[0].split("."):
        node = node[name]
    return node


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
        "free={a:b}": {"a": "b"},
        "free=[1,2.5,-.inf,1e3,true,null,'1',001]": [1, 2.5, -math.inf, 1000.0, True, None, "1", "001"],
        "free='2'": "2",
        "free=.5": 0.5,
        "free=[a,,b]": "[a,,b]",
        "free=[${out}/x,${a:{b: c},[d]}]": ["${out}/x", "${a:{b: c},[d]}"],
        "words=[1.50,001,true]": ["1.50", "001", "true"],
        "words=[a[b],c]": ["a[b]", "c"],
        "words=[R/é #1/*, s3://b/x y]": ["R/é #1/*", "s3://b/x y"],
        r"text='it\'s'": "it's",
        r"text='end\\'": "end\\",
        "number=-.inf": -math.inf,
        "number=1_000": 1000.0,
        "flag=yes": True,
        "count=7": 7,
        "count=null": None,
        "parts=[{size: 2}]": [{"size": 2, "depth": 5}],
        "perhaps_part.size=2": 2,
        "perhaps_part={depth: 2}": {"size": 1, "depth": 2},
    }

    def check_case(override: str, expected: object) -> None:
        assert value(override) == expected

    check_cases(check_case, {override: (override, expected) for override, expected in cases.items()})


def test_values_of_the_wrong_type_are_refused_with_what_is_allowed() -> None:
    cases = {
        "amount=many": "amount=many: must be a whole number",
        "amount=1.5": "amount=1.5: must be a whole number",
        "number=x": "number=x: must be a number",
        "flag=maybe": "flag=maybe: must be true or false",
        "part.size=null": "part.size=null: this key cannot be null",
        "names=null": "names=null: this key cannot be null",
        "names.old=[a]": "names.old=[a]: must be text",
        "numbers=[1,x]": "numbers[1]=x: must be a whole number",
        "parts=[a]": "parts[0]=a: must be a mapping of keys",
    }

    def check_case(override: str, message: str) -> None:
        with pytest.raises(InputError) as caught:
            put(override)
        assert str(caught.value) == message

    check_cases(check_case, {override: (override, message) for override, message in cases.items()})
    for kind, wrong, message in (
        (list[str], "a", "must be a list"),
        (dict[str, str], [1], "must be a mapping of keys"),
        (str, {"a": 1}, "must be text"),
        (int, True, "must be a whole number"),
        (float, True, "must be a number"),
        (bool | str, [1], "must be text"),
    ):
        with pytest.raises(InputError, match=message):
            convert(kind, wrong, "key")


def test_values_of_files_are_converted() -> None:
    for kind, read_value, expected in (
        (str, 3, "3"), (float, 2, 2.0), (bool, 1, True), (bool, "off", False), (bool | str, False, False),
        (bool | str, "x", "x"), (int, "3", 3), (list[float], [1, "2"], [1.0, 2.0]),
        (dict[str, int], {1: "2"}, {"1": 2}), (Any, {1: [None]}, {1: [None]}),
        (str, "${a}", "${a}"), (int, "${a}", "${a}"), (int, MISSING, MISSING),
    ):  # fmt: skip
        converted = convert(kind, read_value, "key")
        assert (converted, type(converted)) == (expected, type(expected))


def test_a_key_that_does_not_exist_is_not_added() -> None:
    cases = {
        "no=1": ("no", sorted(defaults(Keys))),
        "part.no=1": ("part.no", ["depth", "size"]),
        "part.size.no=1": ("part.size.no", []),
        "part={no: 1}": ("part.no", ["depth", "size"]),
        "parts=[{no: 1}]": ("parts[0].no", ["depth", "size"]),
    }

    def check_case(override: str, error: tuple[str, list[str]]) -> None:
        with pytest.raises(UnknownKeyError) as caught:
            put(override)
        assert (caught.value.key, caught.value.allowed) == error

    check_cases(check_case, {override: (override, error) for override, error in cases.items()})
    for override in ("columns.a=x", "free.key=x"):  # those of a file of conf/, whose keys are known
        with pytest.raises(UnknownKeyError):
            put(override, adds=False)
    assert put("names.new=x", adds=False)["names"] == {"old": "o", "new": "x"}


def test_mappings_are_merged_and_what_they_replace_is_not_changed() -> None:
    current = {"a": {"b": 1, "c": [1]}, "d": 2}
    assert merge(Any, current, {"a": {"c": [2], "e": 3}}, "key") == {"a": {"b": 1, "c": [2], "e": 3}, "d": 2}
    assert current == {"a": {"b": 1, "c": [1]}, "d": 2}
    assert merge(Any, {"path": None}, {"path": MISSING, "new": MISSING}, "") == {"path": None, "new": MISSING}


def test_literals() -> None:
    assert [literal(one) for one in (None, True, 2, 0.5, "a'b", ["x", 1])] == [
        "null", "true", "2", "0.5", r"'a\'b'", "['x',1]"
    ]  # fmt: skip
    value = [{"num_cpus": 4.0, "name": "it's", "of": {"a": None, "b": [True, {}]}}]
    assert literal(value) == r"[{num_cpus: 4.0, name: 'it\'s', of: {a: null, b: [true,{}]}}]"
    for kind in (Any, list[dict[str, Any]]):
        assert convert(kind, read(literal(value), kind), "key") == value
    for unwritable in ({1.5, 2}, {"a: b": 1}, {"": 1}):
        with pytest.raises(InputError, match="expected text, a number"):
            literal(unwritable)
    assert quoted("a\\") == "'a\\\\'"
    for text in ("a", "it's", "a'b\\'c", "end\\", ""):
        assert read(quoted(text), str) == text

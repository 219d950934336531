"""Types of keys, read from the annotations of a job's dataclass."""

from dataclasses import dataclass, field
from typing import Any, Optional

from jobs.runtime.configuration.key_types import (
    MISSING,
    UNKNOWN,
    all_comments,
    alternatives,
    comments_below,
    explanations,
    is_required,
    nested_dataclass,
    type_of,
)
from jobs.runtime.configuration.resources import Resources


@dataclass
class Below:
    """Keys below a key."""

    size: int = 1
    needed: str = MISSING


@dataclass
class Typed:
    """Keys of each kind of type."""

    required: str = MISSING
    text: str = "t"
    old: Optional[int] = None  # noqa: UP045  # as in a dataclass of a library
    below: Below = field(default_factory=Below)
    perhaps: Below | None = None
    words: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    free: Any = None


def test_the_type_of_a_key() -> None:
    cases = {
        "text": str,
        "below": Below,
        "below.size": int,
        "perhaps.size": int,
        "names": dict[str, str],
        "names.any.thing": Any,
        "free.any.thing": Any,
        "text.size": UNKNOWN,
        "words.0": UNKNOWN,
        "below.no": UNKNOWN,
        "no.size": UNKNOWN,
        "": UNKNOWN,
    }
    assert {key: type_of(Typed, key) for key in cases} == cases


def test_a_key_without_a_default_is_required() -> None:
    cases = {
        "required": True,
        "below.needed": True,
        "perhaps.needed": True,
        "text": False,
        "below.size": False,
        "needed": False,
        "below.required": False,
        "names.required": False,
        "text.needed": False,
    }
    assert {key: is_required(Typed, key) for key in cases} == cases


def test_the_members_of_both_kinds_of_unions() -> None:
    kinds = [type_of(Typed, key) for key in ("old", "perhaps", "words")]
    assert [list(alternatives(kind)) for kind in kinds] == [[int, type(None)], [Below, type(None)], [list[str]]]
    assert [nested_dataclass(kind) for kind in (*kinds, Typed, Below())] == [None, Below, None, Typed, None]


@dataclass
class Deepest:
    """Keys two levels below a job's."""

    c: int = 1  # the third


@dataclass
class Deeper:
    """Keys one level below a job's."""

    b: int = 1  # rarely: the second
    below: Deepest = field(default_factory=Deepest)


@dataclass
class Whole:
    """Keys of a job."""

    a: int = 1  # the #1 of all
    below: Deeper | None = None  # those below
    resources: Resources = field(default_factory=Resources)  # what each stage may use
    # above, but the comment on the line counts
    both: int = 1  # on the line


def test_keys_below_keys_have_dotted_names_except_those_of_resources() -> None:
    assert dict(comments_below(Whole)) == {
        "a": "the #1 of all",
        "below": "those below",
        "below.b": "the second",
        "below.below": "",
        "below.below.c": "the third",
        "resources": "what each stage may use",
        "both": "on the line",
    }
    assert all_comments(Deeper)["b"] == "rarely: the second"


def test_a_class_in_a_function_that_extends_a_plain_class() -> None:
    class Plain:
        kept: int = 1  # not a key

    @dataclass
    class Own(Plain, Deepest):
        c: int = 2
        # indented further
        d: int = 2  # ends with a sign #

    assert explanations(Own) == {"c": "the third", "d": "ends with a sign #"}

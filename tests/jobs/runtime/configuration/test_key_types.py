"""Types of keys, read from the annotations of a job's dataclass."""

from dataclasses import dataclass, field
from typing import Any, Optional

from jobs.runtime.configuration.key_types import MISSING, UNKNOWN, alternatives, is_required, nested_dataclass, type_of


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

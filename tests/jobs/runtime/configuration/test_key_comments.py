"""Explanations of keys below keys, and of classes that are defined in a function."""

from dataclasses import dataclass, field

from jobs.runtime.configuration.key_comments import all_comments, comments_below, explanations
from jobs.runtime.configuration.resources import Resources


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

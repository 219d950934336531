"""Checks of data from YAML: what is allowed, and messages that name every mistake."""

from collections.abc import Callable
from typing import Any

import pytest

from actors.rubrics import checks
from tests.cases import check_cases


def message(check: Callable[..., Any], *arguments: Any, **keys: Any) -> str:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        check(*arguments, **keys)
    return str(error.value)


def test_keys_that_are_unknown_and_missing_are_named_together() -> None:
    keys: dict[str, Any] = {"where": "w", "required": ("a", "b"), "optional": ("c", "a")}
    checks.check_keys({"a": 1, "b": 2}, **keys)
    checks.check_keys({"a": 1, "b": None, "c": 3}, **keys)
    assert message(checks.check_keys, {"b": 1, "x": 1, 3: 2}, **keys) == (
        "w: unknown key 'x', '3'; must be one of a, b, c; missing key 'a'; required are a, b"
    )
    assert message(checks.check_keys, {}, **keys) == "w: missing key 'a', 'b'; required are a, b"
    assert message(checks.check_keys, ["a", "b"], **keys) == "w: ['a', 'b'] must be a mapping with a, b, c"


def test_texts_numbers_and_booleans() -> None:
    for value, expected in ((" a ", "a"), (3, "3"), (0, "0"), (1.5, "1.5")):
        assert checks.text(value, "w") == expected
    assert message(checks.text, False, "w") == "w: False is a boolean; put the word in quotes"
    for data in (" ", "", None, ["a"]):
        assert message(checks.text, data, "w") == f"w: {data!r} must be a text that is not empty"
    assert [checks.or_empty(checks.text)(data, "w") for data in (None, "", " a ")] == ["", "", "a"]
    assert "must be a text" in message(checks.or_empty(checks.text), " ", "w")


def test_lists_and_mappings() -> None:
    assert checks.texts(None, "w") == checks.texts([], "w") == ()
    assert checks.texts(["b", 1, " a "], "w") == ("b", "1", "a")
    assert message(checks.texts, ["a", "b", " b", "a"], "w") == "w: duplicate entry 'a', 'b'"
    assert message(checks.texts, "ab", "w") == "w: 'ab' must be a list"
    assert message(checks.entries, {"a": 1}, "w") == "w: {'a': 1} must be a list"
    assert checks.mapping({2: "x", "a": None}, "w") == {"2": "x", "a": None}
    assert message(checks.mapping, None, "w") == "w: None must be a mapping of names"

    def check_name(data: Any, expected: str) -> None:
        assert checks.named("rubric", data) == expected

    cases = [({"name": "m"}, "rubric 'm'"), ({"name": ""}, "rubric"), ({}, "rubric"), (["name"], "rubric")]
    check_cases(check_name, cases)


def test_mistakes_are_named_at_once() -> None:
    mistakes = checks.Mistakes("rubric 'm'")
    mistakes.refuse()
    assert mistakes.of(checks.text, "a", "w", instead="x") == "a"
    mistakes.refuse()
    assert mistakes.of(checks.text, "", "rubric 'm', first", instead="x") == "x"
    assert mistakes.of(checks.check_keys, {}, where="rubric 'm', second", required=("a",), instead=None) is None
    mistakes.add("rubric 'm': third")
    mistakes.add("fourth")
    assert message(mistakes.refuse) == (
        "rubric 'm', first: '' must be a text that is not empty; also: second: missing key 'a'; required are a; "
        "also: third; also: fourth"
    )
    only_one = checks.Mistakes("w")
    only_one.add("w: one")
    assert message(only_one.refuse) == "w: one"

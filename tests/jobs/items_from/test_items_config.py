"""The mode of `items` that its keys choose, and keys of other modes."""

from typing import Any

import pytest

from jobs.errors import InputError
from jobs.items_from.items_config import ItemsConfig, mode_of
from tests.cases import check_cases

MODES: dict[str, Any] = {"input": "f.csv", "responses": ["R"], "links": "L", "topics": {"name": "t"}}


def test_one_key_chooses_the_mode() -> None:
    for mode, value in MODES.items():
        assert mode_of(ItemsConfig(out="R", **{mode: value})) == mode
    for mode in ("input", "responses"):
        assert mode_of(ItemsConfig(out="R", limit=3, unit_rows=1, condition="c", **{mode: MODES[mode]})) == mode
    for mode in ("responses", "links"):
        assert mode_of(ItemsConfig(out="R", input_items="I", texts="T", **{mode: MODES[mode]})) == mode


def test_none_and_two_are_refused() -> None:
    def refused(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError) as error:
            mode_of(ItemsConfig(**{"out": "R", **keys}))
        assert str(error.value).startswith(message)

    cases = [
        ({}, "input=, responses=, links=, topics=: exactly one of them is required"),
        ({"input": "f", "topics": {"name": "t"}}, "input=, topics=: cannot be set together; set exactly one of input="),
        ({"links": "L", "unit_rows": 0}, "unit_rows=0: must be at least 1"),
        ({"links": "L", "limit": 3}, "limit: a key of items from input= or responses=, and links= is given"),
        ({"input": "f", "texts": "T"}, "texts: a key of items from responses= or links=, and input= is given"),
        ({"input": "f", "k": 3, "gold_node": "x"}, "gold_node: a key of items from links=, and input= is given"),
        ({"links": "L", "role": "prompt"}, "role: a key of items from responses=, and links= is given"),
        ({"topics": {"name": "t"}, "language": "de"}, "language: a key of items from input=, and topics= is given"),
    ]
    check_cases(refused, cases)

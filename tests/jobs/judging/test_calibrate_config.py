"""Keys of `calibrate` that go together, the methods of `judge`, and the halves of items."""

from typing import Any

import pytest

from jobs.errors import InputError
from jobs.judging import methods
from jobs.judging.calibrate_config import CalibrateConfig, checked
from jobs.judging.halves import HALVES, attribute_values, half_of, halves, other
from tests.cases import check_cases
from tests.factories import TableInMemory

ONE: dict[str, Any] = {
    "name": "r", "version": 1,
    "questions": [{"name": "q", "text": "?", "scale": "ordinal", "answers": [
        {"value": "no", "label": "no", "score": 0}, {"value": "yes", "label": "yes", "score": 1}]}],
}  # fmt: skip


def test_keys_of_a_criterion() -> None:
    def refused(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            checked(CalibrateConfig(**{"input": "I", **keys}))

    cases = [
        ({"criterion": "auc"}, "criterion=auc: must be one of f1, pearson"),
        ({"choose_on": "c"}, "choose_on=c: must be one of a, b"),
        ({"split_by": "x"}, "split_by=x: set items="),
        ({"criterion": "pearson"}, "criterion=pearson: reference= is required"),
        ({"criterion": "pearson", "reference": "R", "threshold": 0.0}, "threshold= is not allowed"),
        ({}, "criterion=f1: items= with gold is required"),
        ({"items": ["I"], "reference": "R"}, "reference= is not allowed"),
        ({"items": ["I"], "rubric": {"name": "r"}}, "^calibrate: rubric 'r'"),
        ({"items": ["I"], "rubric": {**ONE, "questions": [*ONE["questions"], {**ONE["questions"][0], "name": "p"}]}},
         "rubric=r: must have one question"),
        ({"items": ["I"], "rubric": {**ONE, "questions": [{**ONE["questions"][0], "scale": "nominal", "answers": [
            {"value": "a", "label": "a"}, {"value": "b", "label": "b"}]}]}}, "rubric=r: must have one question"),
    ]  # fmt: skip
    check_cases(refused, cases)
    question = checked(CalibrateConfig(input="I", items=["I"], rubric=ONE, threshold=0.5))
    assert question is not None
    assert question.name == "q"
    assert checked(CalibrateConfig(input="I", criterion="pearson", reference="R")) is None
    assert checked(CalibrateConfig(input="I", criterion="pearson", reference="R", items=["I"], split_by="x")) is None


def test_halves_are_even_and_depend_on_seed_and_value() -> None:
    names = [f"i{n}" for n in range(400)]
    parts = halves(names, 0)
    assert parts == {name: half_of(name, 0) for name in names}
    assert 150 < sum(half == "a" for half in parts.values()) < 250
    assert 150 < sum(half_of(name, 0) == half_of(name, 1) for name in names) < 250
    assert "".join(parts[name] for name in names[:12]) == "bbbbabababba", "as in tables of earlier versions"
    keys = {name: f"k{n % 3}" for n, name in enumerate(names)}
    assert halves(names, 2, keys) == {name: half_of(keys[name], 2) for name in names}
    assert [other(half) for half in HALVES] == ["b", "a"]
    with pytest.raises(InputError, match="item x does not have the attribute"):
        halves(["i0", "x"], 2, keys)
    assert halves(["x"], 2) == {"x": half_of("x", 2)}
    rows = [{"item_id": name, "attributes": attributes} for name, attributes in (
        ("a", [("p", "1"), ("q", "2")]), ("b", [("p", "")]), ("c", None), ("d", [("q", "3")]))]  # fmt: skip
    source: Any = TableInMemory("items", rows)
    assert attribute_values([source], "p") == {"a": "1"}
    assert attribute_values([source], "q") == {"a": "2", "d": "3"}


def test_keys_of_another_method_are_refused() -> None:
    def config(**keys: Any) -> methods.MethodConfig:
        return methods.MethodConfig(rubric=ONE, **keys)

    methods.check_method(config())
    methods.check_method(config(method="reasoned", samples=3))
    with pytest.raises(ValueError, match="method=open: must be one of closed, reasoned"):
        methods.check_method(config(method="open"))
    with pytest.raises(ValueError, match="samples=3: method=closed has no such key; omit it, or set method=reasoned"):
        methods.check_method(config(samples=3))
    with pytest.raises(ValueError, match=r"engine=packed: must be one of .* with method=reasoned"):
        methods.check_method(config(method="reasoned", engine="packed"))
    assert methods.identity(config()) == {"method": "closed"}
    one, two = (methods.identity(config(method="reasoned", samples=n)) for n in (1, 2))
    assert (one["method"], one["samples"], two["samples"]) == ("reasoned", 1, 2)
    assert {"method", "instruction", "samples"} < set(one)

"""The two errors with which a job ends."""

import pickle

import pytest
from ray.exceptions import RayTaskError

from jobs.errors import InputError, RunError, about, check_choice, check_least, shown


def test_the_text_has_the_parts_that_are_known() -> None:
    for error, text in (
        (InputError("no table"), "no table"),
        (InputError("no table", place="/r/a"), "/r/a: no table"),
        (InputError("no table", key="input", place="/r/a"), "input: /r/a: no table"),
        (InputError("odd", key="k", value=0.50, remedy="use 1"), "k=0.5: odd; use 1"),
        (InputError("odd", key="k", value=[1, True, "a", None], job="mine"), "mine: k=[1,true,a,…]: odd"),
        (RunError("failed", key="k", value=False), "k=false: failed"),
    ):
        assert str(error) == text
    assert shown(["a", None]) == "[a,null]"


def test_an_error_from_a_worker_has_its_parts() -> None:
    error = InputError("no table", key="input", value="/r", place="/r/a", remedy="use another", job="mine")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    wrapped = RayTaskError("f", "a trace", pickle.loads(pickle.dumps(error))).as_instanceof_cause()
    assert isinstance(wrapped, InputError)
    assert wrapped.sentence == error.sentence
    assert (wrapped.key, wrapped.value, wrapped.exit_code) == ("input", "/r", 2)


def test_a_block_about_a_key_names_it_unless_it_is_known() -> None:
    for raised, key in ((InputError("no"), "records"), (RunError("no", key="input"), "input")):
        with pytest.raises((InputError, RunError)) as caught, about("records"):
            raise raised
        assert caught.value.key == key


def test_choices_and_least_values_are_checked_with_their_keys() -> None:
    check_choice("mode", "a", ("a", "b"))
    check_least("rows", 1, 1)
    with pytest.raises(InputError, match=r"^mode=c: must be one of a, b$") as caught:
        check_choice("mode", "c", ("a", "b"))
    assert (caught.value.key, caught.value.value) == ("mode", "c")
    with pytest.raises(InputError, match=r"^rows=0\.5: must be at least 1$"):
        check_least("rows", 0.5, 1)

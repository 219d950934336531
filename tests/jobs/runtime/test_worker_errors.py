"""Errors of workers: one line, with the key of the model that could not be loaded."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.errors import ModelError, has_other_shapes
from jobs.errors import InputError, RunError
from jobs.runtime.attempts import REMEDY
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.worker_errors import as_run_errors, describe

TRACE = """ray::MapBatches(judge)() (pid=1, ip=127.0.0.1)
  File "actors/judge.py", line 1, in __init__
{error}
"""


def test_a_model_error_keeps_its_message_and_others_name_their_origin() -> None:
    with pytest.raises(RunError, match=r"^/m: cannot load the model \(cut\)$"), as_run_errors():
        raise RuntimeError(TRACE.format(error="actors.errors.ModelError: /m: cannot load the model (cut)"))
    with pytest.raises(RunError, match=r"^a worker failed: ValueError: a list \(ray\.verbose=true"), as_run_errors():
        raise RuntimeError(TRACE.format(error="ValueError: a list"))


def test_the_message_begins_with_the_key_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ["input=y", "rubric=century_labels", "out=x", "model.checkpoint=/models/mine"]
    cfg = config.load("judge", cli.job("judge").schema, overrides)

    def execute(_: Any) -> None:
        with as_run_errors():
            raise RuntimeError(TRACE.format(error=f"{ModelError.__module__}.ModelError: /models/mine: cannot load"))

    monkeypatch.setattr(cli, "job", lambda _: SimpleNamespace(execute=execute))
    with pytest.raises(RunError, match=r"^model\.checkpoint=/models/mine: cannot load$"):
        cli.execute_loaded("judge", cfg, overrides)


def test_errors_about_shapes_are_not_those_of_a_device() -> None:
    assert has_other_shapes(RuntimeError("You set `ignore_mismatched_sizes` to `False`, thus raising an error."))
    assert has_other_shapes(RuntimeError("Error(s) in loading state_dict for CLIP:\n\tsize mismatch for visual.proj"))
    assert not has_other_shapes(RuntimeError("CUDA error: out of memory"))


def test_a_trace_without_an_error_ends_in_its_last_line() -> None:
    assert describe("the first line\nthe last line \n") == "the last line"
    assert describe(" \n") == "Ray gave no reason"


def test_a_process_that_ended_is_named_by_its_stages() -> None:
    trace = "The actor died unexpectedly.\n\tclass_name: MapWorker(MapBatches(decode_embed))\n\tactor_id: 1"
    assert describe(trace).startswith(f"the process of decode and embed ended; {REMEDY}")
    assert describe(f"{trace}\nValueError: a list") == "ValueError: a list"
    wrapped = "ray.exceptions.ActorDiedError: it died\nray.exceptions.UserCodeException: no\n"
    assert describe(f"{wrapped}KeyError: 'a'\nray.exceptions.ActorDiedError: it died") == "KeyError: 'a'"


@pytest.mark.parametrize("error", [InputError("k=0: no"), RunError("it failed"), KeyboardInterrupt()])
def test_errors_of_one_line_are_raised_as_they_are(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, as_run_errors():
        raise error
    assert raised.value is error


def test_the_last_error_of_a_trace_is_the_one_that_counts() -> None:
    assert describe("KeyError: 'first'\nDuring handling:\nValueError: last\n") == "ValueError: last"

"""The list of a table's units: which plans continue it, and in which order."""

from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.store.limits import Taken
from jobs.store.run_files import INPUTS, read_inputs, run_uri
from jobs.store.runs.frozen_units import in_frozen_order
from tests.jobs.store.small_runs import FILES, begin, complete, plan, unit


def derived(out: str, names: str, *, etag: str = "1", limit: int | None = None) -> Any:
    taken = None if limit is None else Taken(limit, limit, 9, per_input=False, noun="rows")
    return plan(out, derived=True, units=[unit(name, etag=etag, derived=True) for name in names], limit=taken)


def test_only_a_trial_of_a_derived_table_may_have_more_units(out: str) -> None:
    """They come after the earlier ones; a unit that is gone is refused for a trial, too."""
    begin(derived(out, "bd", limit=4))
    assert [of_run.name for of_run in begin(derived(out, "abcd", limit=4)).units] == ["b", "d", "a", "c"]
    with pytest.raises(InputError, match=r"/corpus/d is gone"):
        begin(derived(out, "abc", limit=4))
    whole = f"{out}-whole"
    begin(derived(whole, "bd"))
    with pytest.raises(InputError, match=r"/corpus/a is new \(2 new\)"):
        begin(derived(whole, "abcd"))


def test_the_list_follows_changed_inputs_of_a_derived_table(out: str) -> None:
    """It is written again with their new versions, so that other jobs see what the units were made from."""
    for etag in ("1", "2"):
        begin(derived(out, "abc", etag=etag))
        listed = list(read_inputs(run_uri(out, INPUTS)))
        assert [(of_list.name, of_list.inputs[0].etag) for of_list in listed] == [(name, etag) for name in FILES]


def test_further_units_of_a_trial_come_after_those_that_were_frozen(tmp_path: Path) -> None:
    out, limit = str(tmp_path / "table"), Taken(5, 5, 9, per_input=False, noun="rows")
    frozen = [unit(name, derived=True) for name in ("c", "b")]
    complete(plan(out, units=frozen, derived=True, limit=limit))
    planned = plan(out, units=[unit(name, derived=True) for name in "abcd"], derived=True, limit=limit)
    assert [unit.name for unit in in_frozen_order(out, planned)] == ["c", "b", "a", "d"]


def test_the_first_by_name_of_several_inputs_is_named(out: str) -> None:
    begin(plan(out, units=[unit(name) for name in "dabc"]))
    for names, message in (("e", r"/corpus/a is gone \(4 gone, 1 new\)"), ("dabchfg", r"/corpus/f is new \(3 new\)")):
        with pytest.raises(InputError, match=message):
            begin(plan(out, units=[unit(name) for name in names]))


def test_more_files_are_no_more_rows_of_a_trial(out: str) -> None:
    limit = Taken(4, None, None, per_input=True, noun="rows")
    begin(plan(out, units=[unit(name) for name in "ab"], limit=limit))
    with pytest.raises(InputError, match=r"/corpus/c is new"):
        begin(plan(out, units=[unit(name) for name in "abc"], limit=limit))


def test_the_list_of_a_table_that_is_not_derived_stays_as_it_is(out: str) -> None:
    for etag in ("1", "2"):
        begin(plan(out, units=[unit("a", etag=etag, derived=True)]))
    assert [of_list.inputs[0].etag for of_list in read_inputs(run_uri(out, INPUTS))] == ["1"]

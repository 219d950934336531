"""The identity of a trial run differs from that of the whole run by its limit."""

from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.judging.rating_tables import open_ratings
from jobs.store.trials import WHOLE, limit_of, trials
from tests.factories import rating, write_file, write_table


def test_a_trial_has_the_identity_of_the_whole_but_for_its_limit() -> None:
    whole: dict[str, Any] = {"table": "ratings", "model": "m", "rubric": {"hash": "1"}}
    tables = {
        "ten": whole | {"limit": 10},
        "whole": whole,
        "hundred": whole | {"limit": 100, "exclusions": "x"},
        "alone": whole | {"model": "n", "limit": 10},
        "responses": whole | {"table": "responses", "limit": 10},
    }
    assert trials(tables) == {"ten": "whole", "hundred": "whole"}
    del tables["whole"]
    assert trials(tables) == {"ten": "hundred"}
    assert trials({"a": whole, "b": whole}) == {}


def test_rows_that_a_driver_writes_at_once_are_not_compared() -> None:
    whole: dict[str, Any] = {"table": "items", "links": ["l"], "rows": "1", "units": "1"}
    tables = {"whole": whole, "ten": whole | {"limit": 10, "rows": "2", "units": "2"}, "other": whole | {"rows": "3"}}
    assert trials(tables) == {"ten": "whole"}


def test_tables_that_are_listed_are_refused_and_the_trial_is_named(tmp_path: Path) -> None:
    rows = [rating(f"i{n}", "m", "fit", "1") for n in range(3)]
    whole = write_table(tmp_path / "whole", "ratings", rows)
    trial = write_table(tmp_path / "trial", "ratings", rows[:1], limit=1)
    more = write_table(tmp_path / "more", "ratings", rows[:2], limit=2)
    other = write_file(tmp_path / "other", "ratings", rows)
    assert [limit_of(table) for table in (whole, trial, more, other)] == [WHOLE, 1, 2, WHOLE]
    for tables, limit in ([whole, trial], 1), ([trial, whole], 1), ([more, trial], 1), ([more, other], 2):
        named = next(table for table in (trial, more) if limit_of(table) == limit)
        with pytest.raises(InputError, match=rf"same key.*{named} is a trial run \(limit={limit}\)"):
            open_ratings(tables)
    with pytest.raises(InputError, match="name one of the two tables"):
        open_ratings([whole, other])

"""The identity of a trial run differs from that of the whole run by its limit."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.judging.rating_tables import open_ratings
from jobs.store.files.objects import Object
from jobs.store.identity import stored_identity_hash
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.trials import WHOLE, limit_of, trials
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES
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


def test_tables_made_from_a_trial_are_trials_of_those_made_from_the_whole() -> None:
    def chain(out: str, **limit: int) -> dict[str, Any]:
        records = {"table": "records", "corpus": "c", **limit}
        images = {"table": "images", "input": stored_identity_hash(records)}
        ratings = {"table": "ratings", "of": {"tables": [stored_identity_hash(images), "x"]}, "model": "m"}
        return {f"{out}/records": records, f"{out}/images": images, f"{out}/ratings": ratings}

    names = ("records", "images", "ratings")
    tables = chain("whole") | chain("ten", limit=10) | chain("hundred", limit=100)
    assert trials(tables) == {f"{out}/{name}": f"whole/{name}" for out in ("ten", "hundred") for name in names}
    assert trials(chain("ten", limit=10)) == {}
    assert trials(chain("hundred", limit=100) | chain("ten", limit=10)) == {
        f"ten/{name}": f"hundred/{name}" for name in names
    }
    other = {"ten/more": chain("ten", limit=10)["ten/ratings"] | {"model": "n"}}
    assert "ten/more" not in trials(tables | other), "no table was made from the whole by this model"


def test_the_limit_is_that_of_the_tables_that_a_table_was_made_from(tmp_path: Path) -> None:
    def made_from(name: str, parent: str) -> str:
        source = open_table(parent)
        units = [
            replace(unit, inputs=(*unit.inputs, Object(f"{tmp_path}/others.tsv", 1, "e"))) for unit in source.units()
        ]
        keys = {"input": source.identity}
        run = open_run(TablePlan(f"{tmp_path}/{name}", "ratings", keys, units, {}, {}, derived=True), resume=True,
                       overwrite=False, retry=[])  # fmt: skip
        for task in run.todo:
            with UnitWriter(run.target, task) as writer:
                writer.counts.rows_in = 1
                writer.write(pa.Table.from_pylist([rating("i", "m", "fit", "1")], schema=TABLES["ratings"].schema()))
        run.finish()
        return f"{tmp_path}/{name}"

    trial = write_table(tmp_path / "first", "ratings", [rating("i", "m", "fit", "1")], limit=10)
    whole = write_table(tmp_path / "all", "ratings", [rating("i", "m", "fit", "1")])
    of_trial = made_from("third", made_from("second", trial))
    of_whole = made_from("of_whole", whole)
    assert (limit_of(of_trial), limit_of(of_whole)) == (10, WHOLE)
    with pytest.raises(InputError, match=rf"{of_trial} is a trial run \(limit=10\)"):
        open_ratings([of_whole, of_trial])
    shutil.rmtree(tmp_path / "second")
    assert limit_of(of_trial) == WHOLE


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

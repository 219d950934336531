"""Which items people were given: read from assignments, joined to the items of a question, and refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from jobs.analysis.assigned_items import ItemAssignment, read_assignments, unequal_draws
from jobs.errors import InputError
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.hashing import hash_texts
from jobs.store.reading import TableSource, open_table
from tests.factories import write_units


def assignment(folder: Path, tasks: dict[str, str], *, probability: float | None = 0.5) -> TableSource:
    """Return a table of assignments: item -> the rater, `-` for an item that was not drawn."""
    rows = [
        {"rater": "" if rater == "-" else rater, "place": place, "item_id": item, "target": "", "group": "", "file": "",
         "role": "not_drawn" if rater == "-" else "quota", "audited": False, "batch": 1, "probability": probability}
        for place, (item, rater) in enumerate(tasks.items(), 1)
    ]  # fmt: skip
    return open_table(write_units(folder, "assignments", [rows], rubric="mood"), "assignments")


def test_items_are_joined_by_their_ids(tmp_path: Path) -> None:
    read = ItemAssignment.read(assignment(tmp_path / "a", {"a": "ann", "b": "bo", "c": "-"}))
    joined = read.of(hash_texts(["c", "x", "a"]))
    assert joined.could_be_drawn.tolist() == [True, False, True]
    assert joined.assigned.tolist() == [False, False, True]
    np.testing.assert_array_equal(joined.probability, [0.5, np.nan, 0.5])
    assert joined.raters == 2
    nobody = ItemAssignment.read(assignment(tmp_path / "none", {})).of(hash_texts(["a"]))
    assert (nobody.could_be_drawn.tolist(), nobody.assigned.tolist(), nobody.raters) == ([False], [False], 0)
    assert np.isnan(ItemAssignment.read(assignment(tmp_path / "all", {"a": "ann"}, probability=None)).probability).all()


def test_the_last_of_several_batches_counts(tmp_path: Path) -> None:
    first = assignment(tmp_path / "1", {"a": "ann", "b": "-"}, probability=0.5)
    both = assignment(tmp_path / "2", {"a": "ann", "b": "bo"}, probability=1.0)
    for order in ([first, both], [both, first]):
        read = read_assignments(order).of("mood", hash_texts(["a"]))
        assert read is not None
        assert read.probability.tolist() == [1.0]
    assert read_assignments([first]).of("other", hash_texts(["a"])) is None
    with pytest.raises(InputError, match="were drawn separately"):
        read_assignments([first, assignment(tmp_path / "3", {"a": "-", "b": "bo"})])


@pytest.mark.parametrize(("method", "warnings"), [("uncertain", 1), ("random", 0)])
def test_answers_to_tasks_of_an_uncertain_draw_are_named(tmp_path: Path, method: str, warnings: int) -> None:
    def keep(uri: str, config: dict[str, object]) -> None:
        locations.replace(run_files.run_uri(uri, run_files.MANIFEST), json.dumps({"config": config}).encode())

    tasks = assignment(tmp_path / "tasks" / "assignments", {"a": "ann"})
    people = assignment(tmp_path / "people", {"a": "ann"})
    keep(tasks.uri, {"draw": {"method": method}})
    assert list(unequal_draws([people])) == []  # its manifest does not say what was imported
    for read in (f"{tmp_path}/tasks/spreadsheet/*.csv", None):
        keep(people.uri, {"input": read})
        named = list(unequal_draws([people]))
        assert [f"assignments={tasks.uri}" in warning for warning in named] == [True] * (warnings if read else 0)

"""Corrections are ratings of a person, in a table that other jobs read; a killed viewer leaves it whole."""

import fcntl
import multiprocessing
import os
import sys
from pathlib import Path

import pytest

from jobs.errors import InputError, RunError
from jobs.judging import kept_rubric
from jobs.judging.kept_rubric import Rubrics, of_answers
from jobs.store.reading import open_table
from jobs.store.run_files import read_manifest
from jobs.store.runs import table_run
from jobs.viewer.corrections import Correction, Corrections
from jobs.viewer.picture_details import LineKey
from tests.factories import FIVE, rating, rows_of, write_file, write_table
from tests.jobs.viewer.small_study import viewer_of

RUBRICS = Rubrics({"r": FIVE})
FIT = LineKey("r", "fit", "", "")
MALI = LineKey("r", "fit", "Mali", "article")


def test_a_correction_is_a_rating_that_can_be_changed_and_withdrawn(tmp_path: Path) -> None:
    corrections = Corrections(str(tmp_path), "ada", RUBRICS)
    assert corrections.tables() == []
    corrections.save([Correction("a", FIT, "2"), Correction("b", MALI, "5", comment="It is.")])
    (place,) = corrections.tables()
    first, second = rows_of(place)
    assert first | {"item_id": "a", "rater": "ada", "value": "2", "score": 2.0, "method": "human"} == first
    assert (first["answers"], first["status"], first["sample"]) == (list("12345"), "ok", 0)
    assert (second["target"], second["condition"], second["comment"]) == ("Mali", "article", "It is.")
    other = Corrections(str(tmp_path), "ada", RUBRICS)
    other.save([Correction("a", FIT, "3")])
    assert corrections.save([Correction("b", MALI, None)]) == []
    assert [(row["item_id"], row["value"]) for row in rows_of(place)] == [("a", "3")]
    kept = kept_rubric.read_kept(open_table(place))
    assert kept is not None
    assert kept.sha256 == FIVE.sha256
    for number in range(12):
        corrections.save([Correction("a", FIT, str(1 + number % 5))])
    record = open_table(place).footers[0].record
    assert record is not None
    assert (record["generation"], [one["generation"] for one in record["retired"]]) == (14, [*range(4, 14)])


def test_a_table_has_the_rows_of_its_rubric_in_the_order_of_their_keys(tmp_path: Path) -> None:
    rubrics = Rubrics({"r": FIVE, "s": of_answers("s", ["yes", "no"], ordinal=False)})
    corrections = Corrections(str(tmp_path), "ada", rubrics)
    kind = LineKey("s", "kind", "", "")
    saved = corrections.save([Correction("b", FIT, "2"), Correction("a", kind, "no"), Correction("a", FIT, "4")])
    assert [(row["rubric"], row["item_id"]) for row in saved] == [("r", "b"), ("r", "a"), ("s", "a")]
    of_r, of_s = corrections.tables()
    assert [(row["item_id"], row["value"], row["comment"]) for row in rows_of(of_r)] == [
        ("a", "4", None), ("b", "2", None)
    ]  # fmt: skip
    assert [(row["value"], row["score"], row["order"], row["rater"]) for row in rows_of(of_s)] == [
        ("no", None, "", "ada")
    ]  # fmt: skip
    assert corrections.save([Correction("nothing", FIT, None)]) == []
    assert len(rows_of(of_r)) == 2
    manifest = read_manifest(of_r)
    assert (manifest["complete"], manifest["counts"]["rows_out"]) == (True, 2)


@pytest.mark.parametrize(
    ("correction", "message"),
    [
        (Correction("a", FIT, "6"), "^r/fit=6: not an answer; must be one of 1, 2, 3, 4, 5$"),
        *(
            (Correction("a", LineKey("x", "q", "", ""), value), "must be one of none, as no table keeps its rubric$")
            for value in ("1", None)
        ),
    ],
)
def test_other_answers_are_refused(tmp_path: Path, correction: Correction, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Corrections(str(tmp_path), "ada", RUBRICS).save([correction])
    assert list(tmp_path.iterdir()) == []


def test_a_killed_viewer_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corrections = Corrections(str(tmp_path), "ada", RUBRICS)
    corrections.save([Correction("a", FIT, "2")])

    def killed(*_: object) -> None:
        raise RunError("killed")

    with monkeypatch.context() as patch:  # after the new list of units, before the rows
        patch.setattr(table_run, "with_footers", killed)
        with pytest.raises(RunError):
            corrections.save([Correction("a", FIT, "3")])
    place = corrections.tables()[0]
    with pytest.raises(InputError, match="not done"):
        open_table(place)
    Corrections(str(tmp_path), "ada", RUBRICS).check()
    assert [row["value"] for row in rows_of(place)] == ["2"]


def test_tables_of_others_are_not_touched(tmp_path: Path) -> None:
    Corrections(str(tmp_path / "A"), "ada", RUBRICS).save([Correction("a", FIT, "2")])
    write_table(tmp_path / "B" / "r", "ratings", [])
    for place, rater in (("A", "ben"), ("B", "ada")):
        with pytest.raises(InputError, match="ratings of another rater or rubric"):
            Corrections(str(tmp_path / place), rater, RUBRICS).check()
    with pytest.raises(InputError, match=f"out={tmp_path}/A: "):
        viewer_of(write_table(tmp_path / "m", "ratings", [], rubric=FIVE), tmp_path, rater="ben", out=f"{tmp_path}/A")
    rows = [rating(str(n), "m", "q", "1") for n in range(100)]  # of several row groups, and the last by another rater
    rated = write_file(tmp_path / "n", "ratings", [*rows, rating("a", "ben", "q", "1")], rubric=FIVE)
    with pytest.raises(InputError, match="rater=ben: "):
        viewer_of(rated, tmp_path / "db", rater="ben", out=f"{tmp_path}/C")


def save_some(place: str, rater: str, first: int) -> None:
    corrections = Corrections(place, rater, RUBRICS)
    corrections.check()
    for number in range(first, first + 8):
        corrections.save([Correction(f"i{number}", FIT, "2")])


def test_viewers_of_one_table_wait_for_each_other(tmp_path: Path) -> None:
    """Also while neither has begun the table."""
    processes = [multiprocessing.Process(target=save_some, args=(str(tmp_path), "ada", first)) for first in (0, 8, 16)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert {row["item_id"] for row in rows_of(str(tmp_path / "r"))} == {f"i{number}" for number in range(24)}


def test_a_viewer_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corrections_module = sys.modules[Corrections.__module__]
    monkeypatch.setattr(corrections_module, "WAIT_S", 0.1)
    corrections = Corrections(str(tmp_path), "ada", RUBRICS)
    corrections.save([Correction("a", FIT, "2")])
    folder = os.open(tmp_path / "r" / "_run", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="another process is writing"):
        corrections.save([Correction("a", FIT, "3")])
    os.close(folder)

"""The tables that a report finds below the folder of a run."""

from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.inventory.rated_run import RatedRun, find_rated_run
from tests.factories import picture, rating, record, write_table


def test_records_and_images_are_the_tables_with_the_most_rows(tmp_path: Path) -> None:
    ratings = write_table(tmp_path / "ratings", "ratings", [rating("i", "ann", "sensitive", "yes")])
    for name, rows in {"few": 1, "most": 3, "some": 2}.items():
        write_table(tmp_path / "records" / name, "records", [record(f"{name}{number}") for number in range(rows)])
        write_table(tmp_path / "images" / name, "images", [picture(number) for number in range(rows)])
    records, images = (str(tmp_path / kind / "most") for kind in ("records", "images"))
    assert find_rated_run(str(tmp_path)) == RatedRun([ratings], [], records, images)


def test_a_folder_is_a_run_if_it_has_more_than_ratings(tmp_path: Path) -> None:
    """Tables, globs, folders of ratings and folders without tables are opened as what they are."""
    rows = [rating("i", "ann", "sensitive", "yes")]
    only, mixed = tmp_path / "only", tmp_path / "mixed"
    tables = [write_table(only / name, "ratings", rows) for name in "ab"]
    for place in (str(only), tables[0], f"{only}/*", f"{only}/[ab]", str(tmp_path / "nothing")):
        assert find_rated_run(place) is None, place
    of_mixed = write_table(mixed / "ratings", "ratings", rows)
    items = [write_table(mixed / name, "items", [{"item_id": name}]) for name in ("x", "y")]
    assert find_rated_run(str(mixed)) == RatedRun([of_mixed], items, None, None)
    assert find_rated_run(f"{tmp_path}/m*") is None
    write_table(tmp_path / "other" / "images", "images", [picture(0)])
    write_table(tmp_path / "other" / "items", "items", [])
    with pytest.raises(InputError, match=r"^ratings=.*/other: has tables of images, items, but none of ratings$"):
        find_rated_run(f"{tmp_path}/other")


def test_trial_runs_are_left_out_also_where_only_ratings_are(tmp_path: Path) -> None:
    rows = [rating("i", "ann", "sensitive", "yes")]
    whole = write_table(tmp_path / "whole", "ratings", rows)
    write_table(tmp_path / "trial", "ratings", rows, limit=1)
    assert find_rated_run(str(tmp_path)) == RatedRun([whole], [], None, None)

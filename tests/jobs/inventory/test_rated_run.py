"""The tables that a report finds below the folder of a run."""

from pathlib import Path

from jobs.inventory.rated_run import RatedRun, find_rated_run
from tests.factories import picture, rating, record, write_table


def test_records_and_images_are_the_tables_with_the_most_rows(tmp_path: Path) -> None:
    ratings = write_table(tmp_path / "ratings", "ratings", [rating("i", "ann", "sensitive", "yes")])
    for name, rows in {"few": 1, "most": 3, "some": 2}.items():
        write_table(tmp_path / "records" / name, "records", [record(f"{name}{number}") for number in range(rows)])
        write_table(tmp_path / "images" / name, "images", [picture(number) for number in range(rows)])
    records, images = (str(tmp_path / kind / "most") for kind in ("records", "images"))
    assert find_rated_run(str(tmp_path)) == RatedRun([ratings], [], records, images)

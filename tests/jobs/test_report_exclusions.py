"""Excluded pictures in a report: neither their ratings nor their cards are on its page."""

import io
import re
from pathlib import Path

import pytest
from PIL import Image

from jobs.runtime.command_line import cli
from tests.factories import FIVE, picture, rating, record_of, rows_of, write_file, write_table


@pytest.mark.usefixtures("without_plots")
def test_an_excluded_picture_is_neither_counted_nor_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = io.BytesIO()
    Image.new("RGB", (8, 8)).save(sink, "JPEG")
    pictures = [picture(number) | {"bytes": sink.getvalue()} for number in range(3)]
    ids = [row["image_id"] for row in pictures]
    tables = {
        "ratings": write_file(
            tmp_path / "ratings",
            "ratings",
            [rating(name, p, "q", "3") for name in ids for p in ("p1", "p2")],
            rubric=FIVE,
        ),
        "images": write_table(tmp_path / "images", "images", pictures),
        "records": write_table(
            tmp_path / "records", "records", [record_of(row, f"Title{n}") for n, row in enumerate(pictures)]
        ),
    }
    keys = [f"{name}=[{uri}]" if name == "ratings" else f"{name}={uri}" for name, uri in tables.items()]

    def reported(*more: str) -> tuple[set[int], set[float], bool]:
        """Return which pictures have cards, the numbers of ratings, and whether the list is printed as matching."""
        assert cli.main("report", [*keys, "gallery=2", *more, f"out={tmp_path}/out"]) == 0
        page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
        totals = {row["value"] for row in rows_of(f"{tmp_path}/out/metrics") if row["metric"] == "ratings_total"}
        matches = "exclusions: 1 of 1 entries match a picture here" in capsys.readouterr().out
        return set(map(int, re.findall(r"Title(\d)", page))), totals, matches

    shown, *others = reported()
    assert (len(shown), *others) == (2, {6}, False)
    excluded = min(shown)
    (tmp_path / "listed.txt").write_text(pictures[excluded]["source_url"])
    # The third picture takes the place of the excluded one.
    assert reported(f"exclusions={tmp_path}/listed.txt") == ({0, 1, 2} - {excluded}, {4}, True)

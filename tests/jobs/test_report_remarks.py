"""People's free text in the report: the share of rated items that people wrote about."""

import json
from pathlib import Path

from jobs.runtime.command_line import cli
from tests.factories import FIVE, rating, rows_of, write_file

ITEMS = [f"i{n}" for n in range(6)]  # people rated the first five; alpha wrote the first three


def remark(item: str, rater: str, number: int = 1, field: str = "factual_error") -> dict[str, object]:
    key = {"item_id": item, "rubric": "r", "field": field, "rater": rater, "number": number}
    return {**key, "target": "", "condition": "", "sample": 0, "question": "", "text": "x"}


def test_shares_of_rated_items_by_field_and_writer(tmp_path: Path) -> None:
    ratings = [rating(item, person, "q", "3") for item in ITEMS[:5] for person in ("p1", "p2")]
    ratings += [rating("i5", "p1", "q", None), rating("i5", "m", "q", "3")]
    tables = {
        "ratings": write_file(tmp_path / "ratings", "ratings", ratings, rubric=FIVE),
        "remarks": write_file(
            tmp_path / "remarks",
            "remarks",
            [
                remark("i0", "p1"),
                remark("i0", "p1", 2),
                remark("i0", "p2"),
                remark("i3", "p2"),
                remark("i5", "p2"),  # no rating of it is ok
                remark("i0", "p2", field="sources"),
            ],
        ),
        "items": write_file(
            tmp_path / "items",
            "items",
            [
                {"item_id": item, "kind": "response", "attributes": [("model", "alpha" if n < 3 else "beta")]}
                for n, item in enumerate(ITEMS)
            ],
        ),
    }
    keys = [f"{name}=[{uri}]" for name, uri in tables.items()]
    assert cli.main("report", [*keys, "metrics.disaggregate=[model]", f"out={tmp_path}/out"]) == 0
    by_key = {
        (dims["field"], dims.get("part")): (row["value"], row["n"])
        for row in rows_of(f"{tmp_path}/out/metrics")
        if row["metric"] == "remark_share" and (dims := json.loads(row["dims"]))
    }
    assert by_key == {
        ("factual_error", None): (2 / 5, 5),
        ("factual_error", "alpha"): (1 / 3, 3),
        ("factual_error", "beta"): (1 / 2, 2),
        ("sources", None): (1 / 5, 5),
        ("sources", "alpha"): (1 / 3, 3),
        ("sources", "beta"): (0, 2),
    }
    assert "Items that people wrote about" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")

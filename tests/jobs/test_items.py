"""The job `items`, through its command line."""

from pathlib import Path

from jobs.runtime import cli
from tests.factories import rows_of


def test_a_list_of_urls_becomes_items_and_records(tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("https://a.example/1.jpg\n\nhttps://a.example/2.jpg\n")
    arguments = [f"input={tmp_path}/urls.txt", f"out={tmp_path}/R"]
    assert cli.main("items", arguments) == 0
    items, records = rows_of(f"{tmp_path}/R/items"), rows_of(f"{tmp_path}/R/records")
    assert [record["image_url"] for record in records] == ["https://a.example/1.jpg", "https://a.example/2.jpg"]
    assert [item["image_ids"] for item in items] == [[record["image_id"]] for record in records]

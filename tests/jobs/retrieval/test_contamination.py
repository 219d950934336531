"""Queries that are pictures of the knowledge base, by id, by bytes, or by a perceptual hash within 4 bits."""

from pathlib import Path

from jobs.retrieval.contamination import KnowledgeBasePictures, Overlap
from jobs.store.reading import open_table
from jobs.store.shared_lookup import SharedLookup
from tests.factories import image_row, write_table


def test_a_query_is_in_the_first_list_that_applies(tmp_path: Path) -> None:
    queries = [
        image_row("", image_id="shared", phash="00000000000000ff") | {"sha256": "of-kb"},
        image_row("", image_id="copy", phash="00000000000000ff") | {"sha256": "of-kb"},
        image_row("", image_id="near", phash="00000000000000f0") | {"sha256": "a"},  # 4 bits of the 64
        image_row("", image_id="far", phash="00000000000000e0") | {"sha256": "b"},  # 5 bits
        image_row("", image_id="unread"),
        image_row("", image_id="not asked", phash="00000000000000ff"),
    ]
    pictures = [image_row("", image_id="kb", phash="00000000000000ff") | {"sha256": "of-kb"}, image_row("other")]
    pairs = [{"node_id": "n", "image_id": name} for name in ("kb", "shared")]
    tables = {
        name: open_table(write_table(tmp_path / name, table, rows))
        for name, table, rows in (
            ("queries", "images", queries), ("pictures", "images", pictures), ("pairs", "node_images", pairs)
        )
    }  # fmt: skip
    objects = [footer.object for footer in tables["pairs"].footers]
    asked = ["shared", "copy", "near", "far", "unread", "gone"]
    pictures_of_kb = KnowledgeBasePictures(
        SharedLookup(objects, key="image_id", columns=[]), tables["queries"], tables["pictures"]
    )
    assert pictures_of_kb.overlap(asked) == Overlap(["shared"], ["copy"], ["near"])
    ids_only = KnowledgeBasePictures(SharedLookup(objects, key="image_id", columns=[]), tables["queries"], None)
    assert ids_only.overlap(asked) == Overlap(["shared"], [], [])

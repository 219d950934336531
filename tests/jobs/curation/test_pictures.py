"""Pictures in a table of images: one is missing only if the source said so and no rendition exists."""

from typing import Any

import numpy as np
import pytest

from jobs.curation.hash_index import HashIndex
from jobs.curation.pictures import CurationFacts, read_facts
from jobs.curation.rows import read_rows
from jobs.errors import InputError
from jobs.store.reading import open_table
from tests.factories import TableInMemory, image_row, record, write_table

TITLES = "abcdef"


def looks(tmp_path: Any, images: list[dict[str, Any]], *, hashes: bool = True) -> CurationFacts:
    """By picture of the records `a` to `f`, in that order."""
    held: Any = TableInMemory("records", [record(title) for title in TITLES])
    rows = read_rows(held, thumbnails="any")
    actual = read_facts(open_table(write_table(str(tmp_path / "i"), "images", images)), rows.pictures, hashes=hashes)
    return CurationFacts(actual.gone[rows.image], actual.hashed[rows.image], actual.phash[rows.image], actual.counts)


def of(title: str, **more: Any) -> dict[str, Any]:
    return image_row(f"https://i/{title}.jpg", **more)


def test_only_missing_is_gone(tmp_path: Any) -> None:
    images = [
        of("a", phash="00000000000000ff"),
        of("b", status="missing"),
        of("c", status="error"),
        of("d", status="missing"),
        of("d", rendition="w300", phash="0f00000000000000"),
        of("e", status="blocked"),
        of("f", phash="ff"),  # of another kind: a perceptual hash has 16 digits
        of("somebody else's", status="missing"),
    ]
    actual = looks(tmp_path, images)
    assert actual.gone.tolist() == [False, True, False, False, False, False]
    assert actual.hashed.tolist() == [True, False, False, True, False, False]
    assert [hex(h) for h in actual.phash] == ["0xff", "0x0", "0x0", "0xf00000000000000", "0x0", "0x0"]
    assert actual.counts == {"existing": 3, "gone": 1, "unknown": 2, "of_others": 1}


@pytest.mark.parametrize("reverse", [False, True])
def test_the_hash_is_that_of_the_first_rendition_by_name(tmp_path: Any, reverse: bool) -> None:
    images = [
        of("a", rendition="w300", phash="0000000000000003"),
        of("a", rendition="original", phash="0000000000000001"),
        of("a", rendition="w500", phash="0000000000000005"),
        of("b", rendition="w500", phash="0000000000000005"),
        of("b", rendition="w300", phash="0000000000000003"),
        of("b", rendition="original", status="error", phash=None),
    ]
    actual = looks(tmp_path, images[::-1] if reverse else images)
    assert actual.phash[:2].tolist() == [1, 3]


def test_useless_tables_are_refused(tmp_path: Any) -> None:
    with pytest.raises(InputError, match="none of its 1 pictures belongs to the records"):
        looks(tmp_path / "1", [of("x")])
    with pytest.raises(InputError, match="no phash"):
        looks(tmp_path / "2", [of("a")])
    assert not looks(tmp_path / "3", [of("a")], hashes=False).hashed.any()
    held = open_table(write_table(tmp_path / "6", "records", [record("a")]))
    with pytest.raises(InputError, match=r"^images=.*6: no column rendition; use a table that remine fetch wrote$"):
        read_facts(held, HashIndex(np.empty((0, 2), np.uint64)), hashes=True)
    nothing = HashIndex(np.empty((0, 2), np.uint64))
    others = open_table(write_table(tmp_path / "5", "images", [of("a")]))
    assert read_facts(others, nothing, hashes=False).counts["of_others"] == 1
    assert np.array_equal(looks(tmp_path / "4", [], hashes=False).gone, np.zeros(6, bool))

"""The pictures at the top of each order, whichever table and item they are from."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from jobs.analysis.standings import Standings
from jobs.page.gallery_tops import Best, in_turn, picture_values
from jobs.store.hashing import hash_texts
from jobs.store.reading import open_table
from tests.factories import write_table

NAN = float("nan")


def test_the_best_are_those_of_all_that_were_added() -> None:
    best = Best(2)
    best.add(np.array([3.0, NAN, 2.0]), ["c", "a", "b"], ["x", "nothing", "y"])
    best.add(np.array([2.0, 9.0]), ["a", "b"], ["z", "far"])
    assert best.ids == ["z", "y"]  # equal values by their draws
    assert in_turn([["a", "b"], ["c"], ["a", "d", "e"]]) == ["a", "c", "b", "d", "e"]


def test_a_picture_has_the_largest_values_of_itself_and_of_its_items(tmp_path: Path) -> None:
    values = {"p": (NAN, 2), "i1": (0.5, 4), "i2": (0.25, 5), "i3": (NAN, NAN), "q": (0.75, 3), "i4": (0.5, 1)}
    hashes = hash_texts(pa.array(list(values)))
    order = np.argsort(hashes)
    disagreement, score = np.array(list(values.values())).T[:, order]
    rated = Standings(hashes[order], disagreement, score, ("r", "q"))
    rows = [
        {"item_id": item, "kind": "image", "image_ids": images, "text_ids": [], "attributes": attributes}
        for item, images, attributes in (
            ("i1", ["p"], [("region", "")]),
            ("i2", ["p", "q"], []),  # about its first picture
            ("i3", ["p"], [("region", "North")]),
            ("i4", ["q"], []),
            ("i5", [], [("region", "South")]),
        )
    ]
    items = open_table(write_table(tmp_path / "items", "items", rows), "items")
    for sources in ([items], [items, items]):
        disagreements, scores, regions = picture_values(sources, rated).at(hash_texts(pa.array(["p", "q", "z"])))
        assert disagreements.tolist() == pytest.approx([0.5, 0.75, NAN], nan_ok=True)
        assert scores.tolist() == pytest.approx([5.0, 3.0, NAN], nan_ok=True)
        assert regions == ["North", "", ""]
    unknown = hash_texts(pa.array([f"unknown {n}" for n in range(40)]))  # also such as are after all known ones
    assert unknown.max() > hash_texts(pa.array(["p", "q"])).max()
    assert set(picture_values([items], rated).at(unknown)[2]) == {""}
    disagreements, scores, regions = picture_values([], rated).at(hash_texts(pa.array(["q", "z"])))
    assert (scores.tolist(), regions) == (pytest.approx([3.0, NAN], nan_ok=True), ["", ""])

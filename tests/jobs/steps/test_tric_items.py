"""`tric items`: the best captions of each picture become the targets of an item."""

from pathlib import Path

import pytest

from actors.ids import content_id
from jobs.corpora.tric import read_split
from jobs.errors import InputError
from jobs.steps import tric_items
from tests.cases import check_cases


def _refused(folder: Path, k: int, message: str) -> None:
    cfg = tric_items.TricItemsConfig(split=str(folder), neighbors="n", captions="c", out="o", k=k)
    with pytest.raises(InputError, match=f"^{message}"):
        tric_items.execute(cfg)


def test_items_of_a_split_have_its_best_captions_once(tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("a.png\t1899-07-13\nb.png\t1900-01-01\n")
    (tmp_path / "captions.tsv").write_text("1\tA\n2\tA\n3\tB\n4\tC\n")
    split = read_split(str(tmp_path))
    rows = tric_items.items(split, {1: ["4", "3"], 0: ["1", "2", "3", "4"]}, k=3, dates="none")
    assert [(row["item_id"], row["targets"], row["gold"], row["attributes"]) for row in rows] == [
        (content_id("a.png"), ["A", "B"], None, [("decade", "1890s")]),
        (content_id("b.png"), ["C", "B"], None, [("decade", "1900s")]),
    ]
    (tmp_path / "expected.tsv").write_text("2\n1\n")
    rows = tric_items.items(read_split(str(tmp_path)), {0: ["3", "1"], 1: ["3"]}, k=2, dates="year")
    assert [row["gold"] for row in rows] == [["A"], None]
    assert dict(rows[0]["attributes"]) == {"decade": "1890s", "date": "1899"}
    check_cases(lambda k, message: _refused(tmp_path, k, message), [(0, "k=0: "), (101, "k=101: must be 1 to 100")])

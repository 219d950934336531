"""The pictures that a search found, by hand."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.retrieval.candidate_rows import MetadataConfig, best_neighbors, candidates, find_metadata, read_metadata
from jobs.runtime.selection.exclusions import ExclusionFilter, marks_of
from tests.factories import TableInMemory

NEIGHBORS = [
    {"query_id": query, "rank": rank, "item_id": item, "score": 1 - rank / 10}
    for query, items in (("r", "ba"), ("q", "abcdef"))
    for rank, item in enumerate(items, 1)
]
DESCRIBED = {
    "a": ("https://h/a.jpg", "A"), "b": (" https://h/a.jpg ", "B"), "c": (None, "C"), "d": (" ", None),
    "e": ("https://h/e.jpg", None),
}  # fmt: skip


def best(k: int | None, queries: int | None = None) -> Any:
    source: Any = TableInMemory("neighbors", NEIGHBORS)
    return best_neighbors(source, k, queries=queries)


def test_the_best_neighbours_by_query_and_rank() -> None:
    rows = best(2).to_pylist()
    assert [(row["query_id"], row["rank"], row["item_id"]) for row in rows] == [
        ("q", 1, "a"), ("q", 2, "b"), ("r", 1, "b"), ("r", 2, "a")
    ]  # fmt: skip
    reversed_rows: Any = TableInMemory("neighbors", NEIGHBORS[::-1])
    assert best_neighbors(reversed_rows, 2).to_pylist() == rows
    assert best(None).num_rows == 8
    of_first = [
        [(row["query_id"], row["rank"]) for row in best(k, queries).to_pylist()]
        for k, queries in ((None, 1), (1, 2), (None, 9))
    ]
    assert of_first[0] == [("r", 1), ("r", 2)]
    assert of_first[1] == [("q", 1), ("r", 1)]
    assert len(of_first[2]) == 8
    later: Any = TableInMemory("neighbors", [*NEIGHBORS, *(row | {"query_id": "s"} for row in NEIGHBORS[:2])])
    assert set(best_neighbors(later, None, queries=2)["query_id"].to_pylist()) == {"q", "r"}, "of all batches"


def test_a_picture_is_one_record_and_one_neighbour_of_a_query() -> None:
    result = candidates(best(None), DESCRIBED, ExclusionFilter(frozenset()))
    a, e = content_id("https://h/a.jpg"), content_id("https://h/e.jpg")
    records = [
        (r["record_id"], r["image_id"], r["image_url"], r["caption_alt_text_description"]) for r in result.records
    ]
    assert records == [("a", a, "https://h/a.jpg", "A"), ("e", e, "https://h/e.jpg", None)]
    neighbors = [(row["query_id"], row["item_id"], row["rank"]) for row in result.neighbors]
    assert neighbors == [("q", a, 1), ("q", e, 5), ("r", a, 1)]
    # b is the picture of a, for both queries; c and d have no URL; f is not in the corpus
    assert result.left_out == {"same_picture": 2, "no_url": 2, "not_in_corpus": 1}


def test_exclusions_by_the_id_of_the_corpus_and_by_url() -> None:
    for name in ("e", "https://h/e.jpg", content_id("https://h/e.jpg")):
        result = candidates(best(None), DESCRIBED, ExclusionFilter(marks_of(name)))
        assert (result.left_out["excluded"], len(result.records)) == (1, 1)
    thumbnail = "https://upload.wikimedia.org/wikipedia/commons/thumb/a/a9/Example.jpg/300px-Example.jpg"
    of_wikimedia = DESCRIBED | {"e": (thumbnail, None)}
    other_spelling = ExclusionFilter(marks_of("https://commons.wikimedia.org/wiki/File:Example.jpg"))
    assert candidates(best(None), of_wikimedia, other_spelling).left_out["excluded"] == 1


def test_the_first_row_of_an_id_describes_it(tmp_path: Path) -> None:
    for name, texts in (("a", ["first", "second"]), ("b", ["third", "other"])):
        ids = ["x", "x"] if name == "a" else ["x", "y"]
        urls = pa.array(texts, pa.large_string())
        uids = pa.array(ids, pa.large_string() if name == "b" else pa.string())
        pq.write_table(pa.table({"uid": uids, "url": urls, "text": texts}), tmp_path / f"{name}.parquet")
    (tmp_path / "notes.txt").write_text("x")
    config = MetadataConfig(path=str(tmp_path))
    files = find_metadata(config)
    assert [Path(file.uri).name for file in files] == ["a.parquet", "b.parquet"]
    ids = pa.array(["x", "y", "z"])
    assert read_metadata(files, config, ids) == {"x": ("first", "first"), "y": ("other", "other")}
    config.caption = None
    assert read_metadata(files, config, ids) == {"x": ("first", None), "y": ("other", None)}
    with pytest.raises(InputError, match=r"no column link; there are uid, url, text \(choose with corpus\.id="):
        read_metadata(files, MetadataConfig(path=str(tmp_path), url="link"), ids)
    (tmp_path / "c.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"c\.parquet: cannot be read \("):
        read_metadata(find_metadata(config), config, ids)
    with pytest.raises(InputError, match=r"corpus\.path=.*notes\.txt: has no \.parquet file"):
        find_metadata(MetadataConfig(path=f"{tmp_path}/notes.txt"))

"""The layouts of vectors in the wild: found, compared, cut into units, read, refused."""

import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.checkpoints.encoder import EmbedderConfig
from jobs.corpora.embeddings import (
    VectorCorpus,
    VectorsConfig,
    VectorSpace,
    check_same_space,
    find_corpus,
    layout_of,
    space_of,
)
from jobs.corpora.vectors import UnitVectors
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from tests import factories
from tests.factories import embedding_rows, write_units

DIM = 64
TINY = EmbedderConfig(name="tiny", checkpoint="local:siglip-tiny")  # 64 numbers a vector


def vectors(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, DIM)).astype(np.float16)


def meta(path: Path, rows: int, tag: str, **more: Any) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    columns = {"uid": [f"{tag}-{n}" for n in range(rows)], "width": list(range(rows)), **more}
    pq.write_table(pa.table(columns), path, row_group_size=7)


def datacomp(folder: Path, sizes: list[int], *, compressed: bool = False) -> dict[str, np.ndarray]:
    """Pairs {hash}.npz and {hash}.parquet; uid -> vector."""
    folder.mkdir(exist_ok=True)
    truth: dict[str, np.ndarray] = {}
    for number, rows in enumerate(sizes):
        stored = vectors(rows, number)
        save: Any = np.savez_compressed if compressed else np.savez
        save(folder / f"{number:08x}.npz", b32_img=vectors(rows, 99)[:, :8], l14_img=stored)
        meta(folder / f"{number:08x}.parquet", rows, f"{number:08x}")
        truth |= {f"{number:08x}-{n}": stored[n] for n in range(rows)}
    return truth


def config(path: Path | str, layout: str, **more: Any) -> VectorsConfig:
    return VectorsConfig(layout=layout, path=str(path), **{"embedder": TINY, **more})


def read(
    corpus: VectorCorpus, cfg: VectorsConfig, *, rows: int = 5, excluded: set[str] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """item_id -> vector of everything that would be searched, and the counts."""
    layout = layout_of(cfg)
    actual: dict[str, np.ndarray] = {}
    counts: dict[str, int] = {}
    for unit in corpus.units:
        opened = UnitVectors(unit, layout, exclusion_filter=ExclusionFilter(frozenset(excluded or ())))
        for block in opened.blocks(rows):
            assert len(block.vectors) == len(block.places) <= rows
            actual |= zip(opened.ids(block.places), [v.copy() for v in block.vectors], strict=True)
        for word, n in opened.counts.items():
            counts[word] = counts.get(word, 0) + n
    return actual, counts


def same(actual: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> bool:
    return actual.keys() == truth.keys() and all((actual[k] == truth[k]).all() for k in truth)


@pytest.mark.parametrize("compressed", [False, True])
def test_datacomp(tmp_path: Path, compressed: bool) -> None:
    truth = datacomp(tmp_path / "d", [23, 0, 40, 1], compressed=compressed)
    (tmp_path / "d" / "README.md").touch()
    meta(tmp_path / "d" / "other" / "more.parquet", 3, "x")
    cfg = config(tmp_path / "d", "datacomp", array="l14_img", id="uid")
    corpus = find_corpus(cfg)
    actual, counts = read(corpus, cfg)
    assert same(actual, truth)
    assert counts == {"searched": 64}
    assert (corpus.rows, len(corpus.units), corpus.space.dim) == (64, 1, DIM)


def test_datacomp_on_s3(tmp_path: Path, s3: str) -> None:
    from jobs.store.files import locations

    truth = datacomp(tmp_path / "d", [23, 40])
    for path in sorted((tmp_path / "d").iterdir()):
        locations.publish(path, f"{s3}/embeddings/datacomp/{path.name}")
    cfg = config(f"{s3}/embeddings/datacomp/*", "datacomp", array="l14_img", id="uid")
    actual, _ = read(find_corpus(cfg), cfg)
    assert same(actual, truth)
    cfg.where = "width >= 30"
    actual, counts = read(find_corpus(cfg), cfg)
    assert actual.keys() == {k for k in truth if int(k.split("-")[1]) >= 30}
    assert counts == {"searched": 10, "where": 53}


def test_a_condition_and_exclusions(tmp_path: Path) -> None:
    truth = datacomp(tmp_path / "d", [23, 40])
    cfg = config(tmp_path / "d", "datacomp", array="l14_img", id="uid", where="width < 12 or width = 39")
    out = "00000001-39"
    actual, counts = read(find_corpus(cfg), cfg, excluded={out, "00000000-20"})
    assert same(actual, {k: v for k, v in truth.items() if int(k.split("-")[1]) < 12})
    assert counts == {"searched": 24, "where": 37, "excluded": 2}


def test_without_a_column_of_ids_exclusions_cannot_name_a_row(tmp_path: Path) -> None:
    datacomp(tmp_path / "d", [23])
    for where, counts in ((None, {"searched": 23}), ("width < 5", {"searched": 5, "where": 18})):
        cfg = config(tmp_path / "d", "datacomp", array="l14_img", where=where)
        actual, counted = read(find_corpus(cfg), cfg, excluded={"00000000-3"})
        assert (len(actual), counted) == (counts["searched"], counts)
        assert {len(name) for name in actual} == {32}, "hashes of the vectors"


def test_rows_after_a_block_without_any_are_searched(tmp_path: Path) -> None:
    truth = datacomp(tmp_path / "d", [23])
    cfg = config(tmp_path / "d", "datacomp", array="l14_img", id="uid", where="width < 5 or width >= 20")
    actual, counts = read(find_corpus(cfg), cfg, rows=5)
    assert same(actual, {k: v for k, v in truth.items() if not 5 <= int(k.split("-")[1]) < 20})
    assert counts == {"searched": 8, "where": 15}


def test_clip_retrieval(tmp_path: Path) -> None:
    truth: dict[str, np.ndarray] = {}
    (tmp_path / "img_emb").mkdir()
    for number in (0, 1, 10):
        stored = vectors(9, number)
        np.save(tmp_path / "img_emb" / f"img_emb_{number}.npy", stored)
        names = [f"p{number}/{n}.jpg" for n in range(9)]
        meta(tmp_path / "metadata" / f"metadata_{number}.parquet", 9, "x", image_path=names)
        truth |= dict(zip(names, stored, strict=True))
    (tmp_path / "metadata" / "notes.txt").touch()
    meta(tmp_path / "other" / "metadata_3.parquet", 9, "x")
    for array in ("img_emb", None):
        cfg = config(tmp_path, "clip_retrieval", array=array, id="image_path")
        assert same(read(find_corpus(cfg), cfg)[0], truth)
    (tmp_path / "text_emb").mkdir()
    for number in (0, 1, 10):
        np.save(tmp_path / "text_emb" / f"text_emb_{number}.npy", vectors(9, number + 50))
    of_texts = config(tmp_path, "clip_retrieval", array="text_emb", id="image_path")
    texts, _ = read(find_corpus(of_texts), of_texts)
    assert (texts["p10/8.jpg"] == vectors(9, 60)[8]).all()
    (tmp_path / "metadata" / "metadata_10.parquet").unlink()
    with pytest.raises(InputError, match=r"img_emb_10\.npy .*metadata_10\.parquet"):
        find_corpus(cfg)


def test_plain_arrays_are_cut_and_named_after_their_content(tmp_path: Path) -> None:
    stored = np.random.default_rng(5).standard_normal((20_000, DIM)).astype(np.float32)
    np.save(tmp_path / "one.npy", stored)
    cfg = config(tmp_path / "*.npy", "npy", unit_mb=1)
    corpus = find_corpus(cfg)
    assert len(corpus.units) == 6
    assert len({unit.name for unit in corpus.units}) == 6
    actual, _ = read(corpus, cfg, rows=4096)
    assert len(actual) == 20_000
    assert {v.tobytes() for v in actual.values()} == {v.tobytes() for v in stored}
    np.save(tmp_path / "one.npy", stored[::-1])
    turned, _ = read(find_corpus(cfg), cfg, rows=4096)
    assert {k: v.tobytes() for k, v in turned.items()} == {k: v.tobytes() for k, v in actual.items()}


def test_the_rest_of_a_cut_file_shares_a_unit_with_the_next(tmp_path: Path) -> None:
    """A unit whose first part does not begin at the file's first row, in front of another part."""
    truth: dict[str, np.ndarray] = {}
    (tmp_path / "img_emb").mkdir()
    for number, rows in enumerate((9_000, 300)):  # units of 1 MB hold 8,192 rows
        stored = vectors(rows, number)
        np.save(tmp_path / "img_emb" / f"img_emb_{number}.npy", stored)
        names = [f"p{number}/{n}.jpg" for n in range(rows)]
        meta(tmp_path / "metadata" / f"metadata_{number}.parquet", rows, "x", image_path=names)
        truth |= dict(zip(names, stored, strict=True))
    cfg = config(tmp_path, "clip_retrieval", array="img_emb", id="image_path", unit_mb=1)
    corpus = find_corpus(cfg)
    assert [len(unit.inputs) // 2 for unit in corpus.units] == [1, 2]
    assert same(read(corpus, cfg, rows=4096)[0], truth)
    cfg.where = "width < 3 or width >= 8995"
    some, counts = read(find_corpus(cfg), cfg, rows=4096)
    numbers = {name: int(name.split("/")[1].removesuffix(".jpg")) for name in truth}
    assert same(some, {name: vector for name, vector in truth.items() if not 3 <= numbers[name] < 8995})
    assert counts == {"searched": 11, "where": 9_289}
    cfg.where = None
    last = UnitVectors(corpus.units[1], layout_of(cfg))
    rest = sum(unit.rows or 0 for unit in corpus.units) - 300 - (corpus.units[0].rows or 0)
    places = [last.source(place) for place in (0, rest - 1, rest, rest + 299)]
    assert [(Path(uri).name, row) for uri, row in places] == [
        ("img_emb_0.npy", 9_000 - rest), ("img_emb_0.npy", 8_999), ("img_emb_1.npy", 0), ("img_emb_1.npy", 299),
    ]  # fmt: skip


def test_units_of_a_table_that_exactly_fill_a_megabyte_are_read_together(tmp_path: Path) -> None:
    """A vector of 250 float16 numbers takes 500 bytes."""
    rows = [{"item_id": f"i{n}", "kind": "image", "embedding": [1.0] * 250, "status": "ok"} for n in range(1000)]
    table = write_units(tmp_path / "embeddings", "embeddings", [rows, rows, rows[:1]])
    corpus = find_corpus(VectorsConfig(path=table, unit_mb=1))
    assert [unit.rows for unit in corpus.units] == [2000, 1]


def test_rows_without_an_id_get_their_vectors_hash(tmp_path: Path) -> None:
    datacomp(tmp_path / "d", [5])
    meta(tmp_path / "d" / "00000000.parquet", 5, "x", key=["a", None, "b", None, "c"])
    cfg = config(tmp_path / "d", "datacomp", array="l14_img", id="key")
    actual, _ = read(find_corpus(cfg), cfg)
    assert {"a", "b", "c"} < actual.keys()
    assert len(actual) == 5


class TestRefused:
    def message_of(self, cfg: VectorsConfig) -> str:
        with pytest.raises(InputError) as caught:
            find_corpus(cfg)
        return str(caught.value)

    def test_pairs(self, tmp_path: Path) -> None:
        datacomp(tmp_path / "d", [5, 6])
        cfg = config(tmp_path / "d", "datacomp", array="l14_img", id="uid")
        meta(tmp_path / "d" / "00000001.parquet", 7, "x")
        assert "00000001.npz has 6 rows" in self.message_of(cfg)
        assert "00000001.parquet has 7" in self.message_of(cfg)
        (tmp_path / "d" / "00000001.npz").rename(tmp_path / "kept.npz")
        assert "00000001.parquet: " in self.message_of(cfg)
        (tmp_path / "kept.npz").rename(tmp_path / "d" / "00000001.npz")
        (tmp_path / "d" / "00000001.parquet").write_bytes(b"no parquet")
        assert "00000001.parquet: not a readable Parquet file" in self.message_of(cfg)
        (tmp_path / "d" / "00000001.parquet").unlink()
        assert "00000001.npz " in self.message_of(cfg)

    def test_arrays(self, tmp_path: Path) -> None:
        datacomp(tmp_path / "d", [5])
        good = config(tmp_path / "d", "datacomp", array="l14_img", id="uid")
        assert "b32_img, l14_img" in self.message_of(config(good.path, "datacomp", array="b16_img"))
        assert "vectors of 8 numbers" in self.message_of(config(good.path, "datacomp", array="b32_img"))
        assert "corpus.id=url: no such column" in self.message_of(
            config(good.path, "datacomp", array="l14_img", id="url")
        )
        assert "no column 'height'" in self.message_of(
            config(good.path, "datacomp", array="l14_img", where="height > 3")
        )
        assert "corpus.embedder.checkpoint=: required" in self.message_of(config(good.path, "datacomp", embedder=None))
        unknown = EmbedderConfig(name="x", checkpoint="local:no-such-encoder")
        assert self.message_of(config(good.path, "datacomp", embedder=unknown)).startswith(
            "corpus.embedder.checkpoint="
        )
        assert "no files of corpus.layout=npy" in self.message_of(config(good.path, "npy"))
        assert "corpus.layout=parquet" in self.message_of(config(good.path, "parquet"))
        assert "corpus.unit_mb=0: must be at least 1" in self.message_of(config(good.path, "npy", unit_mb=0))

    def test_pickles_and_other_shapes(self, tmp_path: Path) -> None:
        for name, array, message in (
            ("objects", np.array([[{"a": 1}]], object), "never unpickled"),
            ("flat", np.zeros(DIM, np.float16), "rows of <f2"),
            ("whole", np.zeros((3, DIM), np.int8), "rows of <f2"),
            ("big", np.zeros((3, DIM), ">f4"), "is >f4 of shape (3, 64)"),
            ("none", np.zeros((0, DIM), np.float16), "hold no vectors"),
            ("columns", np.asfortranarray(np.ones((3, DIM), np.float32)), "column order"),
        ):
            np.save(tmp_path / f"{name}.npy", array, allow_pickle=True)
            assert message in self.message_of(config(tmp_path / f"{name}.npy", "npy"))
        np.save(tmp_path / "short.npy", vectors(9))
        whole = (tmp_path / "short.npy").read_bytes()
        for cut, message in ((-3, "shorter than its header says"), (40, "not a NumPy array"), (0, "not a NumPy array")):
            (tmp_path / "short.npy").write_bytes(whole[:cut])
            assert message in self.message_of(config(tmp_path / "short.npy", "npy"))
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("l14_img.npy", b"nonsense" * 30)
        meta(tmp_path / "a.parquet", 3, "x")
        assert "a.npz: not a NumPy array" in self.message_of(config(tmp_path / "a.*", "datacomp", array="l14_img"))

    def test_a_member_that_is_not_an_npy_file(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("l14_img", vectors(3).tobytes())
        meta(tmp_path / "a.parquet", 3, "x")
        assert "corpus.array=l14_img: " in self.message_of(config(tmp_path / "a.*", "datacomp", array="l14_img"))

    def test_columns_of_any_of_the_files(self, tmp_path: Path) -> None:
        datacomp(tmp_path / "d", [5, 5])
        cfg = config(tmp_path / "d", "datacomp", array="l14_img", id="uid", where="width > 3")
        second = tmp_path / "d" / "00000001.parquet"
        pq.write_table(pa.table({"uid": ["x"] * 5, "breadth": [1] * 5}), second)
        assert f"uid, breadth (in {second})" in self.message_of(cfg)
        pq.write_table(pa.table({"uid": ["x"] * 5, "width": ["wide"] * 5}), second)
        cfg.where = "width is null or width > 3"
        find_corpus(cfg)  # the text '3' will do
        pq.write_table(pa.table({"uid": [["x"]] * 5, "width": [1] * 5}), second)
        assert "corpus.id=uid: is list<element: string>" in self.message_of(cfg)

    def test_keys_that_a_layout_does_not_use(self, tmp_path: Path) -> None:
        unused = [("table", "id"), ("table", "array"), ("table", "embedder"), ("npy", "id"), ("npy", "where")]
        for layout, key in unused:
            inputs: dict[str, Any] = {"embedder": None} | {key: TINY if key == "embedder" else "x"}
            message = self.message_of(config(tmp_path, layout, **inputs))
            assert message.startswith(f"corpus.{key}="), message
            reason = "a table has its own ids and encoder" if layout == "table" else "arrays alone have no columns"
            assert f"layout {layout} does not use it ({reason})" in message

    def test_faults_that_only_reading_shows(self, tmp_path: Path) -> None:
        datacomp(tmp_path / "d", [3000], compressed=True)
        pair = tmp_path / "d" / "00000000.npz"
        whole = bytearray(pair.read_bytes())
        middle = len(whole) // 2
        whole[middle : middle + 200] = bytes(200)
        pair.write_bytes(whole)
        cfg = config(tmp_path / "d", "datacomp", array="l14_img", id="uid")
        with pytest.raises(InputError, match=r"00000000\.npz: cannot be read after row"):
            read(find_corpus(cfg), cfg)
        datacomp(tmp_path / "e", [5])
        names = pa.array([bytes([255, n]) for n in range(5)], pa.binary())
        meta(tmp_path / "e" / "00000000.parquet", 5, "x", uid=names)
        cfg = config(tmp_path / "e", "datacomp", array="l14_img", id="uid")
        with pytest.raises(InputError, match=r"00000000\.parquet: column uid is binary"):
            read(find_corpus(cfg), cfg)


SPACE = VectorSpace("clip@1", "shortest", 512)


def test_the_space_of_a_table_is_in_its_metadata_and_schema(tmp_path: Path) -> None:
    rows = embedding_rows(["x"], "image", np.ones((1, factories.DIM)))
    table = write_units(tmp_path / "t", "embeddings", [rows], encoder="clip@1", preprocessing="shortest")
    assert space_of(open_table(table)) == VectorSpace("clip@1", "shortest", factories.DIM)


def test_spaces_must_agree_in_all_parts() -> None:
    check_same_space(("a", SPACE), ("b", VectorSpace(*SPACE)))
    for other in (SPACE._replace(encoder="x"), SPACE._replace(preprocessing="x"), SPACE._replace(dim=7)):
        (part,) = (name for name in SPACE._fields if getattr(other, name) != getattr(SPACE, name))
        with pytest.raises(InputError, match=f"a and b .*{part} is {getattr(SPACE, part)} and {getattr(other, part)}"):
            check_same_space(("a", SPACE), ("b", other))


def test_vectors_of_several_lengths_are_in_no_space() -> None:
    schema = pa.schema([("embedding", pa.list_(pa.float32()))])
    source: Any = SimpleNamespace(uri="t", footers=[SimpleNamespace(schema=schema)], metadata={})
    with pytest.raises(InputError, match=r"^t: its column embedding is list<.*>; vectors of one length are needed"):
        space_of(source)

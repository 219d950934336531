"""Search by a text with the encoder that wrote the vectors, which the table's manifest names."""

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from actors.embedder import TextEmbedder
from jobs.checkpoints.encoder import EmbedderConfig, encoder_facts
from jobs.errors import InputError
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import table
from jobs.viewer import similar_pictures
from jobs.viewer.similar_pictures import SimilarPictures
from tests.factories import embedding_rows, write_table

TINY = EmbedderConfig(name="local-tiny", checkpoint="local:siglip-tiny", device="cuda")  # of another machine
TEXTS = ["a red door", "two dogs in the snow"]


def write_vectors(out: Path, vectors: np.ndarray, encoder: str) -> str:
    """Write vectors of pictures a and b as `embed` does."""
    dim, metadata = vectors.shape[1], {"encoder": encoder, "preprocessing": "p"}
    config = {"embedder": asdict(TINY)}
    plan = TablePlan(str(out), "embeddings", {}, [Unit("u", ())], config, metadata, derived=False, dim=dim)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for task in run.todo:
        with UnitWriter(run.target, task) as writer:
            rows = [*embedding_rows(["a", "b"], "image", vectors), *embedding_rows(["a"], "text", vectors[:1])]
            rows.insert(1, {**rows[0], "item_id": "failed", "embedding": None, "status": "error"})
            writer.counts.rows_in = len(rows)
            writer.write(pa.Table.from_pylist(rows, schema=table("embeddings", dim=dim).schema()))
    run.finish()
    return str(out)


def test_the_encoder_of_the_table_finds_the_picture_like_a_text(tmp_path: Path) -> None:
    on_cpu = EmbedderConfig(**{**asdict(TINY), "device": "cpu"})
    rows = TextEmbedder(on_cpu)(pa.table({"text_id": TEXTS, "text": TEXTS}))
    vectors = np.array(rows["embedding"].to_pylist(), np.float32)
    encoder = encoder_facts(TINY).encoder
    source = open_table(write_vectors(tmp_path / "right", vectors, encoder), "embeddings")
    similar = SimilarPictures([source], tmp_path)
    for name, text in zip("ab", TEXTS, strict=True):
        cosines = similar.to_text(text)
        assert cosines["image_id"].to_pylist() == ["a", "b"]  # without the row of the text and the one that failed
        scores = {row["image_id"]: row["similarity"] for row in cosines.to_pylist()}
        assert max(scores, key=lambda image_id: scores[image_id]) == name
        assert scores[name] == pytest.approx(1, abs=2e-3)
    with pytest.raises(InputError, match="empty"):
        similar.to_text(" ")
    assert similar.to_picture("nothing") is None
    other = open_table(write_vectors(tmp_path / "other", vectors, "another@1"), "embeddings")
    both = SimilarPictures([other, source], tmp_path)
    assert both.others == [source.uri]
    with pytest.raises(InputError, match="its vectors are from another@1"):
        both.to_text("a red door")


def test_an_example_is_compared_with_the_pictures_of_all_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cosines by hand, in blocks of one row; vectors are stored with half precision."""
    vectors = [np.array(rows, np.float32) for rows in ([[1, 0], [0.6, 0.8]], [[0, 1], [-1, 0]])]
    sources = [
        open_table(write_vectors(tmp_path / name, rows, "e@1"), "embeddings")
        for name, rows in zip("xy", vectors, strict=True)
    ]
    monkeypatch.setattr(similar_pictures, "BLOCK", 1)
    similar = SimilarPictures(sources, tmp_path)
    assert similar
    cosines = similar.to_picture("b")
    assert cosines is not None
    assert cosines["image_id"].to_pylist() == ["a", "b", "a", "b"]
    assert cosines["similarity"].to_pylist() == pytest.approx([0.6, 1, 0.8, -0.6], abs=1e-3)
    assert (similar.others, similar.space is None) == ([], False)
    nothing = SimilarPictures([], tmp_path)
    assert (bool(nothing), nothing.space, nothing.others, nothing.to_picture("a")) == (False, None, [], None)


def test_a_table_that_does_not_name_its_encoder_is_searched_by_pictures_alone(tmp_path: Path) -> None:
    rows = embedding_rows(["a", "b"], "image", np.eye(2, dtype=np.float32))
    similar = SimilarPictures([open_table(write_table(tmp_path / "E", "embeddings", rows))], tmp_path)
    with pytest.raises(InputError, match="its manifest does not say which encoder made its vectors"):
        similar.to_text("a door")
    assert similar.to_picture("a") is not None


def test_an_encoder_is_loaded_once_and_what_it_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_table(write_vectors(tmp_path / "E", np.eye(2, dtype=np.float32), "e@1"), "embeddings")
    facts = SimpleNamespace(encoder="e@1", texts=True)
    monkeypatch.setattr(similar_pictures, "encoder_facts", lambda settings: facts)
    loaded: list[EmbedderConfig] = []

    class Embedder:
        def __init__(self, settings: EmbedderConfig) -> None:
            if loaded:
                raise OSError("no room")
            loaded.append(settings)

        def __call__(self, texts: pa.Table) -> pa.Table:
            assert texts["text"].to_pylist() == ["a door"]
            return pa.table({"status": ["ok"], "embedding": [[0.0, 1.0]]})

    monkeypatch.setattr("actors.embedder.TextEmbedder", Embedder)
    similar = SimilarPictures([source], tmp_path)
    for _ in range(2):
        assert similar.to_text("a door")["similarity"].to_pylist() == [0, 1]
    assert [(settings.checkpoint, settings.device) for settings in loaded] == [("local:siglip-tiny", "auto")]
    with pytest.raises(InputError, match=r"^local:siglip-tiny: cannot be loaded: no room$"):
        SimilarPictures([source], tmp_path).to_text("a door")
    facts.texts = False
    with pytest.raises(InputError, match=r"^e@1 has no tower for texts; search by an example picture$"):
        SimilarPictures([source], tmp_path).to_text("a door")

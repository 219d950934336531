"""Search by a text with the encoder that wrote the vectors, which the table's manifest names."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from actors.embedder import TextEmbedder
from jobs.errors import InputError
from jobs.models.encoder import EmbedderConfig, encoder_facts
from jobs.store.reading import open_table
from jobs.store.run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import table
from jobs.viewer.similar_pictures import SimilarPictures
from tests.factories import embedding_rows

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

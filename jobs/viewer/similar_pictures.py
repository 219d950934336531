"""Search by a text or an example picture: cosines of the vectors that `embed` wrote, with the same encoder."""

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status
from jobs.checkpoints.encoder import EmbedderConfig, encoder_facts
from jobs.corpora.embeddings import VectorSpace, space_of
from jobs.corpora.vectors import FITTED, LEAST_ON_MAP, in_unit_square, matrix_of, principal_axes
from jobs.errors import InputError
from jobs.store.hashing import hash_texts
from jobs.store.reading import TableSource
from jobs.store.run_files import MANIFEST, read_json, run_uri

BLOCK = 1 << 15  # rows multiplied at a time


class SimilarPictures:
    """The vectors of the pictures, in a memory-mapped file, and the encoder for texts.

    Args:
        sources: tables of embeddings; only those in the same vector space as the first are used.
        folder: where the file is written.
    """

    def __init__(self, sources: Sequence[TableSource], folder: Path) -> None:
        spaces = [space_of(source) for source in sources]
        self._sources = [s for s, space in zip(sources, spaces, strict=True) if space == spaces[0]]
        self.others = [s.uri for s, space in zip(sources, spaces, strict=True) if space != spaces[0]]
        self.space: VectorSpace | None = spaces[0] if spaces else None
        self._ids, self._vectors = self._read(folder)
        self._lock = threading.Lock()
        self._encode: Encoder | None = None

    def __bool__(self) -> bool:
        return len(self._ids) > 0

    def to_picture(self, image_id: str) -> pa.Table | None:
        """Return image_id of all pictures and their cosine with this one; None if it has no vector."""
        row = pc.index(self._ids, image_id).as_py()
        return None if row < 0 else self._scores(self._vectors[row].astype(np.float32))

    def to_text(self, text: str) -> pa.Table:
        """Return image_id of all pictures and their cosine with a text; the first call loads the model.

        Raises:
            InputError: the encoder of the vectors is not available, or has no tower for texts.
        """
        with self._lock:
            if self._encode is None:
                self._encode = Encoder(self._sources[0])
            vector = self._encode.vector(text)
        return self._scores(vector)

    def places(self) -> pa.Table | None:
        """Return image_id, x and y in [0, 1] of all pictures by the first two principal components of their vectors.

        It is None with fewer than `LEAST_ON_MAP` vectors or dimensions of them below two. The axes are fitted to at
        most `FITTED` pictures, those whose ids have the smallest hashes.
        """
        if len(self._ids) < LEAST_ON_MAP or self._vectors.shape[1] < 2:
            return None
        fitted = np.sort(np.argsort(hash_texts(self._ids), kind="stable")[:FITTED])
        mean, axes, _ = principal_axes(self._vectors[fitted].astype(np.float32))
        blocks = (self._vectors[first : first + BLOCK] for first in range(0, len(self._vectors), BLOCK))
        places = in_unit_square(np.concatenate([(block.astype(np.float32) - mean) @ axes.T for block in blocks]))
        return pa.table({"image_id": self._ids, "x": places[:, 0].astype(float), "y": places[:, 1].astype(float)})

    def _scores(self, vector: np.ndarray) -> pa.Table:
        blocks = (self._vectors[first : first + BLOCK] for first in range(0, len(self._vectors), BLOCK))
        cosines = np.concatenate([block.astype(np.float32) @ vector for block in blocks])
        return pa.table({"image_id": self._ids, "similarity": cosines})

    def _read(self, folder: Path) -> tuple[pa.Array, np.ndarray]:
        rows = sum(source.rows for source in self._sources)
        if not rows or self.space is None:
            return pa.array([], pa.string()), np.zeros((0, 0), np.float16)
        vectors = np.memmap(folder / "vectors", np.float16, "w+", shape=(rows, self.space.dim))
        ids, first = [], 0
        for source in self._sources:
            for batch in source.batches(["item_id", "kind", "embedding", "status"]):
                is_picture = pc.and_(pc.equal(batch["kind"], "image"), pc.equal(batch["status"], Status.OK.value))
                kept = batch.filter(is_picture).combine_chunks()
                ids += kept["item_id"].chunks
                for chunk in kept["embedding"].chunks:
                    vectors[first : first + len(chunk)] = matrix_of(chunk)
                    first += len(chunk)
        return pa.concat_arrays(ids) if ids else pa.array([], pa.string()), vectors[:first]


class Encoder:
    """The text tower of the encoder that wrote a table of embeddings.

    Raises:
        InputError: the table does not record its encoder, or the encoder cannot be loaded, has changed since, or has no
            text tower.
    """

    def __init__(self, source: TableSource) -> None:
        from actors.embedder import TextEmbedder

        settings = self._settings(source)
        facts = encoder_facts(settings)
        if not facts.texts:
            raise InputError(f"{facts.encoder} has no tower for texts; search by an example picture")
        if facts.encoder != source.metadata.get("remine.encoder"):
            raise InputError(
                f"its vectors are from {source.metadata.get('remine.encoder')}, but "
                f"{settings.checkpoint} is now {facts.encoder}; search by an example picture",
                place=source.uri,
            )
        try:
            self._embedder = TextEmbedder(settings)
        except (ValueError, OSError, RuntimeError) as error:
            raise InputError(f"cannot be loaded: {error}", place=settings.checkpoint) from error

    @staticmethod
    def _settings(source: TableSource) -> EmbedderConfig:
        try:
            config = read_json(run_uri(source.uri, MANIFEST))["config"]["embedder"]
            return EmbedderConfig(**{**config, "device": "auto"})
        except (FileNotFoundError, KeyError, TypeError) as error:
            raise InputError(
                "its manifest does not say which encoder made its vectors; search by an example picture",
                place=source.uri,
            ) from error

    def vector(self, text: str) -> np.ndarray:
        """Return the vector [dim] float32 of a text.

        Raises:
            InputError: the text is empty for the encoder.
        """
        rows = self._embedder(pa.table({"text_id": ["query"], "text": [text]}))
        if rows["status"][0].as_py() != Status.OK:
            raise InputError(f"{rows['error_message'][0].as_py()}", key="near", value=text)
        return np.array(rows["embedding"][0].as_py(), np.float32)

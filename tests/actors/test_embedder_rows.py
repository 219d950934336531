"""Rows of the stages that embed, with an encoder that is faked: which are encoded, and the others' outcomes."""

import io
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from actors import embedder
from actors.embedder import PictureDecoder, TextEmbedder
from actors.encoders.encoder_sources import EncoderSettings
from actors.status import TIMED_OUT, failed_status


def png(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height)).save(out, "PNG")
    return out.getvalue()


def decoded(monkeypatch: pytest.MonkeyPatch, *data: bytes, shortest: bool, resize: Any = np.asarray) -> list[Any]:
    """Return the rows of pictures for a model of 50 x 100 pixels, with at most 10,000 pixels before the crop."""
    geometry = SimpleNamespace(size=(50, 100), shortest=shortest, prepare=resize)
    monkeypatch.setattr(embedder, "find_geometry", lambda *_, **__: geometry)
    columns = {name: pa.array([None] * len(data), pa.string()) for name in ("error_kind", "error_message")}
    rows = PictureDecoder(EncoderSettings("m"), max_pixels=10_000)(
        pa.table({
            "image_id": [f"id{number}" for number in range(len(data))],
            "bytes": pa.array(data, pa.large_binary()),
            "status": ["ok"] * len(data),
        } | columns)
    )  # fmt: skip
    assert rows["item_id"].to_pylist() == [f"id{number}" for number in range(len(data))]
    return rows.to_pylist()


def test_strips_are_refused_if_the_model_enlarges_their_shorter_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enlarged until its shorter side has 100 pixels, 1 x 1 has 10,000 pixels, and 2 x 1 has 20,000."""
    pictures = [png(*size) for size in ((1, 1), (2, 1), (1, 2), (70, 70), (71, 69), (72, 69), (100, 100), (101, 100))]
    kinds = [row["error_kind"] for row in decoded(monkeypatch, *pictures, shortest=True)]
    assert kinds == [None, "too_elongated", "too_elongated", None, "too_elongated", "too_elongated", None, "too_large"]
    kinds = [row["error_kind"] for row in decoded(monkeypatch, *pictures, shortest=False)]
    assert kinds == [None] * 7 + ["too_large"]


def test_a_picture_that_cannot_be_resized_is_an_error_of_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def resize(picture: Image.Image) -> np.ndarray:
        if picture.width == 2:
            raise ValueError("height and width must be > 0")
        return np.asarray(picture)

    rows = decoded(monkeypatch, png(1, 1), png(2, 1), png(3, 1), shortest=False, resize=resize)
    assert [(row["status"], row["error_kind"], row["pixels"]) for row in rows] == [
        ("ok", None, bytes(3)), ("error", "resize_failed", None), ("ok", None, bytes(9))
    ]  # fmt: skip
    assert "height and width must be > 0" in rows[1]["error_message"]


def test_texts_that_are_not_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows that are ok and have a text; the memory does not suffice for texts of 9 letters."""
    built: list[Any] = []

    class Encoder:
        dim = 2

        def __init__(self, settings: EncoderSettings, **keys: Any) -> None:
            built.append((settings, keys))

        def embed_texts_that_fit(self, texts: Sequence[str]) -> tuple[np.ndarray, list[int]]:
            built.append(list(texts))
            large = [number for number, text in enumerate(texts) if len(text) == 9]
            return np.array([[len(text), 1] for text in texts], np.float32), large

    monkeypatch.setattr(embedder, "Embedder", Encoder)
    settings = EncoderSettings("m")
    stage = TextEmbedder(settings, batch_size=7, threads=3)
    texts = ["ab", None, " \n", "nine char", "ab", "nine char", "ab", None]
    statuses = ["ok", "ok", "ok", "ok", "error", "missing_input", failed_status(TIMED_OUT), "ok"]
    rows = pa.table({"text_id": [f"t{number}" for number in range(8)], "text": texts})
    plain = stage(rows).to_pylist()
    assert built[:2] == [(settings, {"batch_size": 7, "threads": 3}), [text or "" for text in texts]]
    assert {row["kind"] for row in plain} == {"text"}
    assert [row["item_id"] for row in plain] == [f"t{number}" for number in range(8)]
    empty, large = ("missing_input", "empty_text", None), ("error", "out_of_memory", None)
    ok = ("ok", None, [2.0, 1.0])
    outcomes = [(row["status"], row["error_kind"], row["embedding"]) for row in plain]
    assert outcomes == [ok, empty, empty, large, ok, large, ok, empty]
    marked = stage(rows.append_column("status", pa.array(statuses, pa.string()))).to_pylist()
    outcomes = [(row["status"], row["error_kind"], row["embedding"]) for row in marked]
    assert outcomes[:4] == [ok, empty, empty, large]
    assert [outcome[::2] for outcome in outcomes[4:]] == [
        ("error", None), ("missing_input", None), ("error", None), ("missing_input", None)
    ]  # fmt: skip
    assert [outcome[1] for outcome in outcomes[4:]] == [None, None, "timed_out", "empty_text"]
    assert marked[6]["error_message"] == TIMED_OUT.message
    assert built[-1] == ["ab", "", " \n", "nine char", "ab", "nine char", "", ""]

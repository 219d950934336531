"""The rows of a unit that an encoder takes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import InputError
from jobs.models.encoder_inputs import PICTURES, TEXTS, VECTORS, EncoderInput
from jobs.store.reading import open_table
from jobs.store.writer import UnitTask
from tests.factories import embedding_rows, picture, write_units


def rows(
    encoder_input: EncoderInput, folder: Path, name: str, units: list[list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    source = open_table(write_units(folder, name, units))
    (unit,) = source.units()
    read: list[dict[str, Any]] = encoder_input.read(UnitTask(unit, 0, ())).to_pylist()
    return read


def test_pictures_are_decoded_first() -> None:
    assert (PICTURES.pools, TEXTS.pools, VECTORS.pools) == (["decode", "embed"], ["embed"], ["embed"])
    assert (PICTURES.item, TEXTS.item, VECTORS.item) == ("image_id", "text_id", "item_id")


def test_only_what_the_encoder_needs_is_read(tmp_path: Path) -> None:
    images = [picture(0), picture(1, status="missing")]
    assert rows(PICTURES, tmp_path / "images", "images", [images]) == [
        {"image_id": one["image_id"], "source_url": one["source_url"], "bytes": one["bytes"], "status": one["status"],
         "error_kind": None, "error_message": None} for one in images
    ]  # fmt: skip
    texts = [{"text_id": "t", "role": "caption", "text": "A boat."}]
    assert rows(TEXTS, tmp_path / "texts", "texts", [texts]) == [{"text_id": "t", "text": "A boat."}]


def test_vectors_are_those_of_pictures(tmp_path: Path) -> None:
    vectors = np.eye(4, dtype=np.float32)
    of_images = embedding_rows(["a", "b"], "image", vectors[:2])
    assert [row["item_id"] for row in rows(VECTORS, tmp_path / "images", "embeddings", [of_images])] == ["a", "b"]
    assert rows(VECTORS, tmp_path / "none", "embeddings", [[]]) == []
    mixed = of_images + embedding_rows(["t"], "text", vectors[2:3])
    with pytest.raises(InputError, match="embeddings of texts, but zero_shot rates pictures"):
        rows(VECTORS, tmp_path / "mixed", "embeddings", [mixed])

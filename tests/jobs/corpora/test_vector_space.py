"""Vectors that can be compared: from one encoder, with one preprocessing, of one length."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobs.corpora.vector_space import VectorSpace, check_same_space, space_of
from jobs.errors import InputError
from jobs.store.reading import open_table
from tests.factories import DIM, embedding_rows, write_units

SPACE = VectorSpace("clip@1", "shortest", 512)


def test_the_space_of_a_table_is_in_its_metadata_and_schema(tmp_path: Path) -> None:
    rows = embedding_rows(["x"], "image", np.ones((1, DIM)))
    table = write_units(tmp_path / "t", "embeddings", [rows], encoder="clip@1", preprocessing="shortest")
    assert space_of(open_table(table)) == VectorSpace("clip@1", "shortest", DIM)


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

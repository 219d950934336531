"""The lemma that a link shows."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from actors.linking import Link
from jobs.retrieval.link_unit import LinkUnit, _vectors
from jobs.tables import TABLES

NODES = {"n": [("de", ["Hund"]), ("en", ["dog", "hound"])], "m": [("fr", ["chat"])], "o": []}


@pytest.mark.parametrize(("language", "lemma"), [("en", "dog"), ("de", "Hund"), ("es", "Hund")])
def test_the_first_lemma_in_the_language_or_in_any(language: str, lemma: str) -> None:
    rows = [{"node_id": node, "lemmas": lemmas} for node, lemmas in NODES.items()]
    table = pa.Table.from_pylist(rows, schema=TABLES["nodes"].schema())
    lookups: Any = SimpleNamespace(nodes=SimpleNamespace(rows=lambda _: table), texts=None)
    settings: Any = SimpleNamespace(language=language, method="frequency_vision")
    unit = LinkUnit(settings=settings, lookups=lookups, kb_pictures=None, excluded=None)
    assert unit._lemmas([Link(node, 1.0, None) for node in NODES]) == {"n": lemma, "m": "chat"}


def test_only_vectors_that_are_ok_are_compared() -> None:
    """In two chunks, of which one has none."""
    kind = pa.list_(pa.float16(), 2)
    columns = pa.schema([("item_id", pa.string()), ("status", pa.string()), ("embedding", kind)])
    rows = [("a", "ok", [1, 0]), ("b", "error", None), ("c", "ok", [0, 1]), ("d", "error", [1, 1])]
    chunks = [[rows[0], rows[1]], [rows[3]], [rows[2]]]
    tables = [pa.Table.from_pylist([dict(zip(columns.names, row, strict=True)) for row in chunk], schema=columns)
              for chunk in chunks]  # fmt: skip
    lookup: Any = SimpleNamespace(rows=lambda ids: pa.concat_tables(tables) if len(ids) else tables[1])
    vectors = _vectors(lookup, pa.array(["a", "b", "c", "d"]))
    assert {name: vector.tolist() for name, vector in vectors.items()} == {"a": [1, 0], "c": [0, 1]}
    assert _vectors(lookup, pa.array([], pa.string())) == {}

"""The lemma that a link shows."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from actors.linking import Link
from jobs.retrieval.link_unit import LinkUnit
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

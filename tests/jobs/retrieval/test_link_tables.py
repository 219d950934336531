"""The tables that each method of `link` reads, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.linking import METHODS, TEXT_METHODS, LinkSettings
from jobs.errors import InputError
from jobs.retrieval.link_tables import TEXT_TABLES, LinkedKbConfig, LinkTables, open_link_tables
from tests.factories import embedding_rows, image_row, write_table, write_units

PARTS = {"nodes": "nodes", "node_images": "node_images", "lemmas": "texts", "glosses": "texts", "windows": "texts"}


def knowledge_base(folder: Path, *, pictures: bool) -> str:
    """Write the parts of a knowledge base of one node; return its folder."""
    graph: dict[str, list[dict[str, Any]]] = {
        "nodes": [{"node_id": "n", "lemmas": [("en", ["dog"])]}],
        "node_images": [{"node_id": "n", "image_id": "i"}] if pictures else [],
    }
    for part, table in PARTS.items():
        texts = [{"text_id": f"of {part}", "source": "n", "role": part, "text": "dog"}]
        write_table(folder / part, table, graph.get(part, texts))
    return str(folder)


def opened(kb: str, method: str) -> LinkTables:
    return open_link_tables(LinkSettings(method=method), LinkedKbConfig(kb), pictures=None, images=None)


def test_a_method_reads_the_texts_that_it_compares(tmp_path: Path) -> None:
    kb = knowledge_base(tmp_path / "kb", pictures=True)
    tables = {method: opened(kb, method) for method in METHODS}
    assert {method: list(of_method.kb) for method, of_method in tables.items()} == {
        method: ["nodes", "node_images", *([TEXT_TABLES[method]] if method in TEXT_TABLES else [])]
        for method in METHODS
    }
    for method, of_method in tables.items():
        lookup = of_method.lookups().texts
        assert (lookup is None) == (method == "frequency_vision")
        if lookup is not None:
            key = f"of {TEXT_TABLES[method]}" if method in TEXT_METHODS else "n"
            rows = lookup.rows(pa.array([key])).to_pylist()
            assert [row["text_id"] for row in rows] == [f"of {TEXT_TABLES[method]}"], method


def test_only_methods_of_pictures_need_those_of_the_knowledge_base(tmp_path: Path) -> None:
    kb = knowledge_base(tmp_path / "kb", pictures=False)
    for method in METHODS:
        if method in TEXT_METHODS:
            assert opened(kb, method).kb["node_images"].rows == 0
        else:
            with pytest.raises(InputError, match=rf"has no pictures; method={method} needs them"):
                opened(kb, method)


def test_vectors_and_pictures_are_those_of_their_keys(tmp_path: Path) -> None:
    kb = knowledge_base(tmp_path / "kb", pictures=True)
    uris = {
        name: write_units(
            tmp_path / name, "embeddings", [embedding_rows([name], "image", np.eye(1, 4))], encoder=encoder
        )
        for name, encoder in (("pictures", "e"), ("texts", "e"), ("others", "f"))
    }
    images = {
        name: write_table(tmp_path / f"images of {name}", "images", [image_row("", image_id=name)])
        for name in ("queries", "kb")
    }
    keys: dict[str, Any] = {"pictures": uris["pictures"], "images": images["queries"]}
    kb_of = LinkedKbConfig(kb, vectors=uris["texts"], images=images["kb"])
    tables = open_link_tables(LinkSettings(method="lemma_vision"), kb_of, **keys)
    places = {
        name: {key: source.uri for key, source in getattr(tables, name).items()} for name in ("vectors", "images")
    }
    assert places == {"vectors": {name: uris[name] for name in ("pictures", "texts")}, "images": images}
    lookups = tables.lookups()
    vectors = (lookups.query_vectors, lookups.text_vectors)
    assert [[lookup is not None and lookup.rows(pa.array([name])).num_rows for name in uris] for lookup in vectors] == [
        [1, 0, 0], [0, 1, 0]
    ]  # fmt: skip
    assert {name: list(parts) for name, parts in tables.identity.items()} == {
        "kb": ["nodes", "node_images", "lemmas"], "vectors": ["pictures", "texts"], "images": ["queries", "kb"]
    }  # fmt: skip
    with pytest.raises(InputError, match=r"others"):
        open_link_tables(LinkSettings(), LinkedKbConfig(kb, vectors=uris["others"]), **keys)

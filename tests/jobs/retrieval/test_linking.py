"""Links of one unit without Ray: which neighbours count, what is counted, and the lemma that a link shows."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from actors.linking import METHODS, TEXT_METHODS, Link, LinkSettings
from jobs.errors import InputError
from jobs.retrieval.linking import (
    NEAR,
    SHORT,
    TEXT_TABLES,
    UNKNOWN,
    KnowledgeBasePictures,
    LinkedKbConfig,
    LinkTables,
    LinkUnit,
    Overlap,
    _each,
    _vectors,
    open_link_tables,
)
from jobs.store.counts import Counts
from jobs.store.object_rows import SharedLookup
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES
from tests.factories import embedding_rows, image_row, rows_of, write_table, write_units

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


def test_the_counts_of_a_unit(tmp_path: Path) -> None:
    """Of k = 2 nodes and the 2 nearest pictures: a has both nodes, b one, c none; the others are left out."""
    nearest = {
        "a": ["x", "y"], "b": ["gone", "x", "y"], "c": ["gone", "none", "y"], "d": ["x"], "e": ["y"], "f": ["x"],
        "beyond": ["x"],
    }  # fmt: skip
    rows = [
        {"query_id": query, "rank": rank, "item_id": item, "score": 1 - rank / 8}
        for query, items in nearest.items() for rank, item in reversed(list(enumerate(items, 1)))
    ]  # fmt: skip
    source = open_table(write_table(tmp_path / "neighbors", "neighbors", rows))
    units = [Unit("unit", tuple(footer.object for footer in source.footers), rows=len(rows), extra={"limit": 6})]
    (tmp_path / "list.txt").write_text("d\nq\n")
    nodes = pa.Table.from_pylist(
        [{"node_id": name, "lemmas": [("en", [name.upper()])]} for name in "nm"], schema=TABLES["nodes"].schema()
    )
    pairs = pa.table({"image_id": ["x", "y"], "node_id": ["n", "m"]})
    lookups: Any = SimpleNamespace(
        nodes=SimpleNamespace(rows=lambda _: nodes), node_images=SimpleNamespace(rows=lambda _: pairs)
    )
    pictures: Any = SimpleNamespace(  # d is excluded already
        overlap=lambda queries: Overlap(*([name for name in names if name in queries] for names in ("de", "f", "a")))
    )
    unit = LinkUnit(
        settings=LinkSettings(method="frequency_vision", k=2, nearest=2), lookups=lookups, kb_pictures=pictures,
        excluded=str(tmp_path / "list.txt"),
    )  # fmt: skip
    run = open_run(TablePlan(str(tmp_path / "R"), "links", {}, units, {}, {}, derived=False), resume=True,
                   overwrite=False, retry=[])  # fmt: skip
    done: list[int] = []
    (task,) = run.todo
    with UnitWriter(run.target, task) as writer:
        unit(task, writer, SimpleNamespace(add=done.append))  # type: ignore[arg-type]
    run.finish()
    assert [(row["image_id"], row["rank"], row["node_id"], row["lemma"]) for row in rows_of(str(tmp_path / "R"))] == [
        ("a", 1, "n", "N"), ("a", 2, "m", "M"), ("b", 1, "n", "N"),
    ]  # fmt: skip
    counts = writer.counts
    assert counts.filtered == {"excluded": 1, "in_knowledge_base": 1, "bytes_in_knowledge_base": 1}
    assert (counts.tallies[SHORT], counts.tallies[UNKNOWN], counts.tallies[NEAR]) == ({"": 2}, {"": 3}, {"": 1})
    assert (counts.rows_in, done) == (3 + 3, [len(rows) - 1])


def test_texts_that_the_knowledge_base_lacks_are_counted_and_left_out() -> None:
    table = pa.table({"text_id": ["t"], "source": ["n"], "text": ["a dog"]})
    lookups: Any = SimpleNamespace(texts=SimpleNamespace(rows=lambda _: table))
    settings = LinkSettings(method="gloss", k=2)
    unit = LinkUnit(settings=settings, lookups=lookups, kb_pictures=None, excluded=None)
    rejects: list[Any] = []
    writer: Any = SimpleNamespace(counts=SimpleNamespace(tallies={}), reject=rejects.append)
    ranked = unit._by_text({"q": [("gone", 0.9), ("lost", 0.85), ("t", 0.8)]}, writer)
    assert {query: [link.node_id for link in links] for query, links in ranked.items()} == {"q": ["n"]}
    assert (writer.counts.tallies, rejects) == ({UNKNOWN: {"": 2}}, [])


def test_queries_without_a_vector_are_counted_and_left_out() -> None:
    kind = pa.list_(pa.float32(), 2)
    columns = pa.schema([("item_id", pa.string()), ("status", pa.string()), ("embedding", kind)])

    def vectors(**rows: list[float] | None) -> Any:
        """Return a lookup of vectors, of which those that are None failed."""
        table = pa.Table.from_pylist(
            [{"item_id": name, "status": "ok" if row else "error", "embedding": row} for name, row in rows.items()],
            schema=columns,
        )
        return SimpleNamespace(rows=lambda ids: table.filter(pc.is_in(table["item_id"], ids)))

    texts = pa.table({"text_id": ["t1", "t2", "t3"], "source": ["n", "m", "o"], "text": ["a", "b", "c"]})
    lookups: Any = SimpleNamespace(
        texts=SimpleNamespace(rows=lambda ids: texts.filter(pc.is_in(texts["source"], ids))),
        text_vectors=vectors(t1=[1, 0], t2=[0, 1], t3=None),
        query_vectors=vectors(p=[0.6, 0.8], q=None),
    )
    unit = LinkUnit(settings=LinkSettings(k=2), lookups=lookups, kb_pictures=None, excluded=None)
    rejects: list[Any] = []
    writer: Any = SimpleNamespace(counts=Counts(), reject=rejects.append)
    ranked = unit._by_similarity({"p": ["n", "m", "o"], "q": ["n"], "r": ["m"]}, writer)
    assert {query: [link.node_id for link in links] for query, links in ranked.items()} == {"p": ["m", "n"]}
    assert (writer.counts.filtered, rejects) == ({"no_vector": 2}, [])
    texts = pa.table({"text_id": ["t1", "t2"], "source": ["n", "n"], "text": ["a", "b"]})
    for aggregation, score in (("max", 0.8), ("mean", 0.7), ("first", 0.6)):
        settings = LinkSettings(k=2, lemma_aggregation=aggregation)
        unit = LinkUnit(settings=settings, lookups=lookups, kb_pictures=None, excluded=None)
        ((link,),) = unit._by_similarity({"p": ["n"]}, writer).values()
        assert link.score == pytest.approx(score)


def test_a_query_that_cannot_be_ranked_is_rejected_with_its_name() -> None:
    rejects: list[Any] = []
    writer: Any = SimpleNamespace(reject=rejects.append)
    links = [Link("n", 1.0, None)]
    assert _each("ab", lambda query: {"b": links}[query], writer) == {"b": links}
    assert [(reject.file, reject.position, reject.reason) for reject in rejects] == [("a", 0, "KeyError")]


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


def test_a_query_is_in_the_first_list_that_applies(tmp_path: Path) -> None:
    queries = [
        image_row("", image_id="shared", phash="00000000000000ff") | {"sha256": "of-kb"},
        image_row("", image_id="copy", phash="00000000000000ff") | {"sha256": "of-kb"},
        image_row("", image_id="near", phash="00000000000000f0") | {"sha256": "a"},  # 4 bits of the 64
        image_row("", image_id="far", phash="00000000000000e0") | {"sha256": "b"},  # 5 bits
        image_row("", image_id="unread"),
        image_row("", image_id="not asked", phash="00000000000000ff"),
    ]
    pictures = [image_row("", image_id="kb", phash="00000000000000ff") | {"sha256": "of-kb"}, image_row("other")]
    pairs = [{"node_id": "n", "image_id": name} for name in ("kb", "shared")]
    tables = {
        name: open_table(write_table(tmp_path / name, table, rows))
        for name, table, rows in (
            ("queries", "images", queries), ("pictures", "images", pictures), ("pairs", "node_images", pairs)
        )
    }  # fmt: skip
    objects = [footer.object for footer in tables["pairs"].footers]
    asked = ["shared", "copy", "near", "far", "unread", "gone"]
    pictures_of_kb = KnowledgeBasePictures(
        SharedLookup(objects, key="image_id", columns=[]), tables["queries"], tables["pictures"]
    )
    assert pictures_of_kb.overlap(asked) == Overlap(["shared"], ["copy"], ["near"])
    ids_only = KnowledgeBasePictures(SharedLookup(objects, key="image_id", columns=[]), tables["queries"], None)
    assert ids_only.overlap(asked) == Overlap(["shared"], [], [])

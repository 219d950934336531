"""Worker of `kb`: reads one file of a knowledge base and writes one of its tables."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from actors import schemas
from actors.errors import first_line
from actors.ids import content_id
from jobs.corpora.knowledge_base import (
    ROW_SPAN,
    BadRow,
    KnowledgeBaseConfig,
    NodeEntry,
    entries,
    image_id,
    text_id,
    windows,
)
from jobs.runtime.board import Reporter
from jobs.runtime.selection import exclusions
from jobs.store.units import Unit
from jobs.store.writer import Reject, UnitTask, UnitWriter
from jobs.tables import TABLES

ROWS_AT_A_TIME = 10_000
PARTS = {  # part of the knowledge base, which is a folder below out= -> its table
    "nodes": "nodes",
    "lemmas": "texts",
    "glosses": "texts",
    "articles": "texts",
    "windows": "texts",
    "node_images": "node_images",
}


class KnowledgeBaseUnit:
    """Reads one file of a knowledge base and writes one of `PARTS`.

    Args:
        part: one of `PARTS`.
        config: the meanings of the columns.
        excluded: URI of the list of exclusions, whose pictures are left out of `node_images`; None without a list.
    """

    def __init__(self, *, part: str, config: KnowledgeBaseConfig, excluded: str | None) -> None:
        self._part, self._config = part, config
        self._exclusion_filter = exclusions.load(excluded)
        self._schema = TABLES[PARTS[part]].schema()

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Write the rows of the part; reject rows without a node or with a value that is not text.

        `rows_in` counts the file's rows for `nodes`, and the texts or pictures in them for the other parts. With a
        limit, only the file's first rows are read.
        """
        entries = self._entries(task.unit, writer)
        rows = self._nodes(entries, writer) if self._part == "nodes" else self._rows(entries, writer)
        buffer: list[dict[str, Any]] = []
        for row in rows:
            buffer.append(row)
            if len(buffer) == ROWS_AT_A_TIME:
                self._write(writer, buffer)
                report.add(len(buffer))
                buffer.clear()
        self._write(writer, buffer)
        report.add(len(buffer))
        counts = writer.counts
        exclusions.count(counts, self._exclusion_filter.take_matched())
        counts.rows_in = counts.rows_out + sum(counts.filtered.values()) + sum(counts.rejected.values())

    def _entries(self, unit: Unit, writer: UnitWriter) -> Iterator[NodeEntry]:
        uri, span = unit.inputs[0].uri, unit.extra.get(ROW_SPAN)
        rows = entries(uri, self._config, span=tuple(span) if span else None)
        for entry in islice(rows, unit.limit):
            if isinstance(entry, BadRow):
                writer.reject(Reject(uri, entry.row, entry.reason, entry.message))
            else:
                yield entry

    def _write(self, writer: UnitWriter, rows: list[dict[str, Any]]) -> None:
        if rows:
            writer.write(schemas.to_table(rows, self._schema))

    def _nodes(self, entries: Iterator[NodeEntry], writer: UnitWriter) -> Iterator[dict[str, Any]]:
        n_entries = 0

        def counted() -> Iterator[NodeEntry]:
            nonlocal n_entries
            for entry in entries:
                n_entries += 1
                yield entry

        rows = nodes(counted())
        writer.counts.filtered["same_node"] = n_entries - len(rows)
        return iter(rows)

    def _rows(self, entries: Iterator[NodeEntry], writer: UnitWriter) -> Iterator[dict[str, Any]]:
        """Yield the distinct rows of the part, in order of first appearance."""
        rows_of: Callable[[NodeEntry, KnowledgeBaseConfig], Iterator[dict[str, Any]]] = _ROWS[self._part]
        written: set[bytes] = set()  # 16 bytes per row; a node with several rows must not repeat a text
        for number, entry in enumerate(entries):
            try:
                rows = list(rows_of(entry, self._config))
            except Exception as error:
                writer.reject(Reject(f"node {entry.node_id}", number, type(error).__name__, first_line(error)))
                continue
            for row in rows:
                name = row.pop("name", None)  # a picture's URL, which may be among the exclusions
                if name is not None and self._exclusion_filter.hit(row["image_id"], name):
                    writer.counts.filtered["excluded"] += 1
                    continue
                row_id = bytes.fromhex(_row_id(self._part, row))
                if row_id in written:
                    writer.counts.filtered["named_before"] += 1
                else:
                    written.add(row_id)
                    yield row


def nodes(entries: Iterator[NodeEntry]) -> list[dict[str, Any]]:
    """Return rows of the table `nodes`: the entries of each node of a file merged, in order of first appearance."""
    lemmas: dict[str, dict[str, dict[str, None]]] = {}
    glosses: dict[str, dict[str, str]] = {}
    titles: dict[str, dict[str, str]] = {}
    articles: dict[str, dict[str, str]] = {}
    for entry in entries:
        names = lemmas.setdefault(entry.node_id, {})
        if entry.lemmas:
            names.setdefault(entry.language, {}).update(dict.fromkeys(entry.lemmas))
        if entry.gloss:
            glosses.setdefault(entry.node_id, {}).setdefault(entry.language, entry.gloss)
        if entry.title:
            titles.setdefault(entry.node_id, {}).setdefault(entry.language, entry.title)
        if entry.article:
            article = text_id("article", entry.node_id, entry.language, entry.article)
            articles.setdefault(entry.node_id, {}).setdefault(entry.language, article)
    return [
        {
            "node_id": node,
            "lemmas": [(language, list(in_language)) for language, in_language in names.items()],
            "titles": list(titles.get(node, {}).items()),
            "glosses": list(glosses.get(node, {}).items()),
            "article_text_ids": list(articles.get(node, {}).items()),
        }
        for node, names in lemmas.items()
    ]


def _lemmas(entry: NodeEntry, _: KnowledgeBaseConfig) -> Iterator[dict[str, Any]]:
    for lemma in entry.lemmas:
        yield _text("lemma", entry, lemma)


def _glosses(entry: NodeEntry, _: KnowledgeBaseConfig) -> Iterator[dict[str, Any]]:
    if entry.gloss:
        yield _text("gloss", entry, entry.gloss)


def _articles(entry: NodeEntry, _: KnowledgeBaseConfig) -> Iterator[dict[str, Any]]:
    if entry.article:
        yield _text("article", entry, entry.article)


def _windows(entry: NodeEntry, config: KnowledgeBaseConfig) -> Iterator[dict[str, Any]]:
    for window in windows(entry.article, config):
        yield _text("window", entry, window)


def _node_images(entry: NodeEntry, _: KnowledgeBaseConfig) -> Iterator[dict[str, Any]]:
    for name in entry.images:
        yield {"node_id": entry.node_id, "image_id": image_id(name), "name": name}


def _row_id(part: str, row: dict[str, Any]) -> str:
    """Return the id that ensures that a row is written once; a node has one article per language."""
    if part == "articles":
        return content_id(row["source"], row["language"])
    return str(row["text_id"]) if "text_id" in row else content_id(row["node_id"], row["image_id"])


def _text(role: str, entry: NodeEntry, text: str) -> dict[str, Any]:
    return {
        "text_id": text_id(role, entry.node_id, entry.language, text),
        "role": role,
        "language": entry.language,
        "date": None,
        "source": entry.node_id,
        "revision": None,
        "text": text,
    }


_ROWS = {
    "lemmas": _lemmas,
    "glosses": _glosses,
    "articles": _articles,
    "windows": _windows,
    "node_images": _node_images,
}

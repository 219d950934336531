"""Workers of `terms`: read one unit of a dump, and write its classes or its entities."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from actors import schemas
from actors.untrusted import parse_json
from jobs.runtime.board import Reporter
from jobs.store.files import locations
from jobs.store.units import Unit
from jobs.store.writer import RAW_KEPT, Reject, UnitTask, UnitWriter
from jobs.tables import TABLES
from jobs.terms_from import dump, entity
from jobs.terms_from.class_tree import REDIRECT, SUBCLASS, TITLE, ClassLookup, ClassTree
from jobs.terms_from.compressed_pieces import Damage
from jobs.terms_from.descriptions import Graph
from jobs.terms_from.entity import EntityParser, EntityReader, NotAnEntityError, entity_text

ROWS_AT_A_TIME = 5_000

Entity = Mapping[str, Any]


class ClassUnit:
    """Writes to `class_edges` the subclass statements, redirects and titles of the entities in a unit of a dump.

    Only lines that contain the property or a wanted title are parsed; the others are only counted.

    Args:
        graph: the content of its file in `conf/graph/`.
        titles: titles of the site whose entities are wanted.
        step: compressed bytes per unit of progress.
    """

    def __init__(self, *, graph: Mapping[str, Any], titles: frozenset[str], step: int) -> None:
        self._graph, self._titles, self._step = Graph.from_dict(graph), titles, step
        self._marks = [f'"{word}"'.encode() for word in (self._graph.subclass_property, "redirect")]
        site = re.escape(self._graph.site.encode())
        self._site = b'"' + self._graph.site.encode() + b'"'
        self._link = re.compile(rb'"%s"\s*:\s*\{[^{}]*?"title"\s*:\s*("(?:[^"\\]|\\.)*")' % site)

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Write the rows of a unit; `rows_in` counts them, and the tally `lines` counts the lines of the dump."""
        rows, parser = _BatchedRows(writer, "class_edges", report), EntityParser()

        def keep(text: bytes) -> None:
            if any(mark in text for mark in self._marks) or self._has_title(text):
                for subject, relation, value in self._edges(parser.parse(text)):
                    rows.add({"entity_id": subject, "relation": relation, "value": value})

        read_lines(task.unit, writer, report, self._step, keep)
        rows.flush()
        counts = writer.counts
        counts.rows_in = counts.rows_out + counts.rejected.total() + counts.filtered.total()

    def _has_title(self, text: bytes) -> bool:
        """Return whether the text may contain a wanted title; most do not, as one entity in twenty has an article."""
        if not self._titles or (at := text.find(self._site)) < 0:
            return False
        link = self._link.match(text, at)
        return link is None or parse_json(link[1]) in self._titles

    def _edges(self, parsed: Entity) -> Iterator[tuple[str, str, str]]:
        kind = entity.kind_of(parsed)
        if kind == "redirect":
            if entity.item_number(parsed["entity"]) and entity.item_number(parsed["redirect"]):
                yield parsed["entity"], REDIRECT, parsed["redirect"]
            return
        if kind != "item":
            return
        for number in entity.targets(entity.claims_of(parsed), self._graph.subclass_property):
            yield parsed["id"], SUBCLASS, f"Q{number}"
        if (title := entity.site_link(parsed, self._graph.site)) in self._titles:
            yield parsed["id"], TITLE, str(title)


class EntityUnit:
    """Writes to `entities` the entities in a unit of a dump that may belong to a concept or pass one on, and redirects.

    Args:
        graph: the content of its file in `conf/graph/`.
        concepts: the names of the concepts, in the order of the tree.
        classes: URI of the tree of classes (`ClassTree.to_bytes`).
        step: compressed bytes per unit of progress.
    """

    def __init__(self, *, graph: Mapping[str, Any], concepts: Sequence[str], classes: str, step: int) -> None:
        tree = ClassTree.from_bytes(locations.read_bytes(classes))
        self._reader, self._step = EntityReader(Graph.from_dict(graph), ClassLookup(tree, concepts)), step

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Write the rows; every entity of the dump is written, filtered by a rule, or rejected."""
        rows = _BatchedRows(writer, "entities", report)
        parser, filtered = EntityParser(), writer.counts.filtered

        def keep(text: bytes) -> None:
            parsed = parser.parse(text)
            kind = entity.kind_of(parsed)
            if kind not in ("item", "redirect"):
                filtered["not_an_item"] += 1
                return
            row = self._reader.row(parsed) if kind == "item" else self._reader.redirect(parsed)
            if isinstance(row, str):
                filtered[row] += 1
            elif not rows.add(row):
                filtered["duplicate_entity"] += 1

        read_lines(task.unit, writer, report, self._step, keep)
        rows.flush()
        counts = writer.counts
        counts.rows_in = counts.rows_out + counts.rejected.total() + filtered.total()


def read_lines(unit: Unit, writer: UnitWriter, report: Reporter, step: int, keep: Callable[[bytes], None]) -> None:
    """Call `keep` with the text of each entity of a unit; reject what is not an entity, and damaged parts of the file.

    With a limit, only the file's first lines are read. The position of a reject is a byte of the compressed file, at or
    before its line.
    """
    uri, (reported, last) = unit.inputs[0].uri, unit.extra[dump.SPAN]
    lines = unreported = 0

    def progress(at: int) -> None:
        nonlocal reported, unreported
        steps = max(min(at, last) - reported, 0) // step
        report.add(steps, rows=unreported)
        reported, unreported = reported + steps * step, 0

    for line in dump.lines(unit):
        if lines == unit.limit:
            break
        if isinstance(line, Damage):
            writer.reject(Reject(uri, line.at, line.reason, line.message))
            continue
        if isinstance(line, dump.LongLine):
            message = f"longer than {dump.LONGEST_LINE:,} bytes"
            writer.reject(Reject(uri, line.at, "too_long", message, _raw(line.head)))
            continue
        text = entity_text(line.text)
        if not text:
            continue
        lines, unreported = lines + 1, unreported + 1
        try:
            keep(text)
        except NotAnEntityError as error:
            writer.reject(Reject(uri, line.at, entity.NOT_AN_ENTITY, str(error), _raw(text)))
        except ValueError as error:
            writer.reject(Reject(uri, line.at, "malformed", f"not JSON: {error}", _raw(text)))
        if line.at - reported >= step:
            progress(line.at)
    progress(last)
    writer.counts.tallies["dump"] = {"lines": lines}


class _BatchedRows:
    """Writes a unit's rows in batches of a few thousand; of rows with the same key, only the first is kept.

    Only rows that are not written yet are compared, so that memory does not grow with the unit: the readers of the
    tables skip the remaining duplicates.
    """

    def __init__(self, writer: UnitWriter, table: str, report: Reporter) -> None:
        self._writer, self._report = writer, report
        self._schema, self._key = TABLES[table].schema(), TABLES[table].key
        self._rows: dict[tuple[str, ...], dict[str, Any]] = {}

    def add(self, row: dict[str, Any]) -> bool:
        """Add a row; return whether it is the first with its key."""
        key = tuple(row[name] for name in self._key)
        if key in self._rows:
            return False
        self._rows[key] = row
        if len(self._rows) >= ROWS_AT_A_TIME:
            self.flush()
        return True

    def flush(self) -> None:
        """Write the rows."""
        if self._rows:
            self._writer.write(schemas.to_table(self._rows.values(), self._schema))
            self._report.add(0, matched=len(self._rows))
            self._rows.clear()


def _raw(text: bytes) -> str:
    return text[:RAW_KEPT].decode("utf-8", "replace")

"""Rewriting of the units of tables without the removed rows, in a form that later runs can continue.

A unit that loses rows becomes a new generation with the same identity and inputs; its counts say how many rows were
`purged`. Units of a folder's pictures no longer name the removed ones. Units of derived tables name the objects that
they were made from: if one of these was rewritten, the derived unit names the new object, so that the next run does not
process it again. A piece of a rewritten unit then covers the remaining rows of its range. Only a unit that covers
another kind of part of a rewritten unit (a draw) is left to the next run, because the draw may now select other rows.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.errors import RunError
from jobs.purging.needles import Needles, columns_to_read
from jobs.runtime.selection.exclusions import KEPT, TALLY
from jobs.store import run_files
from jobs.store.counts import PURGED, Counts
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.footers import Footer
from jobs.store.identity import EXCLUSIONS
from jobs.store.json_types import CountsJson, GenerationJson, ReplacedJson
from jobs.store.object_rows import row_groups
from jobs.store.pieces import range_without, with_range
from jobs.store.reading import TableSource, open_table, rejects_of, whole_of
from jobs.store.run_files import CONFIG, IDENTITY, INPUTS, MANIFEST, UNITS, run_uri
from jobs.store.runs.run_units import generation_of
from jobs.store.unit_index import write_index
from jobs.store.units import OWN_ROWS, WHOLE, Unit
from jobs.store.writer import Reject, Target, UnitTask, UnitWriter, rejects_uri
from jobs.tables import TABLES

NO_ROWS = np.zeros(0, np.int64)
BASE_METADATA = ("table", "version", "key", "unit")  # of all tables; the other entries are the table's own


@dataclass
class Rewritten:
    """Counts of the rows and units that a purge changed.

    Attributes:
        rows: uri of a table -> rows that were removed.
        mentions: uri of a table -> rows that lost a mention of a picture in a text.
        units: uri of a table -> units that were rewritten, also those that only name new inputs.
        again: uri of a table -> units that the next run of its command processes again.
    """

    rows: dict[str, int] = field(default_factory=dict)
    mentions: dict[str, int] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)
    again: dict[str, int] = field(default_factory=dict)


@dataclass
class _Moved:
    """The objects that a purge wrote again.

    Attributes:
        objects: original object -> rewritten object.
        removed: original object -> int64[rows], the positions of its removed rows, ascending, where they are known.
    """

    objects: dict[Object, Object] = field(default_factory=dict)
    removed: dict[Object, np.ndarray] = field(default_factory=dict)

    def renewed(self, unit: Unit) -> tuple[Unit | None, dict[str, int]]:
        """Return the unit with the rewritten objects as inputs, and the range of its rows in them.

        The unit is None if it covers a part of an object that is not a range of known rows. The range is empty if the
        unit has none.
        """
        if not any(source in self.objects for source in unit.inputs):
            return unit, {}
        inputs, parent = tuple(self.objects.get(source, source) for source in unit.inputs), unit.inputs[0]
        if (unit.piece == WHOLE or unit.piece.startswith(OWN_ROWS)) and unit.limit is None:
            return replace(unit, inputs=inputs), {}
        removed = self.removed.get(parent) if parent in self.objects else NO_ROWS
        moved = {} if removed is None else range_without(unit, removed)
        part = with_range(unit, moved)
        return part and replace(part, inputs=inputs), moved


def rewrite_tables(
    tables: Sequence[TableSource], needles: Needles, kept: tuple[str, bytes], *, purge: str
) -> Rewritten:
    """Remove matching rows and rejects from all tables, parents before the tables that are made from them.

    Args:
        tables: the tables, locked by the caller.
        purge: the name of this purge, the same when it is continued after an interruption.
        kept: the hash of the list of exclusions as in identities, and its marks. Tables of jobs with the key
            `exclusions` keep them, so that the next run requires the list.

    Raises:
        RunError: the counts of a table do not balance.
    """
    result, moved = Rewritten(), _Moved()
    for table in in_order(tables):
        _rewrite_table(table, needles, moved, result, purge=purge)
        keep_list(table.uri, *kept)
    return result


def in_order(tables: Sequence[TableSource]) -> list[TableSource]:
    """Return the tables, each after those that it was made from."""
    by_uri = {table.uri: table for table in tables}
    ordered: dict[str, TableSource] = {}

    def visit(table: TableSource) -> None:
        if table.uri in ordered:
            return
        folders = {source.uri for footer in table.footers for source in footer.unit.inputs}
        parents = {uri for uri in by_uri if uri != table.uri and any(_is_within(folder, uri) for folder in folders)}
        for uri in sorted(parents):
            visit(by_uri[uri])
        ordered[table.uri] = table

    for table in sorted(tables, key=lambda table: table.uri):
        visit(table)
    return list(ordered.values())


def _is_within(uri: str, folder: str) -> bool:
    return uri == folder or uri.startswith(f"{folder}/")


def _rewrite_table(
    table: TableSource,
    needles: Needles,
    moved: _Moved,
    result: Rewritten,
    *,
    purge: str,
) -> None:
    purged, mentioning, rewritten, again, is_changed = 0, 0, 0, 0, False
    units = {unit.name: unit for unit in _frozen(table)}
    originals = []
    for footer in table.footers:
        original = _original(footer, purge)
        originals.append(original)
        if original != footer.object:  # rewritten before an interruption
            moved.objects[original] = footer.object
            rewritten += 1
        unit, its_range = moved.renewed(footer.unit)
        again += unit is None
        task_unit = _without_pictures(unit or footer.unit, needles)
        rows, mentions = _matching(footer, needles, TABLES[table.name].key)
        rejects = list(rejects_of(table.uri, footer))
        kept_rejects = [reject for reject in rejects if not _names(reject, needles)]
        purged += len(rows) + len(rejects) - len(kept_rejects)
        mentioning += mentions
        if len(rows) or mentions or len(rejects) != len(kept_rejects) or task_unit != footer.unit:
            replaced = ReplacedJson(purge=purge, size=original.size, etag=original.etag)
            _rewrite_unit(
                table,
                footer,
                task_unit,
                needles=needles,
                rejects=kept_rejects,
                replaced=replaced,
            )
            moved.objects[original] = moved.objects[footer.object] = _object(footer.object.uri)
            moved.removed[footer.object] = rows
            rewritten += 1
        frozen = units.get(task_unit.name, task_unit)
        units[task_unit.name] = replace(task_unit, extra={**frozen.extra, **its_range})
    written = {footer.unit.name for footer in table.footers}
    for unit in [unit for name, unit in units.items() if name not in written]:  # of an incomplete run
        renewed, its_range = moved.renewed(unit)
        renewed = renewed or replace(unit, extra={**unit.extra, **its_range})
        units[unit.name] = _without_unread_pictures(renewed, needles)
        is_changed |= units[unit.name].inputs != renewed.inputs
    if rewritten or is_changed:
        _write_run_files(table.uri, list(units.values()))
        moved.objects[whole_of(table.uri, originals)] = open_table(table.uri, complete=False).whole()
    result.rows |= {table.uri: purged} if purged else {}
    result.mentions |= {table.uri: mentioning} if mentioning else {}
    result.units |= {table.uri: rewritten} if rewritten else {}
    result.again |= {table.uri: again} if again else {}


def _without_pictures(unit: Unit, needles: Needles) -> Unit:
    """Return the unit without the inputs that are withdrawn pictures: files of a folder."""
    kept = tuple(source for source in unit.inputs if not needles.is_source(source.uri))
    return unit if len(kept) == len(unit.inputs) else replace(unit, inputs=kept)


def _without_unread_pictures(unit: Unit, needles: Needles) -> Unit:
    """Return `_without_pictures` of a unit that is not written yet, which then reads as many rows as it has files."""
    kept = _without_pictures(unit, needles)
    return unit if kept is unit else replace(kept, rows=len(kept.inputs))


def _original(footer: Footer, purge: str) -> Object:
    """Return the unit's object as it was before this purge."""
    replaced = footer.replaced
    if replaced is None or replaced["purge"] != purge:
        return footer.object
    return Object(footer.object.uri, replaced["size"], replaced["etag"])


def _frozen(table: TableSource) -> Iterator[Unit]:
    with contextlib.suppress(FileNotFoundError):
        yield from run_files.read_inputs(run_uri(table.uri, INPUTS))


def _matching(footer: Footer, needles: Needles, key: Sequence[str]) -> tuple[np.ndarray, int]:
    """Return int64[removed], the positions of the rows to remove, and the number of other rows with a mention."""
    gone, first, mentioning = [NO_ROWS], 0, 0
    columns = columns_to_read(footer.schema)
    for rows in row_groups(footer.object.uri, columns=columns) if columns != [] else ():
        of_gone, of_mentioning = needles.masks(rows, key)
        gone.append(first + np.flatnonzero(of_gone))
        first += rows.num_rows
        mentioning += int(of_mentioning.sum())
    return np.concatenate(gone), mentioning


def rejects_to_remove(table: TableSource, needles: Needles) -> int:
    """Return the number of the table's rejects that name a picture."""
    return sum(_names(reject, needles) for reject in table.rejects())


def _names(reject: Reject, needles: Needles) -> bool:
    return any(needles.in_text(text) for text in (reject.message, reject.raw, reject.file))


def _rewrite_unit(
    table: TableSource,
    footer: Footer,
    unit: Unit,
    *,
    needles: Needles,
    rejects: Sequence[Reject],
    replaced: ReplacedJson,
) -> None:
    record = footer.record
    assert record is not None
    old, key = Counts.from_json(record["counts"]), TABLES[table.name].key
    stored = {key.decode(): value.decode() for key, value in footer.schema.metadata.items()}
    metadata = {key[7:]: text for key, text in stored.items() if key[:7] == "remine." and key[7:] not in BASE_METADATA}
    target = Target(table.uri, table.name, metadata, record["identity"], record["versions"], footer.dim)
    retired = (*map(_anonymous, record["retired"]), _anonymous(record))
    with UnitWriter(target, UnitTask(unit, record["generation"] + 1, retired), replaced=replaced) as writer:
        for rows in row_groups(footer.object.uri):
            gone, _ = needles.masks(rows, key)
            stays = needles.without_mentions(rows.filter(pa.array(~gone)), key)
            writer.write(stays.replace_schema_metadata(None))
        for reject in rejects:
            writer.reject(reject)
        writer.counts.rows_in, writer.counts.filtered = old.rows_in, old.filtered
        writer.counts.tallies = {name: tally for name, tally in old.tallies.items() if name != TALLY}
        accounted = writer.counts.rows_out + old.filtered.total() + writer.counts.rejected.total()
        if removed := old.rows_in - accounted:
            writer.counts.filtered[PURGED] += removed
    if sum(old.rejected.values()):
        locations.remove([rejects_uri(table.uri, unit.name, record["generation"])])


def _anonymous(generation: GenerationJson) -> GenerationJson:
    """Return an earlier generation without examples of failures and matches of exclusions, which name pictures."""
    tallies = {name: tally for name, tally in generation["counts"]["tallies"].items() if name != TALLY}
    counts: CountsJson = {**generation["counts"], "failures": {}, "tallies": tallies}
    return {**generation_of(generation), "counts": counts}


def _object(uri: str) -> Object:
    return next(iter(locations.find(uri)))


def _write_run_files(uri: str, units: Sequence[Unit]) -> None:
    """Derive inputs, units and manifest again from the footers.

    Raises:
        RunError: the table's counts do not balance.
    """
    if locations.exists(run_uri(uri, INPUTS)):
        locations.replace(run_uri(uri, INPUTS), run_files.to_lines(units, Unit.to_json))
    source = open_table(uri, complete=False)
    total = source.counts()
    if not total.balances():
        raise RunError(f"the table does not balance after the purge: {total}", place=uri)
    if locations.exists(run_uri(uri, UNITS)):
        write_index(uri, source.footers)
    if locations.exists(run_uri(uri, MANIFEST)):
        manifest: dict[str, Any] = run_files.read_json(run_uri(uri, MANIFEST))
        locations.replace(run_uri(uri, MANIFEST), run_files.to_json({**manifest, "counts": total.to_json()}))


def purge_begun(uri: str, needles: Needles, kept: tuple[str, bytes]) -> None:
    """Remove the pictures from the inputs of a table without a unit, and keep the list as `rewrite_tables` does."""
    before = list(run_files.begun_units(uri))
    units = [_without_unread_pictures(unit, needles) for unit in before]
    if units != before:
        locations.replace(run_uri(uri, INPUTS), run_files.to_lines(units, Unit.to_json))
    keep_list(uri, *kept)


def keep_list(uri: str, digest: str, marks: bytes) -> None:
    """Store the list of exclusions with a table, complete or not, if its job has the key `exclusions`."""
    manifest, config, identity = (_content(uri, name) for name in (MANIFEST, CONFIG, IDENTITY))
    if EXCLUSIONS not in manifest.get("config", config) or not identity or identity.get(EXCLUSIONS) == digest:
        return
    locations.replace(run_uri(uri, KEPT), marks)
    if manifest:
        manifest["identity"] = {**manifest["identity"], EXCLUSIONS: digest}
        locations.replace(run_uri(uri, MANIFEST), run_files.to_json(manifest))
    locations.replace(run_uri(uri, IDENTITY), run_files.to_json({**identity, EXCLUSIONS: digest}))


def _content(uri: str, name: str) -> dict[str, Any]:
    """Return the content of a run file; empty if it does not exist."""
    try:
        content: dict[str, Any] = run_files.read_json(run_uri(uri, name))
    except FileNotFoundError:
        return {}
    return content

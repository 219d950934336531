"""The texts about which a model writes questions."""

from collections.abc import Iterator

from actors.ids import content_id
from jobs.errors import InputError
from jobs.judging.own_questions import set_id_of
from jobs.store.files.objects import CompactList
from jobs.store.reading import TableSource
from jobs.store.units import Unit

TEXTS = "texts"  # `Unit.extra`: [set_id, text] of each set


def read_units(source: TableSource, *, role: str, unit_rows: int) -> CompactList[Unit]:
    """Return units of at most `unit_rows` distinct texts with a role, in the table's order; holds their hashes.

    Raises:
        InputError: no text has the role.
    """
    units = CompactList(_units(source, role, unit_rows))
    if not len(units):
        raise InputError(f"role={role}: no text of {source.uri} has this role; name the role of the texts to ask about")
    return units


def _units(source: TableSource, role: str, unit_rows: int) -> Iterator[Unit]:
    seen: set[str] = set()
    texts: list[tuple[str, str]] = []
    for batch in source.batches(["role", "text"]):
        for row in batch.to_pylist():
            if row["role"] != role or not (row["text"] or "").strip():
                continue
            set_id = set_id_of(row["text"])
            if set_id not in seen:
                seen.add(set_id)
                texts.append((set_id, row["text"]))
            if len(texts) == unit_rows:
                yield _unit(source, texts)
                texts = []
    if texts:
        yield _unit(source, texts)


def _unit(source: TableSource, texts: list[tuple[str, str]]) -> Unit:
    name = content_id("questions", *(set_id for set_id, _ in texts))
    return Unit(name, (source.whole(),), rows=len(texts), extra={TEXTS: texts})

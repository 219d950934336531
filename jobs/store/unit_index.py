"""The index of a table, `_run/units.jsonl`: all footers in one file, so that opening the table does not read each.

A run writes it last. Readers list the table's objects and take from the index the footer of each object that
still has the size and ETag (locally, the modification time) that the index states; they read other footers from the
objects. An index that is missing, cut off or changed is not used, and the next run of the command that writes the
table, or a purge, writes it again.

The first line has the number of units, the schemas (Arrow's IPC format, in hexadecimal digits) and an MD5 sum of these
and the other lines, each of which is the record of a unit.
"""

import contextlib
import hashlib
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa

from actors.errors import first_line
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.objects import Object, chunked
from jobs.store.footers import Footer, Footers, read_footers
from jobs.store.json_types import IndexHeadJson, WrittenUnitJson, fits
from jobs.store.run_files import UNITS, damage_error, run_uri

AT_A_TIME = 64  # footers held while those that the index lacks are read
HASHED_BYTES = 1 << 16


def write_index(table: str, footers: Footers) -> None:
    """Write the index of the table at `table`; objects without a record are left out."""
    schemas = [schema.serialize().to_pybytes().hex() for schema in footers.schemas]
    digest, units = _digest(schemas), 0
    for line in _lines(footers):
        digest.update(line)
        units += 1
    head = IndexHeadJson(units=units, schemas=schemas, md5=digest.hexdigest())
    locations.replace(run_uri(table, UNITS), chain([_line(head)], _lines(footers)))


def _digest(schemas: Sequence[str]) -> "hashlib._Hash":
    return hashlib.md5("".join(schemas).encode(), usedforsecurity=False)


def _line(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def _lines(footers: Footers) -> Iterator[bytes]:
    schemas = {id(schema): number for number, schema in enumerate(footers.schemas)}
    for footer in footers:
        if (record := footer.record) is not None:
            source = footer.object
            of_object = {"rows": footer.rows, "bytes": source.size, "etag": source.etag}
            yield _line({**record, **of_object, "schema": schemas[id(footer.schema)]})


def read_index(table: str) -> Generator[Footer, None, None]:
    """Yield the footers in the index of the table at `table`, in the order of the run's units.

    Raises:
        FileNotFoundError: there is none.
        InputError: it is damaged; nothing was yielded.
    """
    uri = run_uri(table, UNITS)
    with locations.local_copy(uri) as path, path.open("rb") as file:
        try:
            head = json.loads(file.readline())
            if not fits(head, IndexHeadJson):
                raise ValueError("unexpected keys or types")
            begin, digest = file.tell(), _digest(head["schemas"])
            while piece := file.read(HASHED_BYTES):
                digest.update(piece)
            if digest.hexdigest() != head["md5"]:
                raise ValueError("cut off or changed")
        except (ValueError, RecursionError) as error:
            raise damage_error(uri, first_line(error)) from error
        schemas = [pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(schema))) for schema in head["schemas"]]
        file.seek(begin)
        for line in file:
            unit: WrittenUnitJson = json.loads(line)
            source = Object(locations.join(table, f"{unit['unit']['name']}.parquet"), unit["bytes"], unit["etag"])
            yield Footer(source, unit["rows"], schemas[unit["schema"]], line)


def indexed_footers(table: str, objects: Iterable[Object], listed: Iterable[Object]) -> Iterator[Footer | None]:
    """Yield the footer of each object, in order: that of the index, else as `read_footer` returns it.

    Args:
        table: the folder or prefix of the table, absolute.
        objects: data objects of the table, best in the order of its units: others are held until they are due.
        listed: the files of the table.
    """
    remote, uri = locations.is_s3(table), run_uri(table, UNITS)
    if not any(file.uri == uri for file in listed):
        yield from read_footers(objects, remote=remote)
        return
    index, passed = _usable(table), dict[str, Footer]()

    def footer_in_index(source: Object) -> Footer | None:
        while source.uri not in passed and (footer := next(index, None)) is not None:
            passed[footer.object.uri] = footer
        footer = passed.pop(source.uri, None)
        return footer if footer is not None and footer.object == source else None

    with contextlib.closing(index):
        for sources in chunked(objects, AT_A_TIME):
            footers = [footer_in_index(source) for source in sources]
            missing = [source for source, footer in zip(sources, footers, strict=True) if footer is None]
            others = read_footers(missing, remote=remote) if missing else iter(())
            for footer in footers:
                yield footer if footer is not None else next(others)


def _usable(table: str) -> Generator[Footer, None, None]:
    """Yield the footers of the index; none if it is damaged, or was removed since the files were listed."""
    with contextlib.suppress(InputError, FileNotFoundError):
        yield from read_index(table)

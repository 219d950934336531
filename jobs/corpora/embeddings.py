"""Vectors to be searched: which files there are, what encoder made them, and how they are cut into work units.

Four layouts (`corpus.layout`): `table` (a table `embeddings` of ours, or several), `datacomp` (pairs NAME.npz and
NAME.parquet), `clip_retrieval` (img_emb/img_emb_N.npy and metadata/metadata_N.parquet) and `npy` (arrays alone).
A unit covers about `unit_mb` of vectors: part of a large file or several small ones. Reading is `vectors`.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import MISSING

from actors.ids import content_id
from jobs.corpora.arrays import Matrix, find_matrix
from jobs.corpora.where import parse_where
from jobs.errors import InputError
from jobs.models.encoder import EmbedderConfig, encoder_facts
from jobs.store import locations
from jobs.store.compact_list import CompactList, HashSet
from jobs.store.locations import Object
from jobs.store.reading import TableSource, open_table, tables_in
from jobs.store.threads import in_threads
from jobs.store.units import WHOLE, Unit

LAYOUTS = ("table", "datacomp", "clip_retrieval", "npy")
HEADER_THREADS = 16
TABLE_COLUMNS = ("embedding", "error_kind", "error_message")  # of no use in a condition


@dataclass
class VectorsConfig:
    """A set of vectors; `conf/corpus/` has one file a layout."""

    name: str = "embeddings"
    layout: str = "table"  # how it lies on disk, by the file that corpus= names
    path: str = MISSING  # a table or a glob of tables; files or a folder for the other layouts
    array: str | None = None  # which vectors: a member of the .npz files (l14_img), or img_emb or text_emb
    id: str | None = None  # column of the .parquet files that is the item_id; null: a hash of the vector
    embedder: EmbedderConfig | None = None  # what made the vectors; a table says so itself
    where: str | None = None  # condition on columns, such as "language = en and width >= 300" (jobs.corpora.where)
    unit_mb: int = 256  # of vectors in a work unit: what is searched again after a crash


class Made(NamedTuple):
    """What made vectors; only those of equal `encoder` and `preprocessing` can be searched together."""

    encoder: str
    preprocessing: str
    dim: int


class Corpus(NamedTuple):
    """A corpus ready to be searched."""

    units: CompactList[Unit]
    made: Made
    rows: int
    identity: dict[str, Any]


class Part(NamedTuple):
    """Rows `first` to `last` (not included) of a file of vectors; places among the unit's inputs, meta -1 for none."""

    vectors: int
    meta: int
    first: int
    last: int


class _File(NamedTuple):
    vectors: Object
    meta: Object | None
    rows: int
    row_bytes: int
    whole: bool  # whether it can only be read from its start to its end


def parts_of(unit: Unit) -> list[Part]:
    """What a unit covers."""
    return [Part(*part) for part in unit.extra["parts"]]


def check_alike(one: tuple[str, Made], other: tuple[str, Made]) -> None:
    """Refuse to compare vectors of different encoders; each side is its name and what made it.

    Raises:
        InputError: naming both.
    """
    (first, mine), (second, theirs) = one, other
    for name in ("encoder", "preprocessing", "dim"):
        if getattr(mine, name) != getattr(theirs, name):
            raise InputError(
                f"{first} and {second} cannot be compared: their {name} is {getattr(mine, name)} and "
                f"{getattr(theirs, name)}"
            )


def made_by(source: TableSource) -> Made:
    """What made the vectors of a table `embeddings`.

    Raises:
        InputError: its schema has no vectors.
    """
    kind = source.footers[0].schema.field("embedding").type
    if not pa.types.is_fixed_size_list(kind):
        raise InputError(f"{source.uri}: its column embedding is {kind}, not vectors of one length")
    said = {name: source.metadata.get(f"remine.{name}", "") for name in ("encoder", "preprocessing")}
    return Made(**said, dim=kind.list_size)


def open_tables(pattern: str) -> list[TableSource]:
    """The tables `embeddings` that `pattern` names, all of one encoder. Raises InputError."""
    sources = [open_table(place, "embeddings") for place in tables_in(pattern)]
    for other in sources[1:]:
        check_alike((sources[0].uri, made_by(sources[0])), (other.uri, made_by(other)))
    return sources


def find_corpus(cfg: VectorsConfig) -> Corpus:
    """Find the files, compare their rows and lengths, cut them into units. Reads headers and footers only.

    Raises:
        InputError: nothing there, an unknown layout, pairs of unequal rows or without their partner, vectors of
            different lengths, an encoder that is not declared or not known, a condition on a column that is not
            there in every file, a key that the layout has no use for.
    """
    _check_keys(cfg)
    if cfg.layout == "table":
        return _tables(cfg)
    made = _declared(cfg)
    pairs = CompactList(_pairs(cfg))
    files = CompactList(in_threads(lambda pair: _checked(cfg, made, *pair), pairs, HEADER_THREADS))
    return _corpus(cfg, files, made)


def _check_keys(cfg: VectorsConfig) -> None:
    """Refuse a key that the layout has no use for: who sets it expects something of it."""
    if cfg.layout not in LAYOUTS:
        raise InputError(f"corpus.layout={cfg.layout}: no such layout; there are {', '.join(LAYOUTS)}")
    if cfg.unit_mb < 1:
        raise InputError(f"corpus.unit_mb={cfg.unit_mb}: at least 1")
    unused = {"table": ("array", "id", "embedder"), "npy": ("array", "id", "where")}.get(cfg.layout, ())
    why = "a table names its rows and its encoder itself" if cfg.layout == "table" else "arrays alone have no columns"
    for key in unused:
        if getattr(cfg, key) is not None:
            raise InputError(f"corpus.{key}=: layout {cfg.layout} takes none, {why}")


def _tables(cfg: VectorsConfig) -> Corpus:
    sources = open_tables(cfg.path)
    made = made_by(sources[0])
    if cfg.where is not None:
        parse_where(cfg.where, columns_to_ask(sources[0].footers[0].schema))
    files = (
        _File(footer.object, footer.object, footer.rows, made.dim * 2, whole=True)
        for source in sources
        for footer in source.footers
    )
    return _corpus(cfg, files, made)


def columns_to_ask(schema: pa.Schema) -> pa.Schema:
    """The columns that a condition may speak of."""
    return pa.schema([column for column in schema if column.name not in TABLE_COLUMNS])


def _declared(cfg: VectorsConfig) -> Made:
    if cfg.embedder is None:
        raise InputError(
            f"corpus.embedder.checkpoint= is required: files of layout {cfg.layout} do not say what made them"
        )
    try:
        facts = encoder_facts(cfg.embedder)
    except InputError as error:
        raise InputError(f"corpus.{error}") from error
    return Made(facts.encoder, facts.preprocessing, facts.dim)


def _pairs(cfg: VectorsConfig) -> Iterator[tuple[Object, Object | None]]:
    """Each file of vectors with its Parquet file, in order of their uris."""
    found = locations.find(cfg.path)
    if cfg.layout == "npy":
        arrays = CompactList(o for o in found if o.uri.endswith(".npy"))
        partner: Callable[[str], str] | None = None
    elif cfg.layout == "datacomp":
        arrays = CompactList(o for o in found if o.uri.endswith(".npz"))
        partner = _beside
    else:
        name = cfg.array or "img_emb"
        numbered = re.compile(rf"/{re.escape(name)}/{re.escape(name)}_\d+\.npy$")
        arrays = CompactList(o for o in found if numbered.search(o.uri))
        partner = _numbered
    if not arrays:
        raise InputError(f"corpus.path={cfg.path}: no files of layout {cfg.layout} there")
    if partner is None:
        yield from ((vectors, None) for vectors in arrays)
        return
    _check_no_vectors_missing(cfg, arrays, found, partner)
    there = HashSet(o.uri for o in found)
    for vectors in arrays:
        meta = partner(vectors.uri)
        if (place := there.index(meta)) is None:
            raise InputError(f"{vectors.uri}: its partner {meta} is not among the files of corpus.path")
        yield vectors, found[place]


def _check_no_vectors_missing(
    cfg: VectorsConfig, arrays: Sequence[Object], found: Iterable[Object], partner: Callable[[str], str]
) -> None:
    """Refuse metadata without its vectors: a file that was not fetched would go unnoticed."""
    folders = {partner(o.uri).rsplit("/", 1)[0] for o in arrays}
    partners = HashSet(partner(o.uri) for o in arrays)
    name = re.compile(r".*\.parquet" if cfg.layout == "datacomp" else r"metadata_\d+\.parquet")
    for uri in (o.uri for o in found):
        folder, _, last = uri.rpartition("/")
        if folder in folders and uri not in partners and name.fullmatch(last):
            raise InputError(
                f"{uri}: there are no vectors to it beside {arrays[0].uri}; fetch them, or leave it out of corpus.path"
            )


def _beside(uri: str) -> str:
    return uri.removesuffix(".npz") + ".parquet"


def _numbered(uri: str) -> str:
    folder, name = uri.rsplit("/", 2)[0], PurePosixPath(uri).stem
    return f"{folder}/metadata/metadata_{name.rsplit('_', 1)[1]}.parquet"


def _checked(cfg: VectorsConfig, made: Made, vectors: Object, meta: Object | None) -> _File:
    matrix: Matrix = find_matrix(vectors.uri, array=cfg.array)
    if matrix.dim != made.dim:
        raise InputError(f"{vectors.uri}: vectors of {matrix.dim} numbers, those of {made.encoder} have {made.dim}")
    if meta is not None:
        fs, path = locations.filesystem(meta.uri)
        try:
            with locations.named_errors(meta.uri), fs.open_input_file(path) as stream:
                footer = pq.read_metadata(stream)
        except pa.ArrowException as error:
            raise InputError(f"{meta.uri}: not a readable Parquet file") from error
        if footer.num_rows != matrix.rows:
            raise InputError(f"{vectors.uri} has {matrix.rows:,} rows, {meta.uri} has {footer.num_rows:,}")
        _check_columns(cfg, meta.uri, footer.schema.to_arrow_schema())
    return _File(vectors, meta, matrix.rows, matrix.row_bytes, whole=matrix.offset is None)


def _check_columns(cfg: VectorsConfig, uri: str, schema: pa.Schema) -> None:
    """Refuse a Parquet file whose ids cannot be read as text, or of which the condition cannot be asked."""
    if cfg.id is not None:
        if cfg.id not in schema.names:
            raise InputError(f"corpus.id={cfg.id}: no such column in {uri}; there are {', '.join(schema.names)}")
        if pa.types.is_nested(kind := schema.field(cfg.id).type):
            raise InputError(f"corpus.id={cfg.id}: is {kind} in {uri}; an id is a text or a number")
    if cfg.where is not None:
        try:
            parse_where(cfg.where, schema)
        except InputError as error:
            raise InputError(f"corpus.{error} (in {uri})") from error


def _corpus(cfg: VectorsConfig, files: Iterable[_File], made: Made) -> Corpus:
    units = CompactList(_units(files, cfg.unit_mb * 10**6))
    if not units:
        raise InputError(f"corpus.path={cfg.path}: there are no vectors in it")
    identity = {
        "layout": cfg.layout,
        "array": cfg.array,
        "id": cfg.id,
        "where": cfg.where,
        "unit_mb": cfg.unit_mb,  # another cut has other units: said so, and not only that the content differs
        "encoder": made.encoder,
        "preprocessing": made.preprocessing,
        "content": content_id(*(f"{u.name} {u.version}" for u in units)),
    }
    return Corpus(units, made, sum(unit.rows or 0 for unit in units), identity)


def _units(files: Iterable[_File], at_most: int) -> Iterator[Unit]:
    """Cut large files, pack small ones."""
    held: list[tuple[_File, int, int]] = []
    size = 0
    for file in files:
        step = file.rows if file.whole else max(1, at_most // file.row_bytes)
        for first in range(0, file.rows, max(1, step)):
            last = min(first + step, file.rows)
            if held and size + (last - first) * file.row_bytes > at_most:
                yield _unit(held)
                held, size = [], 0
            held.append((file, first, last))
            size += (last - first) * file.row_bytes
    if held:
        yield _unit(held)


def _unit(held: Sequence[tuple[_File, int, int]]) -> Unit:
    inputs: dict[str, tuple[int, Object]] = {}
    parts = []
    for file, first, last in held:
        places = [
            -1 if one is None else inputs.setdefault(one.uri, (len(inputs), one))[0]
            for one in (file.vectors, file.meta)
        ]
        parts.append([*places, first, last])
    cut = any(first or last < file.rows for file, first, last in held)
    piece = json.dumps([part[2:] for part in parts]) if cut else WHOLE
    objects = tuple(one for _, one in inputs.values())
    name = content_id(*(f"{o.uri} {o.size} {o.etag}" for o in objects), piece)
    return Unit(name, objects, piece, sum(last - first for _, first, last in held), {"parts": parts})

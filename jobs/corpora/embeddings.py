"""Vectors to search: finding their files, checking their encoder, and cutting them into work units.

There are four layouts (`corpus.layout`): `table` (one or several tables `embeddings`), `datacomp` (pairs NAME.npz and
NAME.parquet), `clip_retrieval` (img_emb/img_emb_N.npy and metadata/metadata_N.parquet) and `npy` (only arrays).
A unit covers about `unit_mb` of vectors: part of a large file, or several small files. `jobs.corpora.vectors` reads it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa

from actors.ids import content_id
from actors.quantities import quantity
from jobs.checkpoints.encoder import EmbedderConfig, encoder_facts
from jobs.corpora.arrays import Matrix, find_matrix
from jobs.corpora.user_tables import opened_parquet
from jobs.corpora.vectors import VectorLayout, condition_columns
from jobs.corpora.where import parse_where
from jobs.errors import InputError, about, check_choice, check_least
from jobs.runtime.configuration.key_types import MISSING
from jobs.store.files import locations
from jobs.store.files.objects import CompactList, HashSet, Object
from jobs.store.files.threads import in_threads
from jobs.store.reading import TableSource, open_table, tables_in
from jobs.store.units import WHOLE, Unit

LAYOUTS = ("table", "datacomp", "clip_retrieval", "npy")
HEADER_THREADS = 16


@dataclass
class VectorsConfig:
    """A set of vectors; `conf/corpus/` has one file per layout."""

    name: str = "embeddings"
    layout: str = "table"  # how the files are laid out; the option of corpus= sets it
    path: str = MISSING  # a table or a glob of tables; files or a folder for the other layouts
    # rarely: the array of vectors: a member of the .npz files (l14_img), or img_emb or text_emb
    array: str | None = None
    id: str | None = None  # column of the .parquet files that is the item_id; null: a hash of the vector
    embedder: EmbedderConfig | None = None  # encoder of the vectors; null: a table names it
    # rarely: condition on columns, such as "language = en and width >= 300" (jobs.corpora.where)
    where: str | None = None
    unit_mb: int = 256  # rarely: MB of vectors per work unit; a crash repeats the search of at most one unit per worker


class VectorSpace(NamedTuple):
    """The encoder and preprocessing of vectors, and their length."""

    encoder: str
    preprocessing: str
    dim: int


def layout_of(cfg: VectorsConfig) -> VectorLayout:
    """Return how the vectors of a configured corpus are read."""
    return VectorLayout(cfg.layout == "table", cfg.array, cfg.id, cfg.where)


class VectorCorpus(NamedTuple):
    """A corpus cut into work units."""

    units: CompactList[Unit]
    space: VectorSpace
    rows: int
    identity: dict[str, Any]


class _File(NamedTuple):
    vectors: Object
    meta: Object | None
    rows: int
    row_bytes: int
    whole: bool  # whether the file can only be read from start to end


def open_tables(pattern: str, *, key: str) -> list[TableSource]:
    """Open the tables `embeddings` that match `pattern`.

    Args:
        key: the key of the job that names them, for messages.

    Raises:
        InputError: there are none, or they have different encoders.
    """
    with about(key):
        sources = [open_table(uri, "embeddings") for uri in tables_in(pattern)]
    for other in sources[1:]:
        check_same_space((sources[0].uri, space_of(sources[0])), (other.uri, space_of(other)))
    return sources


def find_corpus(cfg: VectorsConfig) -> VectorCorpus:
    """Find the files, compare their rows and vector lengths, and cut them into units, reading only headers and footers.

    Raises:
        InputError: there are no files; the layout is unknown; pairs are incomplete or have unequal rows; vectors have
            different lengths; the encoder is not declared or unknown; a condition uses a column that a file lacks; a
            key is not used by the layout.
    """
    _check_keys(cfg)
    if cfg.layout == "table":
        return _tables(cfg)
    space = _declared_space(cfg)
    pairs = CompactList(_pairs(cfg))
    files = CompactList(in_threads(lambda pair: _checked_file(cfg, space, *pair), pairs, HEADER_THREADS))
    return _corpus(cfg, files, space)


def _check_keys(cfg: VectorsConfig) -> None:
    """Raise InputError for an invalid value, or for a key without effect on this layout."""
    check_choice("corpus.layout", cfg.layout, LAYOUTS)
    check_least("corpus.unit_mb", cfg.unit_mb, 1)
    unused = {"table": ("array", "id", "embedder"), "npy": ("array", "id", "where")}.get(cfg.layout, ())
    reason = "a table has its own ids and encoder" if cfg.layout == "table" else "arrays alone have no columns"
    for key in unused:
        if getattr(cfg, key) is not None:
            why = f"layout {cfg.layout} does not use it ({reason})"
            raise InputError(why, key=f"corpus.{key}", value=getattr(cfg, key), remedy="omit it")


def _tables(cfg: VectorsConfig) -> VectorCorpus:
    sources = open_tables(cfg.path, key="corpus.path")
    space = space_of(sources[0])
    if cfg.where is not None:
        parse_where(cfg.where, condition_columns(sources[0].footers[0].schema))
    files = (
        _File(footer.object, footer.object, footer.rows, space.dim * 2, whole=True)
        for source in sources
        for footer in source.footers
    )
    return _corpus(cfg, files, space)


def _declared_space(cfg: VectorsConfig) -> VectorSpace:
    if cfg.embedder is None:
        why = f"required: files of layout {cfg.layout} do not name their encoder"
        raise InputError(why, key="corpus.embedder.checkpoint", value="")
    try:
        facts = encoder_facts(cfg.embedder)
    except InputError as error:
        raise InputError(f"corpus.{error}") from error
    return VectorSpace(facts.encoder, facts.preprocessing, facts.dim)


def _pairs(cfg: VectorsConfig) -> Iterator[tuple[Object, Object | None]]:
    """Yield each file of vectors with its Parquet file (None for layout npy), ordered by URI."""
    files = locations.find(cfg.path)
    if cfg.layout == "npy":
        arrays = CompactList(o for o in files if o.uri.endswith(".npy"))
        partner: Callable[[str], str] | None = None
    elif cfg.layout == "datacomp":
        arrays = CompactList(o for o in files if o.uri.endswith(".npz"))
        partner = _same_name
    else:
        name = cfg.array or "img_emb"
        numbered = re.compile(rf"/{re.escape(name)}/{re.escape(name)}_\d+\.npy$")
        arrays = CompactList(o for o in files if numbered.search(o.uri))
        partner = _same_number
    if not arrays:
        raise InputError(f"no files of corpus.layout={cfg.layout}", key="corpus.path", remedy="change one of the two")
    if partner is None:
        yield from ((vectors, None) for vectors in arrays)
        return
    _check_no_vectors_missing(cfg, arrays, files, partner)
    uris = HashSet(o.uri for o in files)
    for vectors in arrays:
        meta = partner(vectors.uri)
        if (index := uris.index(meta)) is None:
            raise InputError(f"{vectors.uri} needs {meta}, which is missing", key="corpus.path", remedy="copy it there")
        yield vectors, files[index]


def _check_no_vectors_missing(
    cfg: VectorsConfig, arrays: Sequence[Object], files: Iterable[Object], partner: Callable[[str], str]
) -> None:
    """Raise InputError for metadata without vectors, since a file may not have been copied."""
    folders = {partner(o.uri).rsplit("/", 1)[0] for o in arrays}
    partners = HashSet(partner(o.uri) for o in arrays)
    name = re.compile(r".*\.parquet" if cfg.layout == "datacomp" else r"metadata_\d+\.parquet")
    for uri in (o.uri for o in files):
        folder, _, last = uri.rpartition("/")
        if folder in folders and uri not in partners and name.fullmatch(last):
            raise InputError(
                f"its file of vectors, such as {arrays[0].uri}, is missing; copy it, or change corpus.path", place=uri
            )


def _same_name(uri: str) -> str:
    return uri.removesuffix(".npz") + ".parquet"


def _same_number(uri: str) -> str:
    folder, name = uri.rsplit("/", 2)[0], PurePosixPath(uri).stem
    return f"{folder}/metadata/metadata_{name.rsplit('_', 1)[1]}.parquet"


def _checked_file(cfg: VectorsConfig, space: VectorSpace, vectors: Object, meta: Object | None) -> _File:
    matrix: Matrix = find_matrix(vectors.uri, array=cfg.array)
    if matrix.dim != space.dim:
        raise InputError(
            f"vectors of {matrix.dim} numbers; those of {space.encoder} have {space.dim}", place=vectors.uri
        )
    if meta is not None:
        with opened_parquet(meta.uri) as file:
            footer = file.metadata
        if footer.num_rows != matrix.rows:
            raise InputError(
                f"{vectors.uri} has {quantity(matrix.rows, 'row')}, but {meta.uri} has {footer.num_rows:,}; both must "
                "have the same rows"
            )
        _check_columns(cfg, meta.uri, footer.schema.to_arrow_schema())
    return _File(vectors, meta, matrix.rows, matrix.row_bytes, whole=matrix.offset is None)


def _check_columns(cfg: VectorsConfig, uri: str, schema: pa.Schema) -> None:
    """Raise InputError if a Parquet file lacks the id column or a column of the condition."""
    if cfg.id is not None:
        if cfg.id not in schema.names:
            why = f"no such column in {uri}; it has {', '.join(schema.names)}"
            raise InputError(why, key="corpus.id", value=cfg.id)
        if pa.types.is_nested(kind := schema.field(cfg.id).type):
            raise InputError(f"is {kind} in {uri}; an id must be a text or a number", key="corpus.id", value=cfg.id)
    if cfg.where is not None:
        try:
            parse_where(cfg.where, schema)
        except InputError as error:
            raise InputError(f"corpus.{error} (in {uri})") from error


def _corpus(cfg: VectorsConfig, files: Iterable[_File], space: VectorSpace) -> VectorCorpus:
    units = CompactList(_units(files, cfg.unit_mb * 10**6))
    if not units:
        raise InputError("the files hold no vectors", key="corpus.path", value=cfg.path)
    identity = {
        "layout": cfg.layout,
        "array": cfg.array,
        "id": cfg.id,
        "where": cfg.where,
        "unit_mb": cfg.unit_mb,  # changes the units; included so that a refusal names this key, not only the content
        "encoder": space.encoder,
        "preprocessing": space.preprocessing,
        "content": content_id(*(f"{u.name} {u.version}" for u in units)),
    }
    return VectorCorpus(units, space, sum(unit.rows or 0 for unit in units), identity)


def _units(files: Iterable[_File], at_most: int) -> Iterator[Unit]:
    """Cut large files and pack small ones into units of at most `at_most` bytes of vectors."""
    slices: list[tuple[_File, int, int]] = []
    size = 0
    for file in files:
        step = file.rows if file.whole else max(1, at_most // file.row_bytes)
        for first in range(0, file.rows, max(1, step)):
            last = min(first + step, file.rows)
            if slices and size + (last - first) * file.row_bytes > at_most:
                yield _unit(slices)
                slices, size = [], 0
            slices.append((file, first, last))
            size += (last - first) * file.row_bytes
    if slices:
        yield _unit(slices)


def _unit(slices: Sequence[tuple[_File, int, int]]) -> Unit:
    inputs: dict[str, tuple[int, Object]] = {}
    parts = []
    for file, first, last in slices:
        indices = [
            -1 if stored is None else inputs.setdefault(stored.uri, (len(inputs), stored))[0]
            for stored in (file.vectors, file.meta)
        ]
        parts.append([*indices, first, last])
    cut = any(first or last < file.rows for file, first, last in slices)
    piece = json.dumps([part[2:] for part in parts]) if cut else WHOLE
    objects = tuple(stored for _, stored in inputs.values())
    name = content_id(*(f"{o.uri} {o.size} {o.etag}" for o in objects), piece)
    return Unit(name, objects, piece, sum(last - first for _, first, last in slices), {"parts": parts})


def space_of(source: TableSource) -> VectorSpace:
    """Return the space of a table `embeddings`, from its metadata and schema.

    Raises:
        InputError: the column `embedding` does not contain vectors of one length.
    """
    kind = source.footers[0].schema.field("embedding").type
    if not pa.types.is_fixed_size_list(kind):
        raise InputError(f"its column embedding is {kind}; vectors of one length are needed", place=source.uri)
    encoder, preprocessing = (source.metadata.get(f"remine.{name}", "") for name in ("encoder", "preprocessing"))
    return VectorSpace(encoder, preprocessing, kind.list_size)


def check_same_space(one: tuple[str, VectorSpace], other: tuple[str, VectorSpace]) -> None:
    """Check that two sets of vectors, each a name for the message and a space, can be compared.

    Raises:
        InputError: the spaces differ; the message names both sides.
    """
    (name, space), (other_name, other_space) = one, other
    for field, value, other_value in zip(space._fields, space, other_space, strict=True):
        if value != other_value:
            raise InputError(f"{name} and {other_name} cannot be compared: their {field} is {value} and {other_value}")

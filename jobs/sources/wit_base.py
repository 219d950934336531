"""source=wit_base: the records' pictures from that data set's Parquet files, found by image_url."""

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from actors.parquet_pictures import ParquetPictures
from actors.quantities import quantity
from jobs.corpora.records import RecordsInput, open_records
from jobs.corpora.wit import wit_base
from jobs.errors import InputError
from jobs.sources.config import FetchConfig, required_input, required_path
from jobs.sources.folder import filesystem_opener
from jobs.sources.source_plan import SourcePlan
from jobs.store.files import locations
from jobs.store.files.locations import Object
from jobs.store.pieces import begun_cuts
from jobs.store.runs.table_run import TableRun


def plan(cfg: FetchConfig) -> SourcePlan:
    """Return the records' units, streamed through `ParquetPictures`.

    Raises:
        InputError: a key is missing or does not apply, or the files are not those of wit_base.
    """
    path, uri = required_path(cfg), required_input(cfg)
    if cfg.width is not None:
        raise InputError(
            f"width={cfg.width}: source=wit_base has pictures of width 300 and does not resize them; leave width= out"
        )
    folder = locations.absolute(path)
    files = wit_base.find_files(folder)
    records = open_records(uri, cfg.unit_rows, begun_cuts(cfg.out, overwrite=cfg.overwrite))
    return SourcePlan(
        units=records.units,
        identity={"path": folder, "unit_rows": records.unit_rows},
        note=f"{quantity(len(files), 'file')} of wit_base; {records.note}",
        streamed=True,
        fetch=partial(_fetch, cfg, files, records),
        records=records.table,
    )


def _fetch(
    cfg: FetchConfig,
    files: Sequence[Object],
    records: RecordsInput,
    run: TableRun,
    excluded: str | None,
) -> None:
    from jobs.runtime import stages

    urls = pa.array([], pa.string())
    if run.todo:
        chunks = [chunk for rows in records.table.batches(["image_url"]) for chunk in rows["image_url"].chunks]
        urls = pa.chunked_array(chunks, pa.string()).unique()
    places = run.keep(wit_base.PLACES_FILE, wit_base.pack_places(wit_base.picture_places(files, urls)))
    rows = partial(wit_base.of_records, places=places, repeated=records.keep_repeats(run))
    kwargs = {
        "open_filesystem": filesystem_opener(locations.absolute(required_path(cfg))),
        "max_bytes": cfg.source.max_bytes,
        "column": wit_base.PICTURE,
        "rendition": wit_base.RENDITION,
    }
    read = stages.Read(rows, item="image_id", output_item="image_id", excluded=excluded)
    chain = [stages.Stage("fetch", ParquetPictures, kwargs)]
    stages.stream(run, name="fetch", read=read, stages=chain, resources=cfg.resources)

"""Small tables for tests, written by hand without Ray, and rows for them."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import sub
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from PIL import Image

from actors.ids import content_id
from jobs.analysis.rating_codes import Reduction
from jobs.judging.kept_rubric import KeptRubric, of_answers
from jobs.metrics.distributions import Distributions
from jobs.store.files import locations
from jobs.store.json_types import FooterJson
from jobs.store.reading import open_table
from jobs.store.run_files import IDENTITY, read_json, trials
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.unit_index import read_index
from jobs.store.units import Unit
from jobs.store.writer import Reject, UnitWriter
from jobs.tables import TABLES, table

DIM = 4  # of embeddings, unless their rows have other vectors
FIVE = of_answers("r", ["1", "2", "3", "4", "5"], ordinal=True)  # rubric r: every question from 1 to 5


def unit_records(out: str | Path) -> list[FooterJson]:
    """Return the records of the units of a table, in the order of its units."""
    return [footer.record for footer in read_index(str(out)) if footer.record is not None]


class TableInMemory:
    """Rows of a table in memory, read as a TableSource is: in batches, of the columns asked for."""

    def __init__(self, name: str, rows: Sequence[dict[str, Any]], *, batch: int = 3) -> None:
        self.uri, self.rows = f"memory/{name}", len(rows)
        self._rows = pa.Table.from_pylist(list(rows), schema=TABLES[name].schema())
        self._batch = batch

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        for first in range(0, self._rows.num_rows, self._batch):
            yield self._rows.slice(first, self._batch).select(list(columns))

    def by_object(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        yield self._rows.select(list(columns))

    def parts(self, rows: int) -> "Iterator[TableInMemory]":
        yield self


def add_ratings(counted: Distributions, batch: pa.Table) -> None:
    """Count a batch of ratings with their units, which are items."""
    counted.add(batch)
    add_units(counted, batch)


def add_units(counted: Distributions, batch: pa.Table) -> None:
    """Add the units, which are items, of all ratings that were counted."""
    with Reduction(by=counted.extra) as reduction:
        reduction.add(batch)
        for key in reduction.keys:
            for part in reduction.by_units(key):
                counted.add_units(key, part)


def write_table(
    out: str | Path,
    name: str,
    rows: Sequence[dict[str, Any]],
    *,
    unit: str = "unit",
    filtered: Mapping[str, int] | None = None,
    rubric: KeptRubric | None = None,
    **identity: Any,
) -> str:
    """Write a complete table of one unit to `out`, with null for missing columns; return its URI.

    Args:
        filtered: rule -> number of rows that it removed before.
        rubric: kept with the table, as jobs that write ratings do.
        identity: further keys of its identity.
    """
    _write_run(str(out), name, {unit: rows}, filtered=filtered, rubric=rubric, identity=identity)
    return str(out)


def write_units(out: str | Path, name: str, units: Sequence[Sequence[dict[str, Any]]], **metadata: str) -> str:
    """Write a complete table to `out`, a unit of each list of rows; return its URI."""
    _write_run(str(out), name, {f"unit{number}": rows for number, rows in enumerate(units)}, metadata=metadata)
    return str(out)


def write_records(out: str, units: Sequence[Sequence[dict[str, Any]]], *, rejected: int = 0) -> dict[str, Any]:
    """Write a complete table of records to `out`, a unit of each list of rows; return the manifest."""
    return _write_run(out, "records", {f"unit{n}": rows for n, rows in enumerate(units)}, rejected=rejected)


def _write_run(
    out: str,
    name: str,
    units: dict[str, Sequence[dict[str, Any]]],
    *,
    metadata: dict[str, str] | None = None,
    rejected: int = 0,
    filtered: Mapping[str, int] | None = None,
    rubric: KeptRubric | None = None,
    identity: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    vectors = (row["embedding"] for rows in units.values() for row in rows if row.get("embedding") is not None)
    dim = next((len(vector) for vector in vectors), DIM) if name == "embeddings" else None
    plan_units = [Unit(unit, (), rows=len(rows)) for unit, rows in units.items()]
    metadata = (metadata or {}) | (rubric.metadata if rubric else {})
    files = rubric.files if rubric else {}
    keys = {"by": "hand", **(identity or {})}
    plan = TablePlan(out, name, keys, plan_units, {}, metadata, derived=False, dim=dim, files=files)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for task in run.todo:
        rows = units[task.unit.name]
        with UnitWriter(run.target, task) as writer:
            writer.counts.filtered.update(filtered or {})
            left = accumulate((filtered or {}).values(), sub, initial=len(rows) + sum((filtered or {}).values()))
            steps = zip(("matched", *(filtered or {})), left, strict=True)
            writer.counts.tallies["steps"] = {f"/all/{step}": n for step, n in steps} if filtered else {}
            writer.counts.rows_in = len(rows) + rejected + writer.counts.filtered.total()
            for position in range(rejected):
                writer.reject(Reject("f", position, "malformed", "no row"))
            writer.write(pa.Table.from_pylist(list(rows), schema=table(name, dim=dim).schema()))
    return run.finish()


def write_file(folder: Path, name: str, rows: list[dict[str, Any]], *, rubric: KeptRubric | None = None) -> str:
    """Write a table of one Parquet file without units or counts, as other programs do; return its URI.

    With `rubric` the table keeps it, as jobs that write ratings do.
    """
    schema = table(name).schema(**(rubric.metadata if rubric else {}))
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in (rubric.files if rubric else {}).items():
        (folder / "_run").mkdir(exist_ok=True)
        (folder / "_run" / file).write_bytes(data)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "part.parquet", row_group_size=64)
    return str(folder)


def rows_of(uri: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    rows: list[dict[str, Any]] = pa.concat_tables(open_table(uri).batches()).to_pylist()
    return rows


def trials_below(folder: Path) -> dict[str, str]:
    """Return the place of each trial run below a folder -> that of the whole run, relative to the folder."""
    identities = {
        str(file.parents[1].relative_to(folder)): read_json(str(file)) for file in folder.rglob(f"_run/{IDENTITY}")
    }
    return trials(identities)


def metric_values(uri: str) -> Callable[..., Any]:
    """Return a function from a metric's name and dims to its value, or None, in the table of metrics at `uri`."""
    metrics = {(row["metric"], row["dims"]): row["value"] for row in rows_of(uri)}

    def value(metric: str, **dims: str) -> float | None:
        return metrics[metric, json.dumps(dims, sort_keys=True, separators=(",", ":"))]

    return value


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write a CSV file; return its path."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def write_pictures(folder: Path, colours: Iterable[str], *, size: tuple[int, int] = (64, 48)) -> None:
    """Write COLOUR.png of each colour into a new folder."""
    folder.mkdir(parents=True)
    for colour in colours:
        Image.new("RGB", size, colour).save(folder / f"{colour}.png")


def copy_folder(folder: Path, uri: str) -> None:
    """Copy the files of a folder to `uri`."""
    target, path = locations.filesystem(uri)
    pafs.copy_files(str(folder), path, source_filesystem=pafs.LocalFileSystem(), destination_filesystem=target)


def record(
    title: str, *, page: str | None = None, image: str | None = None, main: str | None = "true", record_id: str = ""
) -> dict[str, Any]:
    """Return a row of `records`; page and image are the title's own unless given."""
    image = f"https://i/{title}.jpg" if image is None else image
    return {
        "record_id": record_id or content_id(title, page or "", image, main or ""),
        "image_id": content_id(image),
        "page_url": f"https://p/{title}" if page is None else page,
        "image_url": image,
        "page_title": title,
        "is_main_image": main,
    }


def record_of(image: dict[str, Any], title: str) -> dict[str, Any]:
    """Return the row of `records` of a picture."""
    return {
        "record_id": content_id("record", image["image_id"]),
        "image_id": image["image_id"],
        "image_url": image["source_url"],
        "page_title": title,
        "page_url": f"https://en.wikipedia.org/wiki/{title}",
    }


def picture(number: int, *, url: str | None = None, status: str = "ok") -> dict[str, Any]:
    """Return a row of `images` with bytes."""
    url = url or f"https://upload.example/{number}.jpg"
    return {
        "image_id": content_id(url),
        "rendition": "original",
        "bytes": f"picture {number}".encode() if status == "ok" else None,
        "format": "JPEG",
        "source_url": url,
        "status": status,
    }


def image_row(
    url: str, *, status: str = "ok", phash: str | None = None, rendition: str = "original", image_id: str = ""
) -> dict[str, Any]:
    """Return a row of `images` about the picture at `url`, without bytes."""
    return {
        "image_id": image_id or content_id(url),
        "rendition": rendition,
        "status": status,
        "phash": phash,
        "source_url": url,
    }


def embedding_rows(ids: Sequence[str], kind: str, vectors: np.ndarray) -> list[dict[str, Any]]:
    """Return rows of `embeddings` with the normalised `vectors` [ids, DIM]."""
    normalised = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    return [
        {"item_id": name, "kind": kind, "embedding": vector, "status": "ok"}
        for name, vector in zip(ids, normalised, strict=True)
    ]


def rating(item: str, rater: str, question: str, value: str | None, **columns: Any) -> dict[str, Any]:
    """Return a row of `ratings` of rubric `r`; digits are scores. Without a value it is unparsed."""
    return {
        "item_id": item,
        "target": "",
        "rubric": "r",
        "question": question,
        "rater": rater,
        "condition": "",
        "method": "human" if rater.startswith("p") else "closed",
        "order": "",
        "sample": 0,
        "value": value,
        "score": float(value) if value and value.isdigit() else None,
        "status": "ok" if value else "unparsed",
        **columns,
    }


def century_rating(item: str, question: str, answer: object, *, rater: str = "m", **columns: Any) -> dict[str, Any]:
    """Return a row of `ratings` by `century_labels`: a number is a score, a word a category, None a refusal."""
    return rating(item, rater, question, None if answer is None else str(answer)) | {
        "rubric": "century_labels",
        "method": "closed",
        "score": float(answer) if isinstance(answer, int | float) else None,
        "status": "refused" if answer is None else "ok",
        **columns,
    }

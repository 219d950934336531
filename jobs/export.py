"""Write ratings, joined with what they are about, as one flat Parquet or CSV file for data frames and spreadsheets.

    remine export R/ratings/* ratings.parquet --records R/records --images R/images
    remine export R/ratings/qwen R/people ratings.csv --items R/items
    remine export R ratings.parquet

One row per rating: the picture with its title, URLs and licence, the item with its attributes and correct answers, the
question with its text, the rater, and the answer with its label, score and status. Rows whose status is not ok are
kept, without a score. docs/results.md reads the file with pandas, Polars, DuckDB and datasets.
"""

import codecs
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from omegaconf import MISSING

from actors.quantities import quantity
from jobs.corpora.cell_texts import escape_rows
from jobs.errors import InputError
from jobs.inventory.found import find_rated_run
from jobs.judging.kept_rubric import Rubrics, read_rubrics
from jobs.judging.rating_tables import open_ratings
from jobs.runtime.command_line import cli
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations
from jobs.store.object_rows import SharedLookup
from jobs.store.reading import TableSource, open_table, open_tables
from jobs.store.runs.place import check_creatable, table_around

FORMATS = (".parquet", ".csv")
RECORD = ("page_title", "page_url", "image_url")
IMAGE = ("source_url", "author", "licence")
ITEM = ("kind", "response_id", "gold")
IDS = ("item_id", "image_id")
ASKED = ("rubric", "question", "question_text", "target", "rater", "condition", "method", "order", "sample")
ANSWER = (
    "value",
    "label",
    "score",
    "expected",
    "outside_mass",
    "truncated",
    "empty_context",
    "status",
    "error_kind",
    "comment",
    "seconds",
)
WORDS = ("question_text", "label")  # from the rubric kept with the table of ratings
NUMBERS = {"sample": pa.int32()} | dict.fromkeys(("score", "expected", "outside_mass", "seconds"), pa.float64())
SEPARATOR = "; "  # between several correct answers
NONE_RIGHT = "[]"  # as `items columns.gold=` reads it; an empty cell is unknown


class FlatTable:
    """Joins ratings with items, records and images, each of which may be absent.

    A rating of a picture has the picture's id as item_id; any other rating has the pictures of its item. An item with
    several pictures has the record and the source of the first one. The picture is unknown if no table of items,
    records or images has the id.

    Args:
        items: tables of items; the first one is used for an item in several tables.
        records, images: tables of the pictures; the first of several rows of a picture is used.
        rubrics: the rubrics kept with the tables of ratings.
        exclusion_filter: the exclusions; ratings of excluded pictures are left out.
    """

    def __init__(
        self,
        *,
        items: Sequence[TableSource],
        records: TableSource | None,
        images: TableSource | None,
        rubrics: Rubrics,
        exclusion_filter: ExclusionFilter,
    ) -> None:
        self._items = [_lookup(source, "item_id", (*ITEM, "image_ids", "attributes")) for source in items]
        self._records = _lookup(records, "image_id", RECORD) if records else None
        self._images = _lookup(images, "image_id", IMAGE) if images else None
        self._rubrics, self._exclusion_filter = rubrics, exclusion_filter
        taken = {*IDS, *RECORD, *IMAGE, *ITEM, *ASKED, *ANSWER}
        self._attributes: dict[str, str] = {}
        for name in sorted({name for source in items for name in _attributes(source)}):
            column = name
            while column in taken:
                column = f"item_{column}"
            self._attributes[name] = column
            taken.add(column)

    @property
    def schema(self) -> pa.Schema:
        """The columns of `rows`: ids, record, picture, item with its attributes, question, answer."""
        names = [*IDS, *(RECORD if self._records else ()), *(IMAGE if self._images else ())]
        names += [*ITEM, *sorted(self._attributes.values())] if self._items else []
        return pa.schema([(name, NUMBERS.get(name, pa.string())) for name in [*names, *ASKED, *ANSWER]])

    def rows(self, source: TableSource) -> Iterator[pa.Table]:
        """Yield the rows of a table of ratings, one row group at a time."""
        rating_columns = [name for name in (*ASKED, *ANSWER) if name not in WORDS]
        for ratings in source.batches(["item_id", *rating_columns]):
            ids = pc.unique(ratings["item_id"])
            facts, excluded = self._facts(ids)
            at = pc.index_in(ratings["item_id"], value_set=ids)
            columns = {name: ratings[name] for name in rating_columns} | self._words(ratings)
            columns["truncated"] = pc.binary_join(columns["truncated"], " ")
            columns |= {name: facts[name].take(at) for name in facts.column_names}
            rows = pa.table([columns[field.name].cast(field.type) for field in self.schema], schema=self.schema)
            yield rows.filter(pc.invert(excluded.take(at)))

    def _facts(self, ids: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Return a row per item, and whether its pictures are excluded."""
        rows: dict[str, dict[str, Any]] = {name: {"item_id": name} for name in ids.to_pylist()}
        pictures = {name: [name] for name in rows}
        described = set[str]()  # items with pictures in a table
        for items in reversed(self._items):
            for item in items.rows(ids).to_pylist():
                attributes = {self._attributes[name]: value for name, value in item["attributes"] or ()}
                gold = None if item["gold"] is None else SEPARATOR.join(item["gold"]) or NONE_RIGHT
                facts = {name: item[name] for name in ITEM} | {"gold": gold}
                # Replace the entire row, so that no attribute of another table's row remains.
                rows[item["item_id"]] = {"item_id": item["item_id"], **facts, **attributes}
                pictures[item["item_id"]] = item["image_ids"] or []
                described.add(item["item_id"])
        first = pa.array([next(iter(pictures[name]), None) for name in rows], pa.string())
        for lookup in (self._records, self._images):
            by_picture: dict[str, dict[str, Any]] = {}
            for fact in lookup.rows(first).to_pylist() if lookup else ():
                by_picture.setdefault(fact.pop("image_id"), fact)
            for row, picture in zip(rows.values(), first.to_pylist(), strict=True):
                row.update(by_picture.get(picture, {}))
            described |= by_picture.keys()
        hit = self._exclusion_filter.hit
        excluded = [
            hit(name, *pictures[name], row.get("image_url"), row.get("source_url")) for name, row in rows.items()
        ]
        for name, row in rows.items():
            row["image_id"] = (" ".join(pictures[name]) or None) if name in described else None
        names = [field.name for field in self.schema if field.name not in (*ASKED, *ANSWER)]
        table = pa.table({name: pa.array([row.get(name) for row in rows.values()], pa.string()) for name in names})
        return table, pa.array(excluded, pa.bool_())

    def _words(self, ratings: pa.Table) -> dict[str, pa.Array]:
        """Return the text of each question and the label of each answer, null where the rubric is unknown."""
        texts, labels = [], []
        for name, question, value in zip(
            *(ratings[c].to_pylist() for c in ("rubric", "question", "value")), strict=True
        ):
            kept = self._rubrics.question(name, question)
            texts.append((kept.text or None) if kept else None)
            labels.append(next((a.label for a in kept.answers if a.value == value), None) if kept else None)
        return {"question_text": pa.array(texts, pa.string()), "label": pa.array(labels, pa.string())}


@dataclass
class ExportConfig:
    """Keys of `export`."""

    out: str = MISSING  # the file to write: a path or s3:// URI that ends in .parquet or .csv
    # tables, globs of tables, or the folder of a run, whose records, images and items are then joined too
    ratings: list[str] = field(default_factory=list)
    records: str | None = None  # records of the pictures: title and URLs of their pages
    images: str | None = None  # images table: source, author and licence
    items: list[str] = field(default_factory=list)  # tables, or globs: attributes, correct answers, pictures of items
    overwrite: bool = False  # replace an existing file
    exclusions: str | None = None  # file of pictures whose ratings are left out (jobs.runtime.selection.exclusions)


def execute(cfg: ExportConfig) -> dict[str, int]:
    """Run the job and return the number of rows by status, and of those left out; see the module's docstring.

    Raises:
        InputError: a table does not exist, two tables hold the same rating, the file exists, or it would be in the
            folder of a table.
    """
    out = locations.absolute(cfg.out)
    suffix = next((suffix for suffix in FORMATS if out.endswith(suffix)), None)
    if suffix is None:
        raise InputError(f"out={cfg.out}: must end in {' or '.join(FORMATS)}")
    if not cfg.ratings:
        raise InputError("ratings=[]: name at least one table of ratings, as in ratings=[R/ratings/*]")
    check_creatable(out.rsplit("/", 1)[0])
    if locations.exists(out) and not cfg.overwrite:
        raise InputError(f"out={cfg.out}: exists; use another name or overwrite=true")
    if suffix == ".parquet" and (table := table_around(out)):
        raise InputError(f"out={cfg.out}: inside table {table}, whose rows it would be among; use another out=")
    cfg = _of_runs(cfg)
    sources = open_ratings(cfg.ratings)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    flat = FlatTable(
        items=open_tables(cfg.items, "items"),
        records=open_table(cfg.records, "records") if cfg.records else None,
        images=open_table(cfg.images, "images") if cfg.images else None,
        rubrics=read_rubrics(sources),
        exclusion_filter=exclusion_filter,
    )
    by_status: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="remine-") as folder:
        path = Path(folder) / f"rows{suffix}"
        with _writer(path, flat) as writer:
            for source in sources:
                for rows in flat.rows(source):
                    writer.write_table(rows if suffix == ".parquet" else escape_rows(rows))
                    by_status.update(rows["status"].to_pylist())
        locations.publish(path, out)
    asked = sum(source.rows for source in sources)
    left_out = asked - by_status.total()
    counts = [f"{n:,} {status}" for status, n in by_status.most_common()]
    counts += [f"{left_out:,} excluded"] if left_out else []
    total = quantity(asked, "rating")
    say(f"export: {out}\n  {total}" + (f" = {' + '.join(counts)}" if counts else ""))
    summary.show_exclusions(excluded, exclusion_filter.matched)
    return {**by_status, "excluded": left_out}


def _of_runs(cfg: ExportConfig) -> ExportConfig:
    """Return `cfg` with the folder of each run replaced by its tables of ratings and the tables to join them with."""
    runs = {place: find_rated_run(place) for place in cfg.ratings}
    ratings = [uri for place, run in runs.items() for uri in (run.ratings if run else [place])]
    rated = [run for run in runs.values() if run]
    if not rated:
        return cfg
    cfg = replace(
        cfg,
        ratings=ratings,
        items=cfg.items or list(dict.fromkeys(uri for run in rated for uri in run.items)),
        records=cfg.records or next((run.records for run in rated if run.records), None),
        images=cfg.images or next((run.images for run in rated if run.images), None),
    )
    for name, uris in (("ratings", cfg.ratings), ("items", cfg.items)):
        say(f"  {name}: {', '.join(uris) or 'none'}")
    for name, uri in (("records", cfg.records), ("images", cfg.images)):
        say(f"  {name}: {uri or 'none'}")
    return cfg


@contextmanager
def _writer(path: Path, flat: FlatTable) -> Iterator[pq.ParquetWriter | pcsv.CSVWriter]:
    """Open a writer of the file; CSV begins with a byte-order mark, without which Excel misreads other letters."""
    if path.suffix == ".parquet":
        with pq.ParquetWriter(path, flat.schema) as writer:
            yield writer
        return
    with path.open("wb") as file:
        file.write(codecs.BOM_UTF8)
        with pcsv.CSVWriter(file, flat.schema) as writer:
            yield writer


JOB = cli.Job("export", ExportConfig, execute, positional=("ratings", "out"), resumes=False)

if __name__ == "__main__":
    sys.exit(cli.main("export"))


def _lookup(source: TableSource, key: str, columns: Iterable[str]) -> SharedLookup:
    return SharedLookup([footer.object for footer in source.footers], key=key, columns=list(columns))


def _attributes(source: TableSource) -> set[str]:
    """Return the names of the attributes of a table of items."""
    names: set[str] = set()
    for batch in source.batches(["attributes"]):
        for chunk in batch["attributes"].chunks:
            names.update(pc.unique(chunk.keys).to_pylist())
    return names

"""Write ratings, joined with what they are about, as one flat Parquet or CSV file for data frames and spreadsheets.

    remine export R/ratings/* ratings.parquet --records R/records --images R/images
    remine export R/ratings/qwen R/people ratings.csv --items R/items
    remine export R ratings.parquet

One row per rating: the picture with its title, URLs and licence, the item with its attributes and correct answers, the
question with its text, the rater, and the answer with its label, score, status and, from models, the probability of
each allowed answer (`p_ANSWER`). Rows whose status is not ok are kept, without a score. docs/results.md reads the file
with pandas, Polars, DuckDB and datasets.
"""

import codecs
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from actors.quantities import quantity
from jobs.analysis.flat_table import FlatTable, answers_with_probabilities
from jobs.corpora.cell_texts import escape_rows
from jobs.errors import InputError
from jobs.inventory.found import find_rated_run
from jobs.judging.kept_rubric import read_rubrics
from jobs.judging.rating_tables import open_ratings
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.reading import open_table, open_tables
from jobs.store.runs.place import check_creatable, table_around

FORMATS = (".parquet", ".csv")


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
    check(cfg)
    out = locations.absolute(cfg.out)
    suffix = Path(out).suffix
    cfg = _of_runs(cfg)
    sources = open_ratings(cfg.ratings)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    flat = FlatTable(
        items=open_tables(cfg.items, "items", key="items"),
        records=open_table(cfg.records, "records", key="records") if cfg.records else None,
        images=open_table(cfg.images, "images", key="images") if cfg.images else None,
        rubrics=read_rubrics(sources),
        exclusion_filter=exclusion_filter,
        answers=answers_with_probabilities(sources),
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
    for line in summary.exclusion_lines(excluded, exclusion_filter.matched):
        say(line)
    return {**by_status, "excluded": left_out}


def check(cfg: ExportConfig) -> None:
    """Check the keys and the place of the file, without reading tables; raise InputError if one is wrong."""
    out = locations.absolute(cfg.out)
    if not out.endswith(FORMATS):
        raise InputError(
            f"must end in {' or '.join(FORMATS)}",
            key="out",
            value=cfg.out,
            remedy="the last word is the file to write, as in remine export R ratings.csv",
        )
    if not cfg.ratings:
        raise InputError("name at least one table of ratings, as in ratings=[R/ratings/*]", key="ratings", value="[]")
    check_creatable(out.rsplit("/", 1)[0])
    if locations.exists(out) and not cfg.overwrite:
        raise InputError("exists", key="out", value=cfg.out, remedy="use another name or overwrite=true")
    if out.endswith(".parquet") and (table := table_around(out)):
        raise InputError(f"inside table {table}, whose rows it would be among", key="out", remedy="use another out=")


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


JOB = cli.Job("export", ExportConfig, execute, check=check, positional=("ratings", "out"), resumes=False)

if __name__ == "__main__":
    sys.exit(cli.main("export"))

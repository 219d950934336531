"""Find English rows whose lower-cased title contains a search term, in one WIT-like TSV.gz."""

import csv
import gzip
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

if TYPE_CHECKING:
    from actors.titles import TitleMatcher

ROWS: dict[Size, int] = {"smoke": 20_000, "default": 200_000, "full": 1_000_000}
TERMS = 7385  # as many as Century released
CORPUS, TERM_FILE = "wit_v1.train.all-00000-of-00001.tsv.gz", "terms.csv"
READ_BYTES = 1 << 20
FIELD_LIMIT = 1 << 28
PANDAS_ROWS = 50_000


def prepare(workdir: Path, size: Size) -> None:
    """Write the corpus and the terms."""
    from tests.benchmarks.wit_like import make_terms, write_wit_like

    terms = make_terms(TERMS)
    write_wit_like(workdir / CORPUS, rows=ROWS[size], terms=terms)
    with (workdir / TERM_FILE).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["terms"])
        writer.writerows([term] for term in terms)


def isal(workdir: Path, size: Size) -> Result:
    """Decompress and look at nothing: what no reader in one process can be faster than."""
    return decompressed(workdir / CORPUS)


def decompressed(path: Path) -> Result:
    """Read a gzip file to its end with python-isal, into one buffer."""
    from isal import igzip

    buffer = bytearray(READ_BYTES)
    with igzip.open(path, "rb") as file:
        while file.readinto(buffer):
            pass
    return Result(rows=0, digest="")


def csv_dictreader(workdir: Path, size: Size) -> Result:
    """The standard library's reader, with an Aho-Corasick automaton for the titles."""
    import ahocorasick_rs

    csv.field_size_limit(FIELD_LIMIT)
    automaton = ahocorasick_rs.AhoCorasick(read_terms(workdir))
    results = []
    with gzip.open(workdir / CORPUS, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["language"] == "en" and automaton.find_matches_as_indexes(row["page_title"].lower()):
                results.append(tuple(row.values()))
    return result_of(results)


def polars(workdir: Path, size: Size) -> Result:
    """A streaming scan with `contains_any`; lower-cased by Polars, whose ASCII-only matching loses capitals."""
    try:
        import polars as pl
    except ModuleNotFoundError as error:
        raise SkippedError("polars is not installed: pip install remine[bench]") from error
    scan = pl.scan_csv(workdir / CORPUS, separator="\t", quote_char='"', infer_schema=False)
    hit = pl.col("page_title").str.to_lowercase().str.contains_any(read_terms(workdir))
    matched = scan.filter((pl.col("language") == "en") & hit)
    return result_of(matched.collect(engine="streaming").rows())


def duckdb(workdir: Path, size: Size) -> Result:
    """`read_csv` and `contains` of any of a table of terms, DuckDB's fastest way to look for many."""
    try:
        import duckdb as db
    except ModuleNotFoundError as error:
        raise SkippedError("duckdb is not installed: pip install remine[bench]") from error
    import pyarrow as pa

    connection = db.connect()
    connection.register("terms", pa.table({"term": read_terms(workdir)}))
    query = f"""
        SELECT * FROM read_csv(?, delim='\t', header=true, all_varchar=true, quote='"', escape='"',
                               max_line_size={FIELD_LIMIT})
        WHERE language = 'en' AND EXISTS (SELECT 1 FROM terms WHERE contains(lower(page_title), term))
    """
    return result_of(connection.execute(query, [str(workdir / CORPUS)]).fetchall())


def ray_data(workdir: Path, size: Size) -> Result:
    """`read_csv` and `map_batches` of Ray Data, with an Aho-Corasick automaton for the titles."""
    if size == "smoke":
        raise SkippedError("starting Ray takes longer than this size")
    import ahocorasick_rs
    import pyarrow as pa
    import pyarrow.compute as pc
    import ray.data
    from pyarrow import csv as arrow_csv

    from jobs.tables import WIT_COLUMNS

    class Titles:
        def __init__(self, terms: list[str]) -> None:
            self.automaton = ahocorasick_rs.AhoCorasick(terms)

        def __call__(self, batch: pa.Table) -> pa.Table:
            english = batch.filter(pc.equal(batch["language"], "en"))
            titles = english["page_title"].to_pylist()
            return english.filter(pa.array([bool(self.automaton.find_matches_as_indexes(t.lower())) for t in titles]))

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    strings = {name: pa.string() for name in WIT_COLUMNS}
    data = ray.data.read_csv(
        str(workdir / CORPUS),
        read_options=arrow_csv.ReadOptions(block_size=16 << 20),
        parse_options=arrow_csv.ParseOptions(delimiter="\t", newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(column_types=strings, strings_can_be_null=False),
        arrow_open_stream_args={"compression": "gzip"},
        file_extensions=None,
    )
    matched = data.map_batches(
        Titles,
        batch_format="pyarrow",
        fn_constructor_args=(read_terms(workdir),),
        compute=ray.data.ActorPoolStrategy(size=1),
    )
    return result_of(tuple(row[name] for name in WIT_COLUMNS) for row in matched.take_all())


def pandas(workdir: Path, size: Size) -> Result:
    """`read_csv` in chunks, with an Aho-Corasick automaton for the titles."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise SkippedError("pandas is not installed: pip install remine[bench]") from error
    import ahocorasick_rs

    automaton = ahocorasick_rs.AhoCorasick(read_terms(workdir))
    results: list[tuple[str, ...]] = []
    chunks = pd.read_csv(workdir / CORPUS, sep="\t", dtype=str, keep_default_na=False, chunksize=PANDAS_ROWS)
    for chunk in chunks:
        english = chunk[chunk["language"] == "en"]
        hit = [bool(automaton.find_matches_as_indexes(title.lower())) for title in english["page_title"]]
        results += english.loc[hit].itertuples(index=False, name=None)
    return result_of(results)


def remine(workdir: Path, size: Size) -> Result:
    """The project's own reader and matcher, all rows counted, as a worker of `mine` uses them."""
    from actors.titles import TitleMatcher

    return scanned(workdir / CORPUS, TitleMatcher(read_terms(workdir)), rows=ROWS[size])


def remine_numpy(workdir: Path, size: Size) -> Result:
    """The same without the extension module."""
    from jobs.corpora.wit import row_index

    row_index.SCAN = None
    return remine(workdir, size)


def scanned(path: Path, matcher: "TitleMatcher", *, rows: int) -> Result:
    """Return what `scan_file` finds in a clean file of `rows` rows.

    Raises:
        ValueError: a reject, a row that took the slow way, or rows that do not balance.
    """
    from jobs.corpora.corpus import TitleSearch
    from jobs.corpora.wit.reader import scan_file
    from jobs.store.counts import Counts
    from jobs.store.writer import Reject
    from jobs.tables import WIT_COLUMNS

    def refuse(reject: Reject) -> None:
        raise ValueError(f"a reject in a clean file: {reject}")

    counts = Counts()
    hits = scan_file(str(path), TitleSearch("en", matcher, counts, refuse))
    results = [tuple(h.fields[name] for name in WIT_COLUMNS) for h in hits]
    if counts.tallies or counts.rows_in != rows or counts.filtered.total() + len(results) != rows:
        raise ValueError(f"{rows} rows do not balance: {counts}")
    return result_of(results)


def read_terms(workdir: Path) -> list[str]:
    """Return the folded terms."""
    with (workdir / TERM_FILE).open(encoding="utf-8", newline="") as file:
        return sorted({row["terms"].strip().lower() for row in csv.DictReader(file)})


def result_of(rows: Iterable[tuple[str | None, ...]]) -> Result:
    """sha256 over the sorted rows, nothing and empty text counting the same."""
    sorted_rows = sorted(tuple(cell or "" for cell in row) for row in rows)
    digest = hashlib.sha256("\x1e".join("\x1f".join(row) for row in sorted_rows).encode())
    return Result(rows=len(sorted_rows), digest=digest.hexdigest())


BENCHMARK = Benchmark(
    name="mine",
    about=__doc__,
    bound="decompression (`isal`), then the start of Python",
    prepare=prepare,
    contenders=(
        Contender(name="isal", function=f"{__name__}:isal", compared=False, about="decompression only"),
        Contender(name="remine", function=f"{__name__}:remine", about="jobs.corpora.wit.reader"),
        Contender(name="remine_numpy", function=f"{__name__}:remine_numpy", about="the same without a C compiler"),
        Contender(name="csv_dictreader", function=f"{__name__}:csv_dictreader", about="gzip, csv, Aho-Corasick"),
        Contender(name="polars", function=f"{__name__}:polars", about="scan_csv, contains_any"),
        Contender(name="duckdb", function=f"{__name__}:duckdb", about="read_csv, exists(contains)"),
        Contender(name="ray_data", function=f"{__name__}:ray_data", about="read_csv, map_batches, Aho-Corasick"),
        Contender(name="pandas", function=f"{__name__}:pandas", about="read_csv in chunks, Aho-Corasick"),
    ),
    reference="isal",
    input_version=2,
    targets=(
        Target(metric="cpu_s", contender="remine", against="isal", at_most=1.15),
        Target(metric="cpu_s", contender="csv_dictreader", against="remine", at_least=6),
        Target(metric="cpu_s", contender="polars", against="remine", at_least=5.5),
        Target(metric="cpu_s", contender="duckdb", against="remine", at_least=5.5),
        Target(metric="cpu_s", contender="ray_data", against="remine", at_least=5.5),
        Target(metric="cpu_s", contender="pandas", against="remine", at_least=5.5),
        Target(metric="peak_mb", contender="remine", at_most=250),
    ),
    packages=("ahocorasick_rs", "duckdb", "isal", "numpy", "pandas", "polars", "pyarrow", "ray"),
)

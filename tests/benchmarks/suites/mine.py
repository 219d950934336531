"""Find English rows whose lower-cased title contains a search term, in one WIT-like TSV.gz."""

import csv
import gzip
import hashlib
from collections.abc import Iterable
from pathlib import Path

from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

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
    from isal import igzip

    buffer = bytearray(READ_BYTES)
    with igzip.open(workdir / CORPUS, "rb") as file:
        while file.readinto(buffer):
            pass
    return Result(rows=0, digest="")


def csv_dictreader(workdir: Path, size: Size) -> Result:
    """The standard library's reader, with an Aho-Corasick automaton for the titles."""
    import ahocorasick_rs

    csv.field_size_limit(FIELD_LIMIT)
    automaton = ahocorasick_rs.AhoCorasick(_terms(workdir))
    found = []
    with gzip.open(workdir / CORPUS, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["language"] == "en" and automaton.find_matches_as_indexes(row["page_title"].lower()):
                found.append((row["page_url"], row["image_url"], row["page_title"]))
    return _result(found)


def polars(workdir: Path, size: Size) -> Result:
    """A streaming scan with `contains_any`; lower-cased by Polars, whose ASCII-only matching loses capitals."""
    try:
        import polars as pl
    except ModuleNotFoundError as error:
        raise SkippedError("polars is not installed: pip install remine[bench]") from error
    scan = pl.scan_csv(workdir / CORPUS, separator="\t", quote_char='"', infer_schema=False)
    hit = pl.col("page_title").str.to_lowercase().str.contains_any(_terms(workdir))
    matched = scan.filter((pl.col("language") == "en") & hit).select("page_url", "image_url", "page_title")
    return _result(matched.collect(engine="streaming").rows())


def duckdb(workdir: Path, size: Size) -> Result:
    """`read_csv` and one regular expression of all terms, DuckDB's fastest way to look for many."""
    try:
        import duckdb as db
    except ModuleNotFoundError as error:
        raise SkippedError("duckdb is not installed: pip install remine[bench]") from error
    import re

    anything = "|".join(re.escape(term) for term in _terms(workdir))
    # duckdb folds a `regexp_matches` of a constant once; a parameter would be compiled a chunk
    query = f"""
        SELECT page_url, image_url, page_title
        FROM read_csv(?, delim='\t', header=true, all_varchar=true, quote='"', escape='"', max_line_size={FIELD_LIMIT})
        WHERE language = 'en' AND regexp_matches(lower(page_title), '{anything.replace("'", "''")}')
    """
    return _result(db.connect().execute(query, [str(workdir / CORPUS)]).fetchall())


def pandas(workdir: Path, size: Size) -> Result:
    """`read_csv` in chunks of the columns that are needed, with an Aho-Corasick automaton for the titles."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise SkippedError("pandas is not installed: pip install remine[bench]") from error
    import ahocorasick_rs

    automaton = ahocorasick_rs.AhoCorasick(_terms(workdir))
    found: list[tuple[str, ...]] = []
    columns = ["language", "page_url", "image_url", "page_title"]
    chunks = pd.read_csv(
        workdir / CORPUS, sep="\t", usecols=columns, dtype=str, keep_default_na=False, chunksize=PANDAS_ROWS
    )
    for chunk in chunks:
        english = chunk[chunk["language"] == "en"]
        hit = [bool(automaton.find_matches_as_indexes(title.lower())) for title in english["page_title"]]
        found += english.loc[hit, ["page_url", "image_url", "page_title"]].itertuples(index=False, name=None)
    return _result(found)


def remine(workdir: Path, size: Size) -> Result:
    """The project's own reader and matcher, all rows counted, as a worker of `mine` uses them."""
    from actors.titles import TitleMatcher
    from jobs.corpora.wit import scan_file
    from jobs.store.writer import Counts, Reject

    def refuse(reject: Reject) -> None:
        raise ValueError(f"a reject in a clean file: {reject}")

    matcher, counts = TitleMatcher(_terms(workdir)), Counts()
    hits = scan_file(str(workdir / CORPUS), language="en", matcher=matcher, counts=counts, reject=refuse)
    found = [(h.fields["page_url"], h.fields["image_url"], h.fields["page_title"]) for h in hits]
    if counts.tallies or counts.rows_in != ROWS[size] or counts.filtered.total() + len(found) != ROWS[size]:
        raise ValueError(f"{ROWS[size]} rows do not balance: {counts}")
    return _result(found)


def _terms(workdir: Path) -> list[str]:
    with (workdir / TERM_FILE).open(encoding="utf-8", newline="") as file:
        return sorted({row["terms"].strip().lower() for row in csv.DictReader(file)})


def _result(rows: Iterable[tuple[str | None, ...]]) -> Result:
    """sha256 over the sorted (page_url, image_url, page_title)."""
    found = sorted(tuple(cell or "" for cell in row) for row in rows)
    digest = hashlib.sha256("\x1e".join("\x1f".join(row) for row in found).encode())
    return Result(rows=len(found), digest=digest.hexdigest())


BENCHMARK = Benchmark(
    name="mine",
    about=__doc__,
    prepare=prepare,
    contenders=(
        Contender(name="isal", function=f"{__name__}:isal", compared=False, about="decompression only"),
        Contender(name="remine", function=f"{__name__}:remine", about="jobs.corpora.wit"),
        Contender(name="csv_dictreader", function=f"{__name__}:csv_dictreader", about="gzip, csv, Aho-Corasick"),
        Contender(name="polars", function=f"{__name__}:polars", about="scan_csv, contains_any"),
        Contender(name="duckdb", function=f"{__name__}:duckdb", about="read_csv, regexp_matches"),
        Contender(name="pandas", function=f"{__name__}:pandas", about="read_csv in chunks, Aho-Corasick"),
    ),
    reference="isal",
    input_version=2,
    targets=(
        Target(metric="cpu_s", contender="remine", against="isal", at_most=1.35),
        Target(metric="cpu_s", contender="csv_dictreader", against="remine", at_least=6),
        Target(metric="cpu_s", contender="polars", against="remine", at_least=5.5),
        Target(metric="cpu_s", contender="duckdb", against="remine", at_least=5.5),
        Target(metric="cpu_s", contender="pandas", against="remine", at_least=5.5),
        Target(metric="peak_mb", contender="remine", at_most=250),
    ),
    packages=("ahocorasick_rs", "duckdb", "isal", "numpy", "pandas", "polars", "pyarrow"),
)

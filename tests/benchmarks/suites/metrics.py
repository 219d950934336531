"""Report a table of ratings: the agreement of its raters and all other figures, in 8 GB of memory."""

import csv
import hashlib
import resource
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.child import Result, SkippedError, own_peak_bytes
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

ROWS: dict[Size, int] = {"smoke": 96_000, "default": 10_000_000, "full": 100_000_000}
RATERS, QUESTIONS, ANSWERS = 20, 10, 5
GROUP = 500_000  # rows of a row group
TABLE = "ratings"
LIMIT = 8 << 30  # bytes that each process of a report may allocate
BLOCKS, RESAMPLES = 1000, 1000  # of a bootstrap in SQL


def prepare(workdir: Path, size: Size) -> None:
    """Write one file per rater, with an answer near the item's own to every question about every item."""
    import numpy as np
    import pyarrow.parquet as pq

    from jobs.tables import table

    schema = table("ratings").schema()
    items = ROWS[size] // (RATERS * QUESTIONS)
    folder = workdir / TABLE
    folder.mkdir()
    for rater in range(RATERS):
        with pq.ParquetWriter(folder / f"{rater}.parquet", schema, compression="zstd", compression_level=1) as file:
            for first in range(0, items, GROUP // QUESTIONS):
                number = np.repeat(np.arange(first, min(items, first + GROUP // QUESTIONS)), QUESTIONS)
                question = np.tile(np.arange(QUESTIONS), len(number) // QUESTIONS)
                # arithmetic instead of draws: every reader of this file can say what is in it
                own_answers = (number * 7 + question * 3) % ANSWERS
                noise = ((number * 31 + rater * 17 + question * 5) % 11 == 0) * (1 + rater % 2)
                score = 1 + (own_answers + noise) % ANSWERS
                failed = (number * 13 + rater) % 97 == 0
                file.write_table(_rows(schema, number, question, rater, np.where(failed, np.nan, score)))


def _rows(schema, number, question, rater, score):
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    n = len(number)
    ok = pa.array(~np.isnan(score))
    scores = pc.if_else(ok, pa.array(score), None)
    names = {
        "item_id": pa.array([f"{i:032x}" for i in number[::QUESTIONS]]).take(pa.array(np.arange(n) // QUESTIONS)),
        "target": pa.repeat("", n),
        "rubric": pa.repeat("bench", n),
        "question": pa.array([f"q{i}" for i in range(QUESTIONS)]).take(pa.array(question)),
        "rater": pa.repeat(f"model-{rater}@r1", n),
        "condition": pa.repeat("", n),
        "method": pa.repeat("closed", n),
        "order": pa.repeat("", n),
        "sample": pa.repeat(pa.scalar(0, pa.int32()), n),
        "value": pc.cast(pc.cast(scores, pa.int64()), pa.string()),
        "score": scores,
        "status": pc.if_else(ok, "ok", "unparsed"),
        "outside_mass": pa.repeat(0.01, n),
    }
    columns = [names[f.name] if f.name in names else pa.nulls(n, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def remine(workdir: Path, size: Size) -> Result:
    """The job `report`: metrics, plots and page; more than four million ratings are reduced in Ray's tasks."""
    from jobs.report import ReportConfig, execute

    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))  # also of Ray's processes
    with TemporaryDirectory() as out:
        execute(ReportConfig(ratings=[str(workdir / TABLE)], out=out))
        with (Path(out) / "metrics.csv").open(newline="") as file:
            agreement: dict[str, tuple[float | None, int]] = {
                row["question"]: (float(row["value"]), int(row["n"]))
                for row in csv.DictReader(file)
                if row["metric"] == "percent_agreement" and row["value"]
            }
    result = _result(agreement)
    result.apart["peak MB of the driver"] = own_peak_bytes() / 1e6
    return result


def duckdb(workdir: Path, size: Size) -> Result:
    """Percent agreement only, as one SQL query."""
    try:
        import duckdb as db
    except ModuleNotFoundError as error:
        raise SkippedError("duckdb is not installed: pip install remine[bench]") from error
    rows = db.connect().execute(
        f"""
        WITH given AS (
            SELECT question, item_id, score, count(*) AS c
            FROM read_parquet('{workdir / TABLE}/*.parquet') WHERE status = 'ok' GROUP BY ALL
        ), items AS (
            SELECT question, item_id, sum(c * (c - 1)) AS equal, sum(c) * (sum(c) - 1) AS pairs FROM given GROUP BY ALL
        )
        SELECT question, sum(equal) / sum(pairs), count(*) FILTER (pairs > 0) FROM items GROUP BY question
        """
    )
    return _result({question: (float(share), int(n)) for question, share, n in rows.fetchall()})


def duckdb_figures(workdir: Path, size: Size) -> Result:
    """Most of the report's figures in SQL: distributions by rater, tables of each pair of raters (for kappa and alpha),
    means and agreement with their bootstraps over blocks of items."""
    try:
        import duckdb as db
    except ModuleNotFoundError as error:
        raise SkippedError("duckdb is not installed: pip install remine[bench]") from error
    connection = db.connect()
    place = f"read_parquet('{workdir / TABLE}/*.parquet')"
    connection.execute(
        f"""SELECT question, rater, status, value, count(*), avg(score), avg(outside_mass) FROM {place} GROUP BY ALL"""
    ).fetchall()
    connection.execute(  # names as numbers, as the report has them
        f"""
        CREATE TABLE given AS
        SELECT substr(question, 2)::TINYINT AS question, hash(item_id) AS item, score::TINYINT AS score,
            regexp_extract(rater, '[0-9]+')::TINYINT AS rater
        FROM {place} WHERE status = 'ok'
        """
    )
    connection.execute(
        """
        SELECT question, a.rater, b.rater, a.score, b.score, count(*)
        FROM given a JOIN given b USING (question, item) WHERE a.rater < b.rater GROUP BY ALL
        """
    ).fetchall()
    connection.execute(  # of each rater and block of items, for bootstraps
        f"SELECT question, rater, item % {BLOCKS} AS block, sum(score), count(*) FROM given GROUP BY ALL"
    ).fetchall()
    connection.execute(
        f"""
        CREATE TABLE blocks AS
        WITH counted AS (SELECT question, item, score, count(*) AS c FROM given GROUP BY ALL), items AS (
            SELECT question, item, sum(c * (c - 1)) AS equal, sum(c) * (sum(c) - 1) AS pairs FROM counted GROUP BY ALL
        )
        SELECT question, item % {BLOCKS} AS block, sum(equal) AS equal, sum(pairs) AS pairs,
            count(*) FILTER (pairs > 0) AS n
        FROM items GROUP BY ALL
        """
    )
    connection.execute(
        f"""
        WITH drawn AS (SELECT d, (random() * {BLOCKS})::INT % {BLOCKS} AS block
                       FROM range({RESAMPLES}) t(d), range({BLOCKS})),
        weights AS (SELECT d, block, count(*) AS w FROM drawn GROUP BY ALL),
        resampled AS (SELECT question, d, sum(w * equal) / sum(w * pairs) AS share
                      FROM weights JOIN blocks USING (block) GROUP BY ALL)
        SELECT question, quantile_cont(share, [0.025, 0.975]) FROM resampled GROUP BY question
        """
    ).fetchall()
    rows = connection.execute("SELECT question, sum(equal) / sum(pairs), sum(n) FROM blocks GROUP BY question")
    return _result({f"q{question}": (float(share), int(n)) for question, share, n in rows.fetchall()})


def pandas(workdir: Path, size: Size) -> Result:
    """Percent agreement only, by two group-bys on the whole table in memory."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise SkippedError("pandas is not installed: pip install remine[bench]") from error
    if size == "full":
        raise SkippedError("100 million rows of strings do not fit in 24 GB")
    read = pd.read_parquet(workdir / TABLE, columns=["item_id", "question", "score", "status"])
    read = read[read["status"] == "ok"]
    counts = read.groupby(["question", "item_id", "score"]).size().rename("c").reset_index()
    counts["equal"] = counts["c"] * (counts["c"] - 1)
    items = counts.groupby(["question", "item_id"])[["equal", "c"]].sum().reset_index()
    items["pairs"] = items["c"] * (items["c"] - 1)
    sums = items.groupby("question")[["equal", "pairs"]].sum()
    n = items[items["pairs"] > 0].groupby("question").size()
    return _result({q: (float(sums.loc[q, "equal"] / sums.loc[q, "pairs"]), int(n[q])) for q in sums.index})


def _result(result: dict[str, tuple[float | None, int]]) -> Result:
    """sha256 over question, percent agreement to nine digits and n."""
    lines = [f"{question} {value:.9f} {n}" for question, (value, n) in sorted(result.items())]
    return Result(rows=len(lines), digest=hashlib.sha256("\n".join(lines).encode()).hexdigest())


BENCHMARK = Benchmark(
    name="metrics",
    about=__doc__,
    bound="reading columns, and the passes of NumPy over their codes",
    prepare=prepare,
    contenders=(
        Contender(name="remine", function=f"{__name__}:remine", about="3,560 metrics, plots and a page"),
        Contender(
            name="duckdb_figures",
            function=f"{__name__}:duckdb_figures",
            about="distributions, tables of pairs of raters, agreement, bootstraps, SQL",
        ),
        Contender(name="duckdb", function=f"{__name__}:duckdb", about="percent agreement only, SQL"),
        Contender(name="pandas", function=f"{__name__}:pandas", about="percent agreement only, in memory"),
    ),
    reference="remine",
    targets=(
        Target(metric="peak_mb", contender="remine", at_most=8000),
        Target(metric="cpu_s", contender="remine", against="duckdb_figures", at_most=1),
        Target(metric="wall_s", contender="remine", against="duckdb_figures", at_most=1),
    ),
    packages=("duckdb", "numpy", "pandas", "pyarrow"),
)

"""Reduce a table of ratings to the agreement of its raters, in memory that does not grow with the rows."""

import hashlib
from pathlib import Path

from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

ROWS: dict[Size, int] = {"smoke": 96_000, "default": 4_800_000, "full": 50_016_000}
RATERS, QUESTIONS, ANSWERS = 6, 8, 5
GROUP = 500_000  # rows of a row group
TABLE = "ratings"


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
    """The report's way: codes on disk, a question at a time, and every metric the report makes of them."""
    from jobs.analysis import compute
    from jobs.analysis.attributes import Items
    from jobs.analysis.rating_codes import Reduction
    from jobs.analysis.report_tables import ReportTables, summarize_ratings
    from jobs.metrics.rated_question import MetricSettings
    from jobs.runtime.selection.exclusions import ExclusionFilter
    from jobs.store.reading import open_table
    from jobs.tables import CONDITION

    source = open_table(str(workdir / TABLE), "ratings")
    settings, tables = MetricSettings(), ReportTables(ratings=[source])
    with Reduction(by=[CONDITION]) as reduction:
        summary = summarize_ratings(
            tables, settings, reduction, models=[], exclusion_filter=ExclusionFilter(frozenset())
        )
        results = list(
            compute.question_metrics(
                reduction, summary.raters, Items(), settings, orders={}, scale=lambda rubric, question: ((1.0, 5.0), "")
            )
        )
    return _result({f.dims["question"]: (f.value, f.n) for f in results if f.name == "percent_agreement"})


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


def pandas(workdir: Path, size: Size) -> Result:
    """Percent agreement only, by two group-bys on the whole table in memory."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise SkippedError("pandas is not installed: pip install remine[bench]") from error
    if size == "full":
        raise SkippedError("50 million rows of strings do not fit with others in 24 GB")
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
        Contender(name="remine", function=f"{__name__}:remine", about="distributions and 40 metrics a question"),
        Contender(name="duckdb", function=f"{__name__}:duckdb", about="percent agreement only, SQL"),
        Contender(name="pandas", function=f"{__name__}:pandas", about="percent agreement only, in memory"),
    ),
    reference="remine",
    targets=(Target(metric="peak_mb", contender="remine", at_most=2000),),
    packages=("duckdb", "numpy", "pandas", "pyarrow"),
)

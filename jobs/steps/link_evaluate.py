"""Evaluate ranked lists against gold answers: accuracy, recall and reciprocal rank -> table `metrics`.

    remine link evaluate ranked=R/links/lemma_vision gold=gold.csv out=R/metrics/links
    remine link evaluate ranked=R/neighbors gold=gold.csv columns.query=query_id columns.answer=item_id \\
        out=R/metrics/n

`ranked` is a table `links` or `neighbors`. `gold` is a file with one row per query and right answer. The job computes
accuracy and recall at k and the mean reciprocal rank, with bootstrap intervals, over all queries and for each value of
the column `group_by`. Queries of `gold` without a list lower the coverage, or with unlisted=wrong count as wrong.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jobs.analysis.gold_answers import RANKED, GoldAnswers, GoldColumns, ranks_of, read_gold
from jobs.analysis.metrics_output import metrics_table
from jobs.errors import InputError, check_choice
from jobs.metrics import ranking
from jobs.metrics.metric import Metric
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import write_rows
from jobs.runtime.outcomes import Manifest
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.store.reading import TableSource, open_table

WRONG = "wrong"
UNLISTED = ("left_out", WRONG)


@dataclass
class EvaluateConfig:
    """Keys of `link evaluate`."""

    ranked: str = MISSING  # a table of links or neighbors
    gold: str = MISSING  # a CSV, TSV or Parquet file
    out: str = MISSING  # the table of metrics to write
    columns: GoldColumns = field(default_factory=GoldColumns)
    encoding: str | None = None  # rarely: encoding of gold as CSV; null: from its byte-order mark, else UTF-8
    group_by: str | None = None  # a column of gold; also compute metrics for each of its values
    k: list[int] = field(default_factory=lambda: [1, 5, 10, 20])  # cutoffs of accuracy and recall
    unlisted: str = "left_out"  # rarely: queries without a list: left_out, or wrong to count them as incorrect
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.selection.exclusions)


def execute(cfg: EvaluateConfig) -> Manifest:
    """Run the job and return the manifest of the table of metrics; see the module's docstring."""
    if not cfg.k or min(cfg.k) < 1 or len(set(cfg.k)) < len(cfg.k):
        raise InputError("must be one or more different numbers of at least 1", key="k", value=cfg.k)
    check_choice("unlisted", cfg.unlisted, UNLISTED)
    source = open_table(cfg.ranked, *RANKED, key="ranked")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    gold = read_gold(cfg.gold, cfg.columns, cfg.group_by, encoding=cfg.encoding)
    gold = GoldAnswers({q: answers for q, answers in gold.right.items() if not exclusion_filter.hit(q)}, gold.group)
    if not gold.right:
        raise InputError(f"all queries of gold={cfg.gold} are on the list", key="exclusions", value=cfg.exclusions)
    listed = ranks_of(source, gold.right)
    if not listed and (source.rows or cfg.unlisted != WRONG):
        raise InputError(f"none of its {len(gold.right):,} queries has a list in {cfg.ranked}", key="gold")
    ranks = listed if cfg.unlisted != WRONG else {query: listed.get(query, []) for query in gold.right}
    metrics = list(ranking_metrics(ranks, gold, cfg.k, group_by=cfg.group_by))
    lines = [
        f"link evaluate: {len(listed):,} of {len(gold.right):,} queries of {cfg.gold} have a list in {cfg.ranked}",
        *summary.exclusion_lines(excluded, exclusion_filter.matched),
    ]
    if listed and not any(listed.values()):
        lines.append(_line_of_ids(source, cfg.gold, gold, next(iter(listed))))
    identity = {
        "ranked": source.identity,
        "group_by": cfg.group_by,
        "k": list(cfg.k),
        **({"unlisted": WRONG} if cfg.unlisted == WRONG else {}),
    }
    inputs = tuple(footer.object for footer in source.footers)
    manifest = write_rows(cfg, "metrics", metrics_table(metrics), identity, inputs=inputs)
    return Manifest(manifest, [*lines, *_lines(metrics)])


def ranking_metrics(
    ranks: Mapping[str, Sequence[int]], gold: GoldAnswers, cuts: Sequence[int], *, group_by: str | None
) -> Iterator[Metric]:
    """Yield all metrics, over all queries and then for each group.

    Args:
        ranks: query -> ranks of its right answers, for queries that have a list.
        cuts: the values of k for accuracy and recall.
    """
    yield from _metrics(sorted(ranks), gold.right, ranks, cuts)
    for group in sorted(set(gold.group.values())):
        asked = {query: answers for query, answers in gold.right.items() if gold.group[query] == group}
        for metric in _metrics(sorted(asked.keys() & ranks.keys()), asked, ranks, cuts):
            yield metric.at(**{str(group_by): group})


def _metrics(
    ranked: Sequence[str], right: Mapping[str, set[str]], ranks: Mapping[str, Sequence[int]], cuts: Sequence[int]
) -> Iterator[Metric]:
    asked, listed = len(right), [ranks[query] for query in ranked]
    first = [query_ranks[0] if query_ranks else 0 for query_ranks in listed]
    yield ranking.right_answers(list(right.values()))
    yield ranking.mrr(first, asked=asked)
    for k in cuts:
        yield ranking.accuracy_at(first, k, asked=asked)
    counts = [len(right[query]) for query in ranked]
    if any(count > 1 for count in counts):  # else recall equals accuracy
        for k in cuts:
            yield ranking.recall_at(listed, counts, k, asked=asked)


def _lines(metrics: Iterable[Metric]) -> Iterator[str]:
    for metric in metrics:
        if metric.value is not None:
            interval = f" [{metric.low:.4f}, {metric.high:.4f}]" if metric.low is not None else ""
            dims = "".join(f" {name}={value}" for name, value in metric.dims.items())
            yield f"  {metric.name:<12} {metric.value:.4f}{interval}  n={metric.n:,}{dims}"


def _line_of_ids(source: TableSource, uri: str, gold: GoldAnswers, query: str) -> str:
    """Name an id from the lists and one from gold: the usual cause is that the two have different kinds of ids."""
    column = RANKED[source.name][1]
    listed = next(rows[column][0].as_py() for rows in source.batches([column]) if rows.num_rows)
    right = next(iter(gold.right[query]))
    return f"  no list contains a right answer: {column} has ids like {listed!r}, {uri} like {right!r}; use one kind"


JOB = cli.Job("link evaluate", EvaluateConfig, execute)

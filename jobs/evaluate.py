"""How high the right answers stand in ranked lists -> table `metrics`.

    python -m jobs.evaluate ranked=R/links/lemma_vision gold=gold.csv out=R/figures/links
    python -m jobs.evaluate ranked=R/neighbors gold=gold.csv columns.query=query_id columns.answer=item_id \\
        out=R/figures/n

`ranked` is a table of `links` or `neighbors`. `gold` says what is right: a row a query and right answer, several rows
for a query with several. Accuracy and recall at k, mean reciprocal rank, with bootstrap intervals; by a column of
`gold` too, if `by` names one. What is asked is every query of `gold`: one without a list lowers the coverage.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from omegaconf import MISSING

from jobs.corpora import delimited
from jobs.errors import InputError
from jobs.metrics import ranking
from jobs.metrics.metric import Metric, metrics_table
from jobs.runtime import cli, exclusions, summary
from jobs.runtime.config import plain
from jobs.runtime.console import say
from jobs.store.reading import TableSource, open_table
from jobs.store.single_unit import write_small

RANKED = {"links": ("image_id", "node_id"), "neighbors": ("query_id", "item_id")}


@dataclass
class GoldColumns:
    """The columns of `gold`."""

    query: str = "image_id"  # what was searched for
    answer: str = "node_id"  # what is right for it


@dataclass
class EvaluateConfig:
    """Keys of `evaluate`."""

    ranked: str = MISSING  # a table of links, or of neighbors
    gold: str = MISSING  # a .csv or .tsv file
    out: str = MISSING  # the table of metrics to be written
    columns: GoldColumns = field(default_factory=GoldColumns)
    by: str | None = None  # a column of gold: the figures of each of its values, too
    at: list[int] = field(default_factory=lambda: [1, 5, 10, 20])  # k of accuracy and recall
    encoding: str | None = None  # of gold; null: by its byte-order mark, else UTF-8
    seed: int = 0  # of the bootstrap
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.exclusions)


class Gold(NamedTuple):
    """What is right for each query, and the group it is in."""

    right: dict[str, set[str]]
    group: dict[str, str]


def execute(cfg: EvaluateConfig) -> dict[str, Any]:
    """Run the job; see the module's docstring. Returns the manifest of the table of metrics."""
    if not cfg.at or min(cfg.at) < 1:
        raise InputError(f"at={cfg.at}: one or more numbers, at least 1")
    if len(set(cfg.at)) < len(cfg.at):
        raise InputError(f"at={cfg.at}: a number stands twice")
    if cfg.seed < 0:
        raise InputError(f"seed={cfg.seed}: at least 0")
    source = open_table(cfg.ranked, *RANKED)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    barred = exclusions.Barred(excluded.marks)
    gold = read_gold(cfg.gold, cfg.columns, cfg.by, cfg.encoding)
    gold = Gold({query: of for query, of in gold.right.items() if not barred.hit(query)}, gold.group)
    found = right_ranks(source, gold.right)
    if not found:
        raise InputError(f"{cfg.gold}: none of its {len(gold.right):,} queries has a list in {cfg.ranked}")
    made = list(ranking_metrics(found, gold, cfg.at, by=cfg.by, seed=cfg.seed))
    say(f"evaluate: {len(found):,} of {len(gold.right):,} queries of {cfg.gold} have a list in {cfg.ranked}")
    summary.show_exclusions(excluded, barred.matched)
    if not any(found.values()):
        listed = next(rows[0][0].as_py() for rows in source.batches([RANKED[source.name][1]]) if rows.num_rows)
        right = next(iter(gold.right[next(iter(found))]))
        say(f"  no right answer stands in any list: the lists name {listed!r}, {cfg.gold} {right!r}; is that alike?")
    for figure in made:
        if figure.value is not None:
            interval = f" [{figure.low:.4f}, {figure.high:.4f}]" if figure.low is not None else ""
            shown = "".join(f" {name}={value}" for name, value in figure.dims.items())
            say(f"  {figure.metric:<12} {figure.value:.4f}{interval}  n={figure.n:,}{shown}")
    return write_small(
        cfg.out,
        metrics_table(made),
        table="metrics",
        identity={"ranked": source.identity, "by": cfg.by, "at": list(cfg.at), "seed": cfg.seed},
        config=plain(cfg),
        inputs=tuple(footer.object for footer in source.footers),
    )


def read_gold(uri: str, columns: GoldColumns, by: str | None, encoding: str | None = None) -> Gold:
    """What is right.

    Raises:
        InputError: no such file or column, an empty file, a row without query or answer, or a query in two groups.
    """
    dialect = delimited.read_dialect(uri, encoding=encoding)
    gold = Gold(defaultdict(set), {})
    wanted = [columns.query, columns.answer, *([by] if by else [])]
    for line, row in delimited.records(uri, dialect, wanted):
        query, answer, *groups = (row[name].strip() for name in wanted)
        if not query or not answer:
            raise InputError(f"{uri}: line {line}: column {columns.answer if query else columns.query} is empty")
        gold.right[query].add(answer)
        for group in groups:
            if gold.group.setdefault(query, group) != group:
                raise InputError(f"{uri}: {query} is in two groups of {by}, {gold.group[query]} and {group}")
    if not gold.right:
        raise InputError(f"{uri}: no row in it")
    return gold


def right_ranks(source: TableSource, right: Mapping[str, set[str]]) -> dict[str, list[int]]:
    """The ranks of the right answers of each query that has a list, ascending; none if none of them is in it."""
    query, answer = RANKED[source.name]
    found: dict[str, list[int]] = {}
    for batch in source.batches([query, "rank", answer]):
        for name, rank, value in zip(*(batch[c].to_pylist() for c in (query, "rank", answer)), strict=True):
            if name in right:
                ranks = found.setdefault(name, [])
                if value in right[name]:
                    ranks.append(rank)
    return {name: sorted(ranks) for name, ranks in found.items()}


def ranking_metrics(
    found: Mapping[str, Sequence[int]], gold: Gold, at: Sequence[int], *, by: str | None, seed: int
) -> Iterator[Metric]:
    """All figures, of all queries and then of each group."""
    yield from _of(sorted(found), len(gold.right), found, gold, at=at, seed=seed)
    for group in sorted(set(gold.group.values())):
        inside = sorted(query for query in found if gold.group[query] == group)
        asked = sum(gold.group[query] == group for query in gold.right)
        for figure in _of(inside, asked, found, gold, at=at, seed=seed):
            yield figure.at(**{str(by): group})


def _of(
    queries: Sequence[str],
    asked: int,
    found: Mapping[str, Sequence[int]],
    gold: Gold,
    *,
    at: Sequence[int],
    seed: int,
) -> Iterator[Metric]:
    ranks = [found[query] for query in queries]
    first = np.array([of[0] if of else 0 for of in ranks], np.int64)
    yield ranking.mrr(first, asked=asked, seed=seed)
    for k in at:
        yield ranking.accuracy_at(first, k, asked=asked, seed=seed)
    several = [len(gold.right[query]) for query in queries]
    if any(n > 1 for n in several):  # else recall is accuracy
        for k in at:
            yield ranking.recall_at(ranks, several, k, asked=asked, seed=seed)


JOB = cli.Job("evaluate", EvaluateConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("evaluate"))

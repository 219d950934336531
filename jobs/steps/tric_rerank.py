"""Re-rank the best captions of each TRIC picture by a judge's ratings -> table `metrics` and the challenge's output.

    remine tric rerank split=tric/dev-0 neighbors=R/tric/neighbors captions=R/captions \\
        'ratings=[R/ratings/*]' out=R/reranked

The captions that the judge was asked about (remine tric items, then remine judge rubric=caption_match) are sorted by
the probability of yes; the others follow in the encoder's order. The table OUT/metrics has the mean reciprocal rank,
cut at 100, before and after, for each rater and condition, with bootstrap intervals, and their changes paired by
picture: from the encoder to the judge, and from one condition (such as the wording of the date) to another.
OUT/RATER/CONDITION/out.tsv is the challenge's output of each.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from actors.ids import content_id
from jobs.analysis.metrics_output import metrics_table
from jobs.analysis.tric_metrics import (
    Ranked,
    RaterCondition,
    Reranking,
    best_captions,
    read_judgements,
    rerank,
    reranking_metrics,
    without_excluded,
)
from jobs.corpora.tric import Split, answer_lines, read_split
from jobs.errors import InputError
from jobs.judging.rating_tables import open_ratings
from jobs.metrics.metric import Metric
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import write_rows
from jobs.runtime.outcomes import Manifest
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.reading import open_table

_NAME = re.compile(r"[^\w.@-]+")  # what a folder's name does not contain


@dataclass
class TricRerankConfig:
    """Keys of `tric rerank`."""

    split: str = MISSING  # the folder with in.tsv, captions.tsv and, if public, expected.tsv
    neighbors: str = MISSING  # the encoder's ranking (remine tric rank)
    captions: str = MISSING  # texts (remine tric captions)
    ratings: list[str] = field(default_factory=list)  # tables of ratings, or globs
    out: str = MISSING  # a folder: the table metrics, and out.tsv of each rater and condition
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.selection.exclusions)


def execute(cfg: TricRerankConfig) -> Manifest:
    """Run the job and return the manifest of the metrics; see the module's docstring."""
    if not cfg.ratings:
        why = "name at least one table of ratings (remine judge on the items of remine tric items)"
        raise InputError(why, key="ratings", value="[]")
    split = read_split(cfg.split)
    neighbors, captions = (
        open_table(cfg.neighbors, "neighbors", key="neighbors"),
        open_table(cfg.captions, "texts", key="captions"),
    )
    ratings = open_ratings(cfg.ratings)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    before = without_excluded(split, best_captions(split, neighbors, captions), exclusion_filter)
    judgements = read_judgements(ratings)
    after = {judge: rerank(split, before, judgement) for judge, judgement in judgements.items()}
    if all(len(reranking.kept) == len(before) for reranking in after.values()):
        raise InputError(f"no picture of {cfg.neighbors} has all its ratings", key="ratings", value=cfg.ratings)
    metrics = list(reranking_metrics(split, before, after))
    out = locations.absolute(cfg.out)
    for judge, reranking in after.items():
        locations.replace(answer_uri(out, judge), _answers(split, reranking.ranked).encode())
    sources = (neighbors, captions, *ratings)
    identity = {
        "sources": [source.identity for source in sources],
        "expected": content_id(*(split.expected or ())),
    }
    inputs = tuple(source.whole() for source in sources)
    manifest = write_rows(
        cfg, "metrics", metrics_table(metrics), identity, excluded=excluded, below="metrics", inputs=inputs
    )
    lines = [
        *_lines(before, after, metrics),
        *summary.exclusion_lines(excluded, exclusion_filter.matched),
        f"tric rerank: {len(metrics)} metrics in {manifest['out']}, out.tsv of each rater and condition below {out}",
    ]
    return Manifest(manifest, lines)


def answer_uri(out: str, judge: RaterCondition) -> str:
    """Return the place of the challenge's output for a rater and condition."""
    rater, condition = (_NAME.sub("_", part) for part in judge)
    return locations.join(out, rater, condition or "no_condition", "out.tsv")


def _answers(split: Split, ranked: Ranked) -> str:
    """Return the challenge's file. A picture without a ranking has the captions in the order of the file."""
    indices = list(split.captions)
    return answer_lines([ranked.get(position, indices) for position in range(len(split.pictures))])


def _lines(before: Ranked, after: Mapping[RaterCondition, Reranking], metrics: Sequence[Metric]) -> Iterator[str]:
    for (rater, condition), reranking in after.items():
        done = len(before) - len(reranking.kept)
        yield f"  {rater} {condition}: {done:,} of {len(before):,} pictures re-ranked; the others keep their order"
    for metric in metrics:
        if "decade" not in metric.dims and metric.value is not None:
            interval = f"[{metric.low:.4f}, {metric.high:.4f}]" if metric.low is not None else ""
            dims = " ".join(metric.dims.values())
            yield f"  {metric.name:<15} {metric.value:+.4f} {interval} n={metric.n:,}  {dims}"


JOB = cli.Job("tric rerank", TricRerankConfig, execute)

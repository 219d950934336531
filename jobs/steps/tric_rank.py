"""Rank all captions of a TRIC split for each picture and its newspaper's date -> tables `neighbors` and `metrics`.

    remine tric rank split=tric/dev-0 pictures=R/pictures captions=R/captions \\
        vectors=R/caption_vectors out=R/tric

The job writes the table OUT/neighbors (the best captions of each picture, worded for its date by the template
`answer`), the table OUT/metrics, and OUT/out.tsv, the challenge's output for this template: one line per picture with
the indices of its 100 best captions. The rank follows from the exact inner product of the stored vectors; ties keep the
order of the file. If the answers of the split are public, the job computes the mean reciprocal rank over all captions
and cut at 100, with bootstrap intervals, by template and decade, and its change from one template to another, and
prints them next to the paper's table II.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from actors import schemas
from actors.ids import content_id
from actors.local_models import has_random_weights
from actors.quantities import quantity
from jobs.analysis.metrics_output import metrics_table
from jobs.analysis.tric_metrics import (
    Ranking,
    WordedCaptions,
    columns,
    rank_all,
    ranking_metrics,
    read_captions,
    read_vectors,
)
from jobs.corpora.embeddings import check_same_space, space_of
from jobs.corpora.tric import ANSWERS, PUBLISHED, Split, answer_lines, bucket, read_split
from jobs.errors import InputError
from jobs.metrics.descriptive import describe
from jobs.metrics.metric import Metric
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import write_rows
from jobs.runtime.outcomes import Manifest
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.reading import open_table
from jobs.tables import TABLES


@dataclass
class TricRankConfig:
    """Keys of `tric rank`."""

    split: str = MISSING  # the folder with in.tsv, captions.tsv and, if public, expected.tsv
    pictures: str = MISSING  # embeddings of the split's pictures
    captions: str = MISSING  # texts (remine tric captions)
    vectors: str = MISSING  # embeddings of the captions
    out: str = MISSING  # a folder: the tables neighbors and metrics, and out.tsv
    answer: str = "none"  # the template of the rankings in out.tsv and neighbors
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.selection.exclusions)


def execute(cfg: TricRankConfig) -> Manifest:
    """Run the job and return the manifest of the metrics; see the module's docstring."""
    split = read_split(cfg.split)
    pictures, captions, vectors = (
        open_table(getattr(cfg, key), table, key=key)
        for key, table in (("pictures", "embeddings"), ("captions", "texts"), ("vectors", "embeddings"))
    )
    check_same_space((cfg.pictures, space_of(pictures)), (cfg.vectors, space_of(vectors)))
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    usable = {content_id(name) for name in split.pictures if not exclusion_filter.hit(content_id(name), name)}
    picture_vectors = read_vectors(pictures, usable)
    worded = read_captions(split, captions, vectors)
    if cfg.answer not in (templates := list(dict.fromkeys(template for template, _ in worded))):
        raise InputError(f"must be one of the templates of {cfg.captions}: {', '.join(templates)}", key="answer")
    if not picture_vectors:
        raise InputError(f"has no vector of a picture in {cfg.split}", key="pictures", value=cfg.pictures)
    rankings = rank_all(split, picture_vectors, worded)
    metrics = list(ranking_metrics(split, worded, rankings))
    ranked, count = len(picture_vectors), len(split.captions)
    lines = [f"tric rank: {ranked:,} of {len(split.pictures):,} pictures ranked, {quantity(count, 'caption')} each"]
    if (left := len(split.pictures) - ranked) and split.expected:
        lines.append(
            f"  the metrics leave out the {quantity(left, 'picture')} without a vector; out.tsv has the captions in "
            "the order of the file for them, and the challenge counts these too"
        )
    lines += summary.exclusion_lines(excluded, exclusion_filter.matched)
    lines += _lines(split, metrics, pictures.metadata.get("remine.encoder", ""))
    out = locations.absolute(cfg.out)
    identity = {
        "sources": [source.identity for source in (pictures, captions, vectors)],
        "expected": content_id(*(split.expected or ())),
    }
    inputs = tuple(footer.object for source in (pictures, captions, vectors) for footer in source.footers)
    best = rankings[cfg.answer]
    rows, of_rows = neighbors(split, best, worded, cfg.answer), {**identity, "template": cfg.answer}
    write_rows(cfg, "neighbors", rows, of_rows, excluded=excluded, below="neighbors", inputs=inputs)
    locations.replace(locations.join(out, "out.tsv"), _answers(split, best).encode())
    manifest = write_rows(
        cfg, "metrics", metrics_table(metrics), identity, excluded=excluded, below="metrics", inputs=inputs
    )
    written_to = f"{locations.join(out, 'out.tsv')} ({cfg.answer}), {len(metrics)} metrics in {manifest['out']}"
    return Manifest(manifest, [*lines, f"tric rank: {written_to}"])


def neighbors(
    split: Split, best: Mapping[int, Ranking], captions: Mapping[tuple[str, str], WordedCaptions], template: str
) -> pa.Table:
    """Return rows of table `neighbors`: the first `ANSWERS` captions of each ranked picture, worded by the template."""
    rows = [
        {
            "query_id": content_id(split.pictures[picture]),
            "rank": number,
            "item_id": captions[template, bucket(split.dates[picture], template)].text_ids[position],
            "score": float(score),
        }
        for picture, ranking in best.items()
        for number, (position, score) in enumerate(
            zip(ranking.positions[:ANSWERS], ranking.scores[:ANSWERS], strict=True), 1
        )
    ]
    return schemas.to_table(rows, TABLES["neighbors"].schema())


def _answers(split: Split, best: Mapping[int, Ranking]) -> str:
    """Return the challenge's file. A picture without a vector has the captions in the order of the file."""
    indices = list(split.captions)
    pictures = range(len(split.pictures))
    return answer_lines([[indices[p] for p in best[n].positions] if n in best else indices for n in pictures])


def _lines(split: Split, metrics: Sequence[Metric], encoder: str) -> Iterator[str]:
    note = ", random weights: these numbers are meaningless" if has_random_weights(encoder) else ""
    for column, numbers in columns([split]).items():
        value = {metric.name: metric.value for metric in describe(numbers)}
        deviation = value["standard_deviation"]
        end = f", deviation {deviation:.2f}" if deviation is not None else ""
        yield f"  {column:<11} mean {value['mean']:.2f}, median {value['median']:g}{end}"
    yield f"  model {encoder}{note}"
    for metric in metrics:
        dims = " ".join(metric.dims.values())
        interval = f"[{metric.low:.4f}, {metric.high:.4f}]" if metric.low is not None else ""
        yield f"  {metric.name:<15} {dims:<14} {metric.value or 0:.4f} {interval} n={metric.n:,}"
    yield "  published, table II (MRR on test-A and test-B, which are other splits):"
    for submitter, first, second in PUBLISHED:
        yield f"    {submitter:<40} {first:.4f}  {second:.4f}"


JOB = cli.Job("tric rank", TricRankConfig, execute)

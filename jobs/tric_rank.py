"""Rank all captions of a TRIC split for each picture and its newspaper's date -> tables `neighbors` and `metrics`.

    python -m jobs.tric_rank split=tric/dev-0 pictures=R/pictures captions=R/captions \\
        vectors=R/caption_vectors out=R/tric

Writes OUT/neighbors (the best captions of each picture, template by template, in texts worded for its date),
OUT/metrics and OUT/out.tsv, the challenge's output for the template `answer`: one line per picture, the indices of
its 100 best captions. Captions are ranked by the exact inner product of the vectors as stored; ties keep the order of
the file. Where the split's answers are public: mean reciprocal rank over all captions and cut at 100, with bootstrap
intervals, by template and decade, together with the random order's and the paper's table II.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from omegaconf import MISSING

from actors.ids import content_id
from actors.local_models import is_local
from jobs.corpora.tric import ANSWERS, PUBLISHED, Split, answer_lines, bucket, decade, describe, read_split
from jobs.corpora.vector_space import check_same_space, space_of
from jobs.errors import InputError
from jobs.metrics import ranking
from jobs.metrics.metric import Metric, metrics_table
from jobs.runtime import cli, exclusions, summary
from jobs.runtime.config import plain
from jobs.runtime.console import say
from jobs.store import locations
from jobs.store.reading import TableSource, open_table
from jobs.store.single_unit import write_small
from jobs.tables import TABLES

_RANDOM = (
    "Expected MRR of the captions in random order: the sum of 1 / rank over the captions' number (TRIC, section VII); "
    "n counts captions."
)


@dataclass
class TricRankConfig:
    """Keys of `tric_rank`."""

    split: str = MISSING  # the folder with in.tsv, captions.tsv and, if public, expected.tsv
    pictures: str = MISSING  # embeddings of the split's pictures
    captions: str = MISSING  # texts (jobs.tric_captions)
    vectors: str = MISSING  # their embeddings
    out: str = MISSING  # a folder: the tables neighbors and metrics, and out.tsv
    answer: str = "none"  # the template whose ranking out.tsv has
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.exclusions)


class Worded(NamedTuple):
    """The captions of a split in one wording, in the order of the file."""

    text_ids: list[str]
    indices: list[str]
    vectors: np.ndarray  # [captions, dim] float16, as stored


class Ranking(NamedTuple):
    """Captions of one picture, best first: their places in `Worded`, and scores."""

    places: np.ndarray
    scores: np.ndarray


def execute(cfg: TricRankConfig) -> dict[str, Any]:
    """Run the job; see the module's docstring. Returns the manifest of the metrics."""
    split = read_split(cfg.split)
    pictures, captions, vectors = (
        open_table(uri, table)
        for uri, table in ((cfg.pictures, "embeddings"), (cfg.captions, "texts"), (cfg.vectors, "embeddings"))
    )
    check_same_space((cfg.pictures, space_of(pictures)), (cfg.vectors, space_of(vectors)))
    excluded = exclusions.read_exclusions(cfg.exclusions)
    barred = exclusions.Barred(excluded.marks)
    names = {content_id(name): name for name in split.pictures if not barred.hit(content_id(name), name)}
    seen = _vectors(pictures, set(names))
    worded = _worded(split, captions, vectors)
    if cfg.answer not in (templates := list(dict.fromkeys(template for template, _ in worded))):
        raise InputError(f"answer={cfg.answer}: {cfg.captions} has the templates {', '.join(templates)}")
    if not seen:
        raise InputError(f"{cfg.pictures}: no vector of a picture of {cfg.split} in it")
    rankings = {
        template: {
            place: rank(seen[content_id(name)], worded[template, bucket(split.dates[place], template)])
            for place, name in enumerate(split.pictures)
            if content_id(name) in seen
        }
        for template in templates
    }
    made = list(ranking_metrics(split, worded, rankings))
    say(f"tric_rank: {len(seen):,} of {len(split.pictures):,} pictures ranked, {len(split.captions):,} captions each")
    summary.show_exclusions(excluded, barred.matched)
    _show(split, made, pictures)
    return _write(cfg, split, worded, rankings, made, sources=(pictures, captions, vectors))


def rank(query: np.ndarray, worded: Worded) -> Ranking:
    """All captions by inner product with the picture, highest first; ties in the order of the file.

    Args:
        query: [dim] float16, the picture's vector as stored: of length 1 but for the rounding to float16.
        worded: captions, their vectors likewise.

    Products and sums are float64, which is exact here: a product of two float16 numbers is a multiple of 2**-48, and
    a sum of such numbers needs at most 53 bits as long as it is below 32. Scores are therefore equal only if
    they are equal in exact arithmetic, and the order does not depend on the machine.
    """
    scores = (worded.vectors.astype(np.float64) * query.astype(np.float64)).sum(axis=1)
    order = np.argsort(-scores, kind="stable")
    return Ranking(order, scores[order])


def ranking_metrics(
    split: Split,
    worded: Mapping[tuple[str, str], Worded],
    rankings: Mapping[str, Mapping[int, Ranking]],
) -> Iterator[Metric]:
    """MRR by template, over all pictures and by decade, and the random order's; none without public answers."""
    count = len(split.captions)
    for cut in (None, ANSWERS):
        name = f"random_mrr@{cut}" if cut else "random_mrr"
        yield Metric(
            name=name,
            definition=_RANDOM,
            value=ranking.random_mrr(count, cut=cut),
            n=count,
            coverage=1.0,
            reason="computed, not estimated: no interval",
        )
    if split.expected is None:
        return
    decades = [decade(day) for day in split.dates]
    for template, of in rankings.items():
        places = sorted(of)
        right = np.array(
            [1 + _place(of[p], worded[template, bucket(split.dates[p], template)], split.expected[p]) for p in places],
            np.int64,
        )
        for cut in (None, ANSWERS):
            yield ranking.mrr(right, cut=cut, asked=len(decades)).at(template=template)
            for name, inside in ranking.by_group(right, [decades[p] for p in places]).items():
                asked = decades.count(name)
                yield ranking.mrr(inside, cut=cut, asked=asked).at(template=template, decade=name)


def _place(ranking_of: Ranking, worded: Worded, index: str) -> int:
    where = worded.indices.index(index)
    return int(np.flatnonzero(ranking_of.places == where)[0])


def _vectors(source: TableSource, wanted: set[str]) -> dict[str, np.ndarray]:
    """item_id -> vector [dim] float16 as stored, of the rows that are ok."""
    found = {}
    for batch in source.batches(["item_id", "embedding", "status"]):
        columns = (batch["item_id"].to_pylist(), batch["status"].to_pylist())
        matrix = np.concatenate([c.flatten().to_numpy() for c in batch["embedding"].chunks]) if batch.num_rows else None
        place = 0  # null vectors do not stand in the flattened values
        for item, status in zip(*columns, strict=True):
            if status == "ok" and matrix is not None:
                dim = batch.schema.field("embedding").type.list_size
                if item in wanted:
                    found[item] = matrix[place * dim : (place + 1) * dim].copy()
                place += 1
    return found


def _worded(split: Split, captions: TableSource, vectors: TableSource) -> dict[tuple[str, str], Worded]:
    """(template, date told) -> the captions in that wording.

    Raises:
        InputError: the captions are not those of the split, or one has no vector.
    """
    ids: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for batch in captions.batches(["text_id", "revision", "date", "source"]):
        for row in batch.to_pylist():
            ids[row["revision"], row["date"] or ""][row["source"]] = row["text_id"]
    found = _vectors(vectors, {text for of in ids.values() for text in of.values()})
    made = {}
    for key, of in ids.items():
        if set(of) != set(split.captions):
            raise InputError(f"{captions.uri}: not the captions of this split; run jobs.tric_captions on it")
        texts = [of[index] for index in split.captions]
        if missing := [text for text in texts if text not in found]:
            raise InputError(
                f"{vectors.uri}: {len(missing):,} captions have no vector; run jobs.embed on {captions.uri}"
            )
        made[key] = Worded(texts, list(split.captions), np.stack([found[text] for text in texts]))
    for template in {template for template, _ in made}:
        for day in split.dates:
            if (template, bucket(day, template)) not in made:
                raise InputError(f"{captions.uri}: no captions worded for {bucket(day, template)} ({template})")
    return made


def _show(split: Split, made: Sequence[Metric], pictures: TableSource) -> None:
    encoder = pictures.metadata.get("remine.encoder", "")
    note = ", random weights: these metrics mean nothing" if is_local(encoder) else ""
    for name, centre, middle, spread in describe(split):
        say(f"  {name:<21} mean {centre:.2f}, median {middle:g}" + (f", deviation {spread:.2f}" if spread else ""))
    say(f"  model {encoder}{note}")
    for metric in made:
        shown = " ".join(metric.dims.values())
        interval = f"[{metric.low:.4f}, {metric.high:.4f}]" if metric.low is not None else ""
        say(f"  {metric.name:<15} {shown:<14} {metric.value or 0:.4f} {interval} n={metric.n:,}")
    say("  published, table II (MRR on test-A, test-B; other splits than this one):")
    for submitter, first, second in PUBLISHED:
        say(f"    {submitter:<40} {first:.4f}  {second:.4f}")


def _write(
    cfg: TricRankConfig,
    split: Split,
    worded: Mapping[tuple[str, str], Worded],
    rankings: Mapping[str, Mapping[int, Ranking]],
    made: Sequence[Metric],
    *,
    sources: Sequence[TableSource],
) -> dict[str, Any]:
    out = locations.absolute(cfg.out)
    inputs = tuple(footer.object for source in sources for footer in source.footers)
    about = {"sources": [source.identity for source in sources], "expected": content_id(*(split.expected or ()))}
    answers = rankings[cfg.answer]
    near = pa.Table.from_pylist(
        [
            {
                "query_id": content_id(split.pictures[place]),
                "rank": number,
                "item_id": worded[cfg.answer, bucket(split.dates[place], cfg.answer)].text_ids[where],
                "score": float(score),
            }
            for place, of in answers.items()
            for number, (where, score) in enumerate(zip(of.places[:ANSWERS], of.scores[:ANSWERS], strict=True), 1)
        ],
        schema=TABLES["neighbors"].schema(),
    )
    shared: dict[str, Any] = {"config": plain(cfg), "inputs": inputs}
    identity = {**about, "template": cfg.answer}
    write_small(locations.join(out, "neighbors"), near, table="neighbors", identity=identity, **shared)
    indices = list(split.captions)
    lines = answer_lines(
        [
            [indices[where] for where in answers[place].places] if place in answers else indices
            for place in range(
                len(split.pictures)
            )  # a picture without a vector gets the file's order: every line counts
        ]
    )
    locations.replace(locations.join(out, "out.tsv"), lines.encode())
    manifest = write_small(
        locations.join(out, "metrics"),
        metrics_table(made),
        table="metrics",
        identity=about,
        **shared,
    )
    say(f"tric_rank: {locations.join(out, 'out.tsv')} ({cfg.answer}), {len(made)} metrics in {manifest['out']}")
    return manifest


JOB = cli.Job("tric_rank", TricRankConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("tric_rank"))

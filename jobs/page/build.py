"""Assemble the report's `Page` from tables, rubrics and metrics."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.local_models import is_local
from jobs.analysis.report_tables import RatingSummary, ReportTables
from jobs.judging.kept_rubric import ANY, CONTINUOUS, Rubrics
from jobs.metrics.distributions import Distributions
from jobs.metrics.metric import Metric
from jobs.page.model import FunnelStep, ModelFacts, Page, Picture, PictureRating, TableSummary, Wording
from jobs.page.thumbnails import thumbnail
from jobs.runtime.exclusions import Barred
from jobs.store.reading import TableSource, read_unit

Words = Mapping[tuple[str, str], Wording]
TABLES_NAMED = 3  # in a notice
RULE_LABELS = {  # rule of curate, in order of application -> label on the page
    "is_main_image": "main image of its page",
    "one_image_a_page": "page with one image",
    "picture_exists": "picture still at its source",
    "https": "https address",
    "thumbnail_form": "address that offers other sizes",
    "one_row_an_image": "one record per picture",
    "excluded": "not on the list of exclusions",
    "near_duplicate": "not a near-duplicate of another",
    "draw": "drawn at random",
    "starter_rated": "rated for sensitivity",
    "starter_mean": "sensitive enough on average",
    "starter_region": "with a sub-region",
    "starter_per_region": "drawn from its sub-region",
}


def sample(images: TableSource, size: int, barred: Barred) -> set[str]:
    """Return the `size` smallest image_ids that are not excluded: a sample, because ids are hashes."""
    smallest: list[str] = []
    for batch in images.batches(["image_id", "source_url"]):
        excluded = barred.mask(batch["image_id"]) | barred.mask(batch["source_url"])
        smallest = sorted({*smallest, *batch["image_id"].filter(pa.array(~excluded)).to_pylist()})[:size]
    return set(smallest)


def report_page(
    title: str,
    tables: ReportTables,
    summary: RatingSummary,
    metrics: Sequence[Metric],
    *,
    rubrics: Rubrics,
    models: Sequence[Mapping[str, Any]],
    methods: Mapping[str, set[str]],
    gallery: set[str],
    versions: Mapping[str, str],
) -> Page:
    """Return the page of a report.

    Args:
        models: rows of table `raters` of the models that rated or wrote.
        methods: rater -> the methods of its ratings.
        gallery: image_ids of the pictures to show.
        versions: name -> version, of this software (`code`) and its libraries.
    """
    words, images = wording(rubrics), tables.corpus.get("images")
    return Page(
        title=title,
        lede=_lede(images, summary.distributions),
        provenance=_provenance(tables.sources, versions),
        models=[_model(row) for row in models],
        notices=[*_random_weights(tables.sources), *_without_rubric(rubrics)],
        steps=list(funnel(tables.corpus)),
        tables=[_table(name, source) for name, source in tables.corpus.items()]
        + [_table(f"ratings by {_rater(source)}", source) for source in tables.ratings],
        distributions=summary.shown(methods),
        metrics=metrics,
        wording=words,
        pictures=list(_pictures(tables.corpus, gallery, summary.rows_of, words)) if images else [],
        pictures_total=images.rows if images else None,
        raters_total=len({d.rater for d in summary.distributions.result()}),
    )


def wording(rubrics: Rubrics) -> dict[tuple[str, str], Wording]:
    """Return (rubric, question) -> its texts, in the rubrics' order, without templates of prompts."""
    return {
        (rubric.name, question.name): Wording(
            question.name.replace("_", " "),
            "" if question.scale == CONTINUOUS else question.text,
            {answer.value: answer.label for answer in question.answers},
        )
        for rubric in rubrics.by_name.values()
        for question in rubric.questions
        if question.name != ANY
    }


def funnel(corpus: Mapping[str, TableSource]) -> Iterator[FunnelStep]:
    """Yield the steps from the corpus to embeddings, with their counts from the footers."""
    if "matches" in corpus:
        counts = corpus["matches"].counts()
        yield FunnelStep("read from the corpus", counts.rows_in, "records")
        if "language" in counts.filtered:
            yield FunnelStep("in the requested language", counts.rows_in - counts.filtered["language"], "records")
        yield FunnelStep("title contains a search term", counts.rows_out, "records")
    if "records" in corpus:
        counts = corpus["records"].counts()
        left = counts.rows_in
        applied = {step.rsplit("/", 1)[-1] for step in counts.tallies.get("steps", {})}
        for rule, label in RULE_LABELS.items():
            if rule in applied:
                left -= counts.filtered[rule]
                yield FunnelStep(label, left, "records")
    for name, label in (("images", "picture found and readable"), ("embeddings", "embedded")):
        if name in corpus:
            yield FunnelStep(label, corpus[name].counts().status["ok"], "pictures")


def _lede(images: TableSource | None, distributions: Distributions) -> str:
    parts = [f"{images.rows:,} pictures"] if images else []
    if results := distributions.result():
        raters = len({d.rater for d in results})
        parts.append(f"{sum(d.asked for d in results):,} ratings by {raters:,} rater{'s' * (raters != 1)}")
    return f"{' and '.join(parts)}." if parts else ""


def _provenance(sources: Sequence[TableSource], versions: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        ("time", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())),
        *((source.name, f"{source.uri} (identity {source.identity})") for source in sources),
        ("code", versions["code"]),
        *((name, version) for name, version in sorted(versions.items()) if name != "code"),
    ]


def _rater(source: TableSource) -> str:
    return source.metadata.get("remine.rater", source.uri.rsplit("/", 1)[-1])


def _table(name: str, source: TableSource) -> TableSummary:
    return TableSummary(name, source.rows, len(source.footers), dict(source.counts().status))


def _model(row: Mapping[str, Any]) -> ModelFacts:
    facts = {name: row[name] or "" for name in ("kind", "model", "revision", "dtype", "engine", "licence")}
    return ModelFacts(row["rater"], **facts)


def _random_weights(sources: Sequence[TableSource]) -> list[str]:
    models = {source.metadata.get(f"remine.{key}", "") for source in sources for key in ("rater", "encoder")}
    return [
        f"{model} has random weights: its answers are meaningless and serve only as a smoke test."
        for model in sorted(models)
        if is_local(model)
    ]


def _without_rubric(rubrics: Rubrics) -> Iterator[str]:
    if rubrics.without:
        tables = ", ".join(rubrics.without[:TABLES_NAMED])
        more = f" and {len(rubrics.without) - TABLES_NAMED:,} more" if len(rubrics.without) > TABLES_NAMED else ""
        keep = "keep no rubric" if len(rubrics.without) > 1 else "keeps no rubric"
        yield (
            f"{tables}{more} {keep}: unless another table keeps a rubric of the same name, the scale is unknown, "
            "and metrics that depend on it are undefined."
        )


def _pictures(
    corpus: Mapping[str, TableSource],
    gallery: set[str],
    rows_of: Mapping[str, Sequence[Mapping[str, Any]]],
    words: Words,
) -> Iterator[Picture]:
    if not gallery:
        return
    records = corpus["records"].by_unit() if "records" in corpus else {}
    wanted = pa.array(sorted(gallery), pa.string())
    for footer in corpus["images"].footers:
        uri, unit = footer.object.uri, footer.unit
        if not pc.any(pc.is_in(read_unit(uri, columns=["image_id"])["image_id"], wanted)).as_py():
            continue
        images = read_unit(uri)
        parent = records.get(unit.name) or records.get(unit.parent)
        record_of = _records(parent.uri) if parent else {}
        for image in images.filter(pc.is_in(images["image_id"], wanted)).to_pylist():
            yield _picture(image, record_of.get(image["image_id"], {}), rows_of.get(image["image_id"], ()), words)


def _records(uri: str) -> dict[str, dict[str, Any]]:
    columns = ["image_id", "page_title", "page_url", "caption_reference_description", "terms"]
    return {row["image_id"]: row for row in read_unit(uri, columns=columns).to_pylist()}


def _picture(
    image: Mapping[str, Any], record: Mapping[str, Any], ratings: Sequence[Mapping[str, Any]], words: Words
) -> Picture:
    small, error_kind = thumbnail(image["bytes"]) if image["bytes"] is not None else (None, image["error_kind"])
    position = {question: number for number, question in enumerate(words)}  # the order in which the rubric asks
    facts = [("size", f"{image['width']} x {image['height']} {image['format']}")] if image["width"] else []
    facts += [("terms", ", ".join(record["terms"]))] if record.get("terms") else []
    facts += [("licence", image["licence"])] if image["licence"] else []
    ordered = sorted(ratings, key=lambda r: (r["rater"], position.get((r["rubric"], r["question"]), 0), r["target"]))
    return Picture(
        title=record.get("page_title") or (image["source_url"] or "").rsplit("/", 1)[-1],
        caption=record.get("caption_reference_description") or "",
        thumbnail=small,
        status=image["status"],
        error_kind=error_kind,
        facts=facts,
        ratings=[PictureRating(r["rater"], r["question"], _label(r, words), r["status"]) for r in ordered],
        source_url=record.get("page_url") or image["source_url"],
    )


def _label(rating: Mapping[str, Any], words: Words) -> str | None:
    value: str | None = rating["value"]
    question = words.get((rating["rubric"], rating["question"]))
    return question.labels.get(value, value) if question and value is not None else value

"""Reduce ratings to metrics and write one self-contained page -> table `metrics` and `index.html`.

    python -m jobs.report 'ratings=[R/ratings/*,R/people]' images=R/images records=R/records out=R/report

Counts after each step, distributions of the answers by rater and question, agreement among raters, scores of models,
models against people and gold, spans and scene graphs as far as the tables allow (docs/metrics.md), a gallery. The
page needs no network and runs no script; pictures are blurred until the reader asks. Writes OUT/index.html and the
table OUT/metrics, replacing an earlier report in the same place.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.local_models import is_local
from jobs.analysis import compute
from jobs.analysis.attributes import read_items, read_raters
from jobs.analysis.output import refuse_foreign, write_metrics
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.responses import refusal_rates
from jobs.errors import InputError
from jobs.judging import kept_raters
from jobs.judging.kept_rubric import ANY, CONTINUOUS, Rubrics, read_rubrics
from jobs.judging.rating_tables import open_ratings
from jobs.metrics import refusals
from jobs.metrics.distributions import Distribution, Distributions, metrics_of
from jobs.metrics.metric import Metric
from jobs.metrics.suite import MetricSettings
from jobs.page.model import FunnelStep, ModelFacts, Page, Picture, PictureRating, TableSummary, Wording
from jobs.page.render import render
from jobs.page.thumbnails import thumbnail
from jobs.runtime import cli, config, exclusions, summary
from jobs.runtime.console import say
from jobs.runtime.exclusions import Barred
from jobs.store import locations
from jobs.store.reading import TableSource, open_table, read_unit, tables_in

HUMAN = "human"  # the method of people's ratings
EVERYBODY, FEW = "people, all together", 8  # of more people the page shows one distribution
TABLES_NAMED = 3  # in a notice
RULE_LABELS = {  # rules of curate, in its order, as a reader knows them
    "is_main_image": "main image of its page",
    "one_image_a_page": "page with one image",
    "picture_exists": "picture not gone from its source",
    "https": "https address",
    "thumbnail_form": "address that can be asked for in another size",
    "one_row_an_image": "one record an image",
    "excluded": "not on the list of exclusions",
    "near_duplicate": "no near-duplicate of another",
    "size": "drawn to reach the size",
    "starter_rated": "rated for sensitivity",
    "starter_mean": "sensitive enough on average",
    "starter_region": "with a sub-region",
    "starter_per_region": "drawn from its sub-region",
}


@dataclass
class ReportConfig:
    """Keys of `report`; everything but `out` may be left out."""

    out: str = MISSING  # a folder: index.html and the table metrics
    ratings: list[str] = field(default_factory=list)  # tables, or globs of tables
    images: str | None = None  # a table of images: pictures and their fate
    records: str | None = None  # the records that they were fetched for
    matches: str | None = None  # what jobs.mine wrote, for the funnel of counts
    embeddings: str | None = None  # a table of embeddings, for its counts
    raters: list[str] = field(default_factory=list)  # tables, or globs: kinds, families, countries of raters
    items: str | None = None  # attributes to disaggregate by, targets, right values
    responses: str | None = None  # whose model, prompt and length the ratings are about; how often they are refusals
    spans: list[str] = field(default_factory=list)  # tables, or globs of tables
    texts: str | None = None  # of the spans, for tokens
    questions: str | None = None  # scene graphs: questions with their parents, answered in ratings
    questions_rubric: str = "dsg"  # the rubric of those answers
    likert: str | None = None  # rubric/question of people's ratings that scene graphs are correlated with
    metrics: MetricSettings = field(default_factory=MetricSettings)
    title: str = "Report"  # of the page
    gallery: int = 48  # pictures shown: a sample that depends on their ids alone
    exclusions: str | None = None  # file of pictures that must not be used (jobs.runtime.exclusions)


def execute(cfg: ReportConfig) -> dict[str, Any]:
    """Run the job; see the module's docstring. Returns the manifest of the table of metrics."""
    if cfg.gallery < 0:
        raise InputError(f"gallery={cfg.gallery}: at least 0")
    ratings = open_ratings(cfg.ratings)
    named = {"matches": "records", "records": "records", "images": "images", "embeddings": "embeddings"}
    read = {key: open_table(uri, table) for key, table in named.items() if (uri := getattr(cfg, key))}
    beside = _beside(cfg)
    sources = [*read.values(), *ratings, *(source for found in beside.values() for source in found)]
    if not (read or ratings or beside["spans"] or beside.get("responses")):
        raise InputError(
            "report: nothing to report on; give ratings=, responses=, images=, records=, matches= or spans="
        )
    compute.check(cfg.metrics)
    rubrics = read_rubrics(ratings)
    models = kept_raters.read([*ratings, *beside.get("responses", ())])
    words = wording(rubrics)
    refuse_foreign(cfg.out, "index.html")

    excluded = exclusions.read_exclusions(cfg.exclusions)
    barred = exclusions.Barred(excluded.marks)
    chosen = sample(read["images"], cfg.gallery, barred) if "images" in read else set()
    with Reduction(by=cfg.metrics.group_by, keep_ids=cfg.metrics.crowdtruth) as reduction:
        distributions, crowd, of_chosen = reduce(ratings, chosen, barred, reduction)
        metrics = list(
            _metrics(
                cfg,
                reduction,
                distributions=distributions,
                rubrics=rubrics,
                models=models,
                ratings=ratings,
                beside=beside,
                barred=barred,
            )
        )
    told = [metric for found in distributions.result() for metric in metrics_of(found)]
    inputs = [footer.object for source in sources for footer in source.footers]
    identity = {"inputs": [source.identity for source in sources]}
    manifest = write_metrics(cfg.out, [*told, *metrics], inputs=inputs, identity=identity, settings=config.plain(cfg))
    page = Page(
        title=cfg.title,
        lede=_lede(read, distributions),
        provenance=_provenance(sources, manifest),
        models=[_model(row) for row in models],
        notices=[*_notices(sources), *_without_rubric(rubrics)],
        steps=list(_steps(read)),
        tables=[_summary(key, source) for key, source in read.items()]
        + [_summary(f"ratings by {_rater(source)}", source) for source in ratings],
        distributions=shown(distributions, crowd, reduction.methods),
        metrics=metrics,
        wording=words,
        pictures=list(_pictures(read, chosen, of_chosen, words)),
        pictures_total=read["images"].rows if "images" in read else None,
        raters_total=len({of.rater for of in distributions.result()}),
    )
    uri = locations.join(locations.absolute(cfg.out), "index.html")
    locations.replace(uri, render(page).encode())
    say(f"report: {uri}")
    say(f"  {manifest['counts']['rows_out']:,} metrics in {manifest['out']}")
    summary.show_exclusions(excluded, barred.matched)
    return manifest


def sample(images: TableSource, size: int, barred: Barred) -> set[str]:
    """`size` image_ids that are not excluded: the smallest. Ids are hashes, so no order of reading changes them."""
    smallest: list[str] = []
    for batch in images.batches(["image_id", "source_url"]):
        out = barred.mask(batch["image_id"]) | barred.mask(batch["source_url"])
        smallest = sorted({*smallest, *batch["image_id"].filter(pa.array(~out)).to_pylist()})[:size]
    return set(smallest)


def _beside(cfg: ReportConfig) -> dict[str, list[TableSource]]:
    """The tables beside ratings and pictures, by key."""
    several = {"raters": cfg.raters, "spans": cfg.spans}
    one = {key: [uri] for key in ("items", "responses", "texts", "questions") if (uri := getattr(cfg, key))}
    found = {key: [open_table(uri, key) for uri in uris] for key, uris in one.items()}
    for key, patterns in several.items():
        found[key] = [open_table(uri, key) for pattern in patterns for uri in tables_in(pattern)]
    return found


def _metrics(
    cfg: ReportConfig,
    reduction: Reduction,
    *,
    distributions: Distributions,
    rubrics: Rubrics,
    models: Sequence[Mapping[str, Any]],
    ratings: Sequence[TableSource],
    beside: Mapping[str, Sequence[TableSource]],
    barred: Barred,
) -> Iterator[Metric]:
    """Everything but the distributions."""
    raters = read_raters(
        beside["raters"], reduction.methods, gold=cfg.metrics.gold, groups=_groups(cfg, beside), kept=models
    )
    single = {key: next(iter(beside.get(key, ())), None) for key in ("items", "responses", "texts", "questions")}
    items = read_items(single["items"], single["responses"], compute.attributes(cfg.metrics))
    compute.check_attributes(cfg.metrics, items.named)
    orders = {(d.rubric, d.question): [a.answer for a in d.answers if a.listed] for d in distributions.result()}

    def of_a_graph(rubric: str, question: str) -> bool:
        return single["questions"] is not None and rubric == cfg.questions_rubric

    yield from compute.question_metrics(
        reduction, raters, items, cfg.metrics, orders=orders, scale=rubrics.scale, skip=of_a_graph
    )
    if single["responses"]:
        yield from refusals.refusal_metrics(refusal_rates(single["responses"], barred=barred))
    if beside["spans"]:
        yield from compute.span_metrics(beside["spans"], single["texts"], span_kinds(beside, cfg), cfg.metrics.overlap)
    if single["questions"]:
        yield from compute.dsg_metrics(
            ratings, single["questions"], rubric=cfg.questions_rubric, likert=cfg.likert, barred=barred
        )


def _groups(cfg: ReportConfig, beside: Mapping[str, Sequence[TableSource]]) -> list[str]:
    return list(cfg.metrics.groups) if beside["raters"] else []


def span_kinds(beside: Mapping[str, Sequence[TableSource]], cfg: ReportConfig) -> dict[str, str]:
    """rater -> kind of those who marked spans; they need not have rated anything."""
    names = {
        name
        for source in beside["spans"]
        for batch in source.batches(["rater"])
        for name in batch["rater"].unique().to_pylist()
    }
    methods = {name: {"human"} for name in names}
    return read_raters(beside["raters"], methods, gold=cfg.metrics.gold, groups=()).kinds


def reduce(
    ratings: Sequence[TableSource], chosen: set[str], barred: Barred, reduction: Reduction
) -> tuple[Distributions, Distributions, dict[str, list[dict[str, Any]]]]:
    """One pass over all ratings but those of excluded items.

    Returns:
        Their distributions, those of people as one rater, and the rows about `chosen`; `reduction` has taken the codes
        of all.
    """
    distributions, crowd = Distributions(extra=reduction.by), Distributions(extra=reduction.by)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    columns = sorted({*distributions.columns, *reduction.columns, "item_id", "target"})
    wanted = pa.array(sorted(chosen), pa.string())
    for source in ratings:
        for rows_read in source.batches(columns):
            batch = rows_read.filter(pa.array(~barred.mask(rows_read["item_id"])))
            distributions.add(batch)
            reduction.add(batch)
            people = batch.filter(pc.equal(batch["method"], HUMAN))
            place = people.column_names.index("rater")
            crowd.add(people.set_column(place, "rater", pa.array([EVERYBODY] * len(people), pa.string())))
            for row in batch.filter(pc.is_in(batch["item_id"], wanted)).to_pylist():
                rows[row["item_id"]].append(row)
    return distributions, crowd, rows


def shown(distributions: Distributions, crowd: Distributions, methods: Mapping[str, set[str]]) -> list[Distribution]:
    """What the page shows: every rater, but of more than `FEW` people all together. The table `metrics` has each."""
    people = {rater for rater, used in methods.items() if used == {HUMAN}}
    if len(people) <= FEW:
        return distributions.result()
    return [d for d in distributions.result() if d.rater not in people] + crowd.result()


def wording(rubrics: Rubrics) -> dict[tuple[str, str], Wording]:
    """(rubric, question) -> its words, in the rubrics' order; templates of prompts are no words for a page."""
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


def _lede(read: dict[str, TableSource], distributions: Distributions) -> str:
    parts = [f"{read['images'].rows:,} pictures"] if "images" in read else []
    if found := distributions.result():
        raters = len({of.rater for of in found})
        parts.append(f"{sum(of.asked for of in found):,} ratings by {raters:,} rater{'s' * (raters != 1)}")
    return f"{' and '.join(parts)}." if parts else ""


def _rater(source: TableSource) -> str:
    return source.metadata.get("remine.rater", source.uri.rsplit("/", 1)[-1])


def _provenance(sources: Sequence[TableSource], manifest: dict[str, Any]) -> list[tuple[str, str]]:
    versions = manifest["versions"]
    shown = [("written", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))]
    shown += [(source.name, f"{source.uri} (identity {source.identity})") for source in sources]
    shown.append(("code", versions["code"]))
    shown += [(name, version) for name, version in sorted(versions.items()) if name != "code"]
    return shown


def _model(row: Mapping[str, Any]) -> ModelFacts:
    facts = {name: row[name] or "" for name in ("kind", "model", "revision", "dtype", "engine", "licence")}
    return ModelFacts(row["rater"], **facts)


def _notices(sources: Sequence[TableSource]) -> list[str]:
    models = {source.metadata.get(f"remine.{key}", "") for source in sources for key in ("rater", "encoder")}
    return [
        f"{model} has random weights: it shows that a run works, its answers mean nothing."
        for model in sorted(models)
        if is_local(model)
    ]


def _without_rubric(rubrics: Rubrics) -> Iterator[str]:
    if rubrics.without:
        tables = ", ".join(rubrics.without[:TABLES_NAMED])
        more = f" and {len(rubrics.without) - TABLES_NAMED:,} more" if len(rubrics.without) > TABLES_NAMED else ""
        keep = "keep no rubric" if len(rubrics.without) > 1 else "keeps no rubric"
        yield (
            f"{tables}{more} {keep}: unless another table keeps the rubric of that name, its scale is not known, and "
            "what rests on the scale is undefined."
        )


def _steps(read: dict[str, TableSource]) -> Iterator[FunnelStep]:
    """The funnel: what went in and what each rule left, from the footers' counts."""
    if "matches" in read:
        counts = read["matches"].counts()
        yield FunnelStep("read from the corpus", counts.rows_in, "records")
        if "language" in counts.filtered:
            yield FunnelStep("in the language asked for", counts.rows_in - counts.filtered["language"], "records")
        yield FunnelStep("title contains a search term", counts.rows_out, "records")
    if "records" in read:
        counts = read["records"].counts()
        left = counts.rows_in
        applied = {step.rsplit("/", 1)[-1] for step in counts.tallies.get("steps", {})}
        for rule, label in RULE_LABELS.items():
            if rule not in applied:
                continue
            left -= counts.filtered[rule]
            yield FunnelStep(label, left, "records")
    for key, label in (("images", "picture found and readable"), ("embeddings", "embedded")):
        if key in read:
            yield FunnelStep(label, read[key].counts().status["ok"], "pictures")


def _summary(name: str, source: TableSource) -> TableSummary:
    return TableSummary(name, source.rows, len(source.footers), dict(source.counts().status))


def _pictures(
    read: dict[str, TableSource],
    chosen: set[str],
    rows: dict[str, list[dict[str, Any]]],
    words: dict[tuple[str, str], Wording],
) -> Iterator[Picture]:
    if not chosen:
        return
    records = read["records"].by_unit() if "records" in read else {}
    wanted = pa.array(sorted(chosen), pa.string())
    for footer in read["images"].footers:
        uri, unit = footer.object.uri, footer.unit
        ids = read_unit(uri, columns=["image_id"])["image_id"]
        if not pc.any(pc.is_in(ids, wanted)).as_py():
            continue
        images = read_unit(uri)
        parent = records.get(unit.name) or records.get(unit.parent)
        about = _about(parent.uri) if parent else {}
        for image in images.filter(pc.is_in(images["image_id"], wanted)).to_pylist():
            yield _picture(image, about.get(image["image_id"], {}), rows.get(image["image_id"], []), words)


def _about(uri: str) -> dict[str, dict[str, Any]]:
    columns = ["image_id", "page_title", "page_url", "caption_reference_description", "terms"]
    return {row["image_id"]: row for row in read_unit(uri, columns=columns).to_pylist()}


def _picture(
    image: dict[str, Any],
    record: dict[str, Any],
    ratings: list[dict[str, Any]],
    words: dict[tuple[str, str], Wording],
) -> Picture:
    small, kind = thumbnail(image["bytes"]) if image["bytes"] is not None else (None, image["error_kind"])
    place = {question: number for number, question in enumerate(words)}  # the order in which the rubric asks
    facts = [("size", f"{image['width']} x {image['height']} {image['format']}")] if image["width"] else []
    facts += [("terms", ", ".join(record["terms"]))] if record.get("terms") else []
    facts += [("licence", image["licence"])] if image["licence"] else []
    return Picture(
        title=record.get("page_title") or (image["source_url"] or "").rsplit("/", 1)[-1],
        caption=record.get("caption_reference_description") or "",
        thumbnail=small,
        status=image["status"],
        error_kind=kind,
        facts=facts,
        ratings=[
            PictureRating(r["rater"], r["question"], _label(r, words), r["status"])
            for r in sorted(
                ratings, key=lambda r: (r["rater"], place.get((r["rubric"], r["question"]), 0), r["target"])
            )
        ],
        source_url=record.get("page_url") or image["source_url"],
    )


def _label(rating: dict[str, Any], words: dict[tuple[str, str], Wording]) -> str | None:
    known = words.get((rating["rubric"], rating["question"]))
    return known.labels.get(rating["value"], rating["value"]) if known else rating["value"]


JOB = cli.Job("report", ReportConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("report"))

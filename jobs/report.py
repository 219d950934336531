"""Reduce ratings to figures and write one self-contained page -> table `metrics` and `index.html`.

    python -m jobs.report 'ratings=[R/ratings/*,R/people]' images=R/images records=R/records out=R/report

Counts after each step, distributions of the answers by rater and question, agreement among raters, scores of models,
models against people and gold, spans and scene graphs as far as the tables allow (docs/metrics.md), a gallery. The
page needs no network and runs no script; pictures are blurred until the reader asks. Writes OUT/index.html and the
table OUT/metrics, replacing an earlier report in the same place.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.local_models import is_local
from jobs import cli, config, exclusions, figuring
from jobs.cli import say
from jobs.errors import InputError
from jobs.known import read_items, read_raters
from jobs.metrics.distributions import Distribution, Distributions, figures_of
from jobs.metrics.figure import Figure, figures_table
from jobs.metrics.suite import FigureSettings
from jobs.page.model import Page, Picture, PictureRating, Step, TableSummary, Wording
from jobs.page.render import render
from jobs.page.thumbnails import thumbnail
from jobs.reduction import Reduction
from jobs.store import locations
from jobs.store.locations import Object
from jobs.store.reading import TableSource, open_table, read_unit, tables_in
from jobs.store.small import write_small

HUMAN = "human"  # the method of people's ratings
EVERYBODY, FEW = "people, all together", 8  # of more people the page shows one distribution
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
    responses: str | None = None  # whose model, prompt and length the ratings are about
    spans: list[str] = field(default_factory=list)  # tables, or globs of tables
    texts: str | None = None  # of the spans, for tokens
    questions: str | None = None  # scene graphs: questions with their parents, answered in ratings
    questions_rubric: str = "dsg"  # the rubric of those answers
    likert: str | None = None  # rubric/question of people's ratings that scene graphs are correlated with
    figures: FigureSettings = field(default_factory=FigureSettings)
    title: str = "Report"  # of the page
    gallery: int = 48  # pictures shown: a sample that depends on their ids alone
    exclusions: str | None = None  # file of pictures that must not be used (jobs.exclusions)
    rubric_dir: str | None = None  # more rubrics, for the words of questions; conf/rubric is always read


def execute(cfg: ReportConfig) -> dict[str, Any]:
    """Run the job; see the module's docstring. Returns the manifest of the table of metrics."""
    if cfg.gallery < 0:
        raise InputError(f"gallery={cfg.gallery}: at least 0")
    ratings = [open_table(uri, "ratings") for pattern in cfg.ratings for uri in tables_in(pattern)]
    named = {"matches": "records", "records": "records", "images": "images", "embeddings": "embeddings"}
    read = {key: open_table(uri, table) for key, table in named.items() if (uri := getattr(cfg, key))}
    beside = _beside(cfg)
    sources = [*read.values(), *ratings, *(source for found in beside.values() for source in found)]
    if not (read or ratings or beside["spans"]):
        raise InputError("report: nothing to report on; give ratings=, images=, records=, matches= or spans=")
    figuring.check(cfg.figures)
    refuse_foreign(cfg.out, "index.html")

    excluded = exclusions.read_exclusions(cfg.exclusions)
    chosen = sample(read["images"], cfg.gallery, excluded) if "images" in read else set()
    words, scales = wording(cfg.rubric_dir)
    with Reduction(by=cfg.figures.by, keep_ids=cfg.figures.crowdtruth) as reduction:
        distributions, crowd, of_chosen = reduce(ratings, chosen, excluded, reduction)
        figures = list(
            _figures(
                cfg,
                reduction,
                distributions=distributions,
                scales=scales,
                ratings=ratings,
                beside=beside,
                excluded=excluded,
            )
        )
    told = [figure for found in distributions.result() for figure in figures_of(found)]
    inputs = [footer.object for source in sources for footer in source.footers]
    identity = {"inputs": [source.identity for source in sources]}
    manifest = write_metrics(cfg.out, [*told, *figures], inputs=inputs, identity=identity, settings=config.plain(cfg))
    page = Page(
        title=cfg.title,
        lede=_lede(read, distributions),
        provenance=_provenance(sources, manifest),
        notices=_notices(sources),
        steps=list(_steps(read)),
        tables=[_summary(key, source) for key, source in read.items()]
        + [_summary(f"ratings by {_rater(source)}", source) for source in ratings],
        distributions=shown(distributions, crowd, reduction.methods),
        figures=figures,
        wording=words,
        pictures=list(_pictures(read, chosen, of_chosen, words)),
        pictures_total=read["images"].rows if "images" in read else None,
        raters_total=len({of.rater for of in distributions.result()}),
    )
    uri = locations.join(locations.absolute(cfg.out), "index.html")
    locations.replace(uri, render(page).encode())
    say(f"report: {uri}")
    say(f"  {manifest['counts']['rows_out']:,} figures in {manifest['out']}")
    return manifest


def sample(images: TableSource, size: int, excluded: frozenset[str]) -> set[str]:
    """`size` image_ids that are not excluded: the smallest. Ids are hashes, so no order of reading changes them."""
    smallest: list[str] = []
    for batch in images.batches(["image_id"]):
        smallest = sorted({*smallest, *batch["image_id"].to_pylist()} - excluded)[:size]
    return set(smallest)


def _beside(cfg: ReportConfig) -> dict[str, list[TableSource]]:
    """The tables beside ratings and pictures, by key."""
    several = {"raters": cfg.raters, "spans": cfg.spans}
    one = {key: [uri] for key in ("items", "responses", "texts", "questions") if (uri := getattr(cfg, key))}
    found = {key: [open_table(uri, key) for uri in uris] for key, uris in one.items()}
    for key, patterns in several.items():
        found[key] = [open_table(uri, key) for pattern in patterns for uri in tables_in(pattern)]
    return found


def _figures(
    cfg: ReportConfig,
    reduction: Reduction,
    *,
    distributions: Distributions,
    scales: Mapping[tuple[str, str], tuple[float, float]],
    ratings: Sequence[TableSource],
    beside: Mapping[str, Sequence[TableSource]],
    excluded: frozenset[str],
) -> Iterator[Figure]:
    """Everything but the distributions."""
    raters = read_raters(beside["raters"], reduction.methods, gold=cfg.figures.gold, groups=_groups(cfg, beside))
    single = {key: next(iter(beside.get(key, ())), None) for key in ("items", "responses", "texts", "questions")}
    items = read_items(single["items"], single["responses"], figuring.attributes(cfg.figures))
    figuring.check_attributes(cfg.figures, items.named)
    orders = {(d.rubric, d.question): [a.answer for a in d.answers if a.listed] for d in distributions.result()}

    def of_a_graph(rubric: str, question: str) -> bool:
        return single["questions"] is not None and rubric == cfg.questions_rubric

    yield from figuring.question_figures(
        reduction, raters, items, cfg.figures, orders=orders, scales=scales, skip=of_a_graph
    )
    if beside["spans"]:
        yield from figuring.span_figures(beside["spans"], single["texts"], span_kinds(beside, cfg), cfg.figures.overlap)
    if single["questions"]:
        yield from figuring.dsg_figures(
            ratings, single["questions"], rubric=cfg.questions_rubric, likert=cfg.likert, barred=excluded
        )


def _groups(cfg: ReportConfig, beside: Mapping[str, Sequence[TableSource]]) -> list[str]:
    return list(cfg.figures.groups) if beside["raters"] else []


def span_kinds(beside: Mapping[str, Sequence[TableSource]], cfg: ReportConfig) -> dict[str, str]:
    """rater -> kind of those who marked spans; they need not have rated anything."""
    names = {
        name
        for source in beside["spans"]
        for batch in source.batches(["rater"])
        for name in batch["rater"].unique().to_pylist()
    }
    methods = {name: {"human"} for name in names}
    return read_raters(beside["raters"], methods, gold=cfg.figures.gold, groups=()).kinds


def reduce(
    ratings: Sequence[TableSource], chosen: set[str], excluded: frozenset[str], reduction: Reduction
) -> tuple[Distributions, Distributions, dict[str, list[dict[str, Any]]]]:
    """One pass over all ratings but those of excluded items.

    Returns:
        Their distributions, those of people as one rater, and the rows about `chosen`; `reduction` has taken the codes
        of all.
    """
    distributions, crowd = Distributions(extra=reduction.by), Distributions(extra=reduction.by)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    columns = sorted({*distributions.columns, *reduction.columns, "item_id", "target"})
    wanted, barred = pa.array(sorted(chosen), pa.string()), pa.array(sorted(excluded), pa.string())
    for source in ratings:
        for rows_read in source.batches(columns):
            batch = rows_read.filter(pc.invert(pc.is_in(rows_read["item_id"], barred)))
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


def wording(
    folder: str | None,
) -> tuple[dict[tuple[str, str], Wording], dict[tuple[str, str], tuple[float, float]]]:
    """The words of all known rubrics' questions, and the lowest and highest score of those with a scale."""
    from omegaconf import OmegaConf

    from actors.vlm.rubric import Rubric

    words, scales = {}, {}
    files = sorted((config.CONF / "rubric").glob("*.yaml"))
    found = [p.read_text("utf-8") for p in files]
    if folder:
        found += [locations.read_bytes(o.uri).decode() for o in locations.find(folder) if o.uri.endswith(".yaml")]
    for text in found:
        data = OmegaConf.to_container(OmegaConf.create(text))
        rubric = Rubric.from_dict(data)  # type: ignore[arg-type]
        for question in rubric.questions:
            labels = {answer.value: answer.label for answer in question.answers}
            words[rubric.name, question.name] = Wording(question.name.replace("_", " "), question.text, labels)
            if scores := [answer.score for answer in question.answers if answer.score is not None]:
                scales[rubric.name, question.name] = min(scores), max(scores)
    return words, scales


def refuse_foreign(out: str, *names: str) -> None:
    """Refuse a folder that has files of these `names` and not our table of metrics: somebody else wrote them."""
    out = locations.absolute(out)
    there = [name for name in names if locations.exists(locations.join(out, name))]
    if there and not locations.exists(locations.join(out, "metrics", "_run", "identity.json")):
        raise InputError(f"{out}: {there[0]} is there, and not of this job; nothing is written over it")


def write_metrics(
    out: str, figures: Iterable[Figure], *, inputs: Sequence[Object], identity: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """Write the table OUT/metrics, replacing an earlier one, and return its manifest and place."""
    return write_small(
        locations.join(locations.absolute(out), "metrics"),
        figures_table(figures),
        table="metrics",
        identity=identity,
        config=settings,
        inputs=tuple(inputs),
    )


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


def _notices(sources: Sequence[TableSource]) -> list[str]:
    models = {source.metadata.get(f"remine.{key}", "") for source in sources for key in ("rater", "encoder")}
    return [
        f"{model} has random weights: it shows that a run works, its answers mean nothing."
        for model in sorted(models)
        if is_local(model)
    ]


def _steps(read: dict[str, TableSource]) -> Iterator[Step]:
    """The funnel: what went in and what each rule left, from the footers' counts."""
    if "matches" in read:
        counts = read["matches"].counts()
        yield Step("read from the corpus", counts.rows_in, "records")
        if "language" in counts.filtered:
            yield Step("in the language asked for", counts.rows_in - counts.filtered["language"], "records")
        yield Step("title contains a search term", counts.rows_out, "records")
    if "records" in read:
        counts = read["records"].counts()
        left = counts.rows_in
        applied = {step.rsplit("/", 1)[-1] for step in counts.tallies.get("steps", {})}
        for rule, label in RULE_LABELS.items():
            if rule not in applied:
                continue
            left -= counts.filtered[rule]
            yield Step(label, left, "records")
    for key, label in (("images", "picture found and readable"), ("embeddings", "embedded")):
        if key in read:
            yield Step(label, read[key].counts().status["ok"], "pictures")


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
    for unit, place in read["images"].by_unit().items():
        ids = read_unit(place.uri, columns=["image_id"])["image_id"]
        if not pc.any(pc.is_in(ids, wanted)).as_py():
            continue
        images = read_unit(place.uri)
        about = _about(records[unit].uri) if unit in records else {}
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

"""Reduce ratings to figures and write one self-contained page -> table `metrics` and `index.html`.

    python -m jobs.report ratings=[R/ratings/*,R/people] images=R/images records=R/records out=R/report

Counts after each step, distributions of the answers by rater and question, a gallery. The page needs no
network and runs no script; pictures are blurred until the reader asks. Writes OUT/index.html and the table
OUT/metrics, replacing an earlier report in the same place.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.ids import content_id
from actors.local_models import is_local
from jobs import cli, config, exclusions
from jobs.cli import say
from jobs.errors import InputError
from jobs.metrics.distributions import Distributions, metrics_table
from jobs.page.model import Page, Picture, PictureRating, Step, TableSummary, Wording
from jobs.page.render import render
from jobs.page.thumbnails import thumbnail
from jobs.store import locations
from jobs.store.reading import TableSource, open_table, read_unit, tables_in
from jobs.store.run import Plan, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter

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

    out: str = MISSING
    ratings: list[str] = field(default_factory=list)  # tables, or globs of tables
    images: str | None = None
    records: str | None = None
    matches: str | None = None
    embeddings: str | None = None
    title: str = "Report"
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
    sources = [*read.values(), *ratings]
    if not sources:
        raise InputError("report: nothing to report on; give ratings=, images=, records= or matches=")

    excluded = exclusions.read_exclusions(cfg.exclusions)
    chosen = sample(read["images"], cfg.gallery, excluded) if "images" in read else set()
    distributions, of_chosen = reduce(ratings, chosen, excluded)
    manifest = _write_metrics(cfg, sources, metrics_table(distributions.result()))
    words = wording(cfg.rubric_dir)
    page = Page(
        title=cfg.title,
        lede=_lede(read, ratings),
        provenance=_provenance(sources, manifest),
        notices=_notices(sources),
        steps=list(_steps(read)),
        tables=[_summary(key, source) for key, source in read.items()]
        + [_summary(f"ratings by {_rater(source)}", source) for source in ratings],
        distributions=distributions.result(),
        wording=words,
        pictures=list(_pictures(read, chosen, of_chosen, words)),
        pictures_total=read["images"].rows if "images" in read else None,
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


def reduce(
    ratings: Sequence[TableSource], chosen: set[str], excluded: frozenset[str]
) -> tuple[Distributions, dict[str, list[dict[str, Any]]]]:
    """One pass over all ratings but those of excluded items: their distributions, and the rows about `chosen`."""
    distributions = Distributions()
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    columns = sorted({*distributions.columns, "item_id", "target"})
    wanted, barred = pa.array(sorted(chosen), pa.string()), pa.array(sorted(excluded), pa.string())
    for source in ratings:
        for rows_read in source.batches(columns):
            batch = rows_read.filter(pc.invert(pc.is_in(rows_read["item_id"], barred)))
            distributions.add(batch)
            for row in batch.filter(pc.is_in(batch["item_id"], wanted)).to_pylist():
                rows[row["item_id"]].append(row)
    return distributions, rows


def wording(folder: str | None) -> dict[tuple[str, str], Wording]:
    """The words of all known rubrics' questions, by (rubric, question)."""
    from omegaconf import OmegaConf

    from actors.vlm.rubric import Rubric

    words = {}
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
    return words


def _write_metrics(cfg: ReportConfig, sources: Sequence[TableSource], rows: pa.Table) -> dict[str, Any]:
    inputs = tuple(footer.object for source in sources for footer in source.footers)
    out = locations.join(locations.absolute(cfg.out), "metrics")
    plan = Plan(
        out=out,
        table="metrics",
        identity={"inputs": [source.identity for source in sources]},
        units=[Unit(content_id(*(o.uri for o in inputs)), inputs, rows=rows.num_rows)],
        config=config.plain(cfg),
        metadata={},
        derived=True,
    )
    run = open_run(plan, resume=False, overwrite=True, retry=[])
    with UnitWriter(run.target, run.todo[0]) as writer:
        writer.counts.rows_in = rows.num_rows
        writer.write(rows)
    return {**run.finish(), "out": out}


def _lede(read: dict[str, TableSource], ratings: Sequence[TableSource]) -> str:
    parts = [f"{read['images'].rows:,} pictures"] if "images" in read else []
    if ratings:
        raters = sorted({_rater(source) for source in ratings})
        parts.append(f"{sum(s.rows for s in ratings):,} ratings by {len(raters)} rater{'s' * (len(raters) != 1)}")
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

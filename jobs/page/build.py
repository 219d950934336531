"""Assemble the report's `Page` from tables, rubrics and metrics."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.local_models import has_random_weights
from actors.quantities import quantity
from actors.status import STATUSES, Status
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.report_metrics import ReportResults, compute_results
from jobs.analysis.report_tables import (
    RatingSummary,
    ReportInputs,
    ReportRatings,
    ReportTables,
    open_inputs,
    summarize_ratings,
)
from jobs.corpora.vectors import FITTED, LEAST_ON_MAP, in_unit_square, matrix_of, principal_axes
from jobs.curation.curation_steps import MATCHED, READ, CurationStep, steps_of
from jobs.curation.record_arrays import HashIndex, unique_codes
from jobs.html.formats import in_words, without_folders, without_shared_folders
from jobs.html.thumbnails import Thumbnail, thumbnail
from jobs.judging.kept_rubric import ANY, CONTINUOUS, Rubrics, full_data, read_rubrics
from jobs.judging.rating_tables import read_raters
from jobs.judging.sent_prompts import PromptTexts
from jobs.metrics.distributions import Distribution, Distributions
from jobs.metrics.rated_question import MetricSettings
from jobs.page.card_links import card_links
from jobs.page.card_orders import answer_index
from jobs.page.estimate_section import estimate_sections, estimate_sentences, estimated_questions, plan_lines
from jobs.page.gallery import Gallery
from jobs.page.page_contents import (
    EmbeddingMap,
    FunnelStep,
    GalleryPicture,
    MapPoint,
    ModelFacts,
    Page,
    PageFigure,
    QuestionEntry,
    TableSummary,
    Wording,
    letters_of,
    places_of,
)
from jobs.page.page_figures import drawn_matrices, funnel_figures, page_figures, region_figures
from jobs.page.picture_cards import GOLD, card_marks, gallery_cards, titled_cards
from jobs.page.summary import MAX_QUESTIONS, summarize
from jobs.runtime.planning import estimates
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store import run_files
from jobs.store.counts import PURGED
from jobs.store.hashing import Hashes, hash_texts, hash_texts_128
from jobs.store.reading import TableSource
from jobs.tables import CONDITION, HUMAN

if TYPE_CHECKING:
    from jobs.papers.paper_tables import PaperPart

MOST_PARTS = 12  # values of an attribute whose subgroups are planned
TABLES_NAMED = 3  # most tables named in a notice, and rubrics in a title
STEP_LABELS = {  # step of curate -> label on the page
    MATCHED: "read by the selection",
    READ: "read by the next selection",
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


def report_page(
    title: str,
    tables: ReportTables,
    summary: RatingSummary,
    results: ReportResults,
    *,
    rubrics: Rubrics,
    models: Sequence[Mapping[str, Any]],
    gallery: Gallery,
    rows_of: Mapping[str, Sequence[Mapping[str, Any]]],
    exclusion_filter: ExclusionFilter,
    versions: Mapping[str, str],
    parts: Sequence["PaperPart"] = (),
    paper_title: str = "",
    paper_pictures: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({}),
) -> Page:
    """Return the page of a report.

    Args:
        title: of the page; empty: the names of the rubrics.
        models: rows of table `raters`, of the models that rated or wrote.
        gallery: the pictures and items to show; rows_of: id -> its rows of `ratings`.
        exclusion_filter: the exclusions.
        versions: name -> version, of this software (`code`) and its libraries.
        paper_title: the paper in whose shape `parts`, its tables and figures, are.
        paper_pictures: name of a figure -> image_id and title of the pictures that it is about.
    """
    distributions = summary.shown(results.methods)
    words, images = wording(rubrics), tables.corpus.get("images")
    unworded = sorted({(d.rubric, d.question) for d in distributions} - words.keys())
    words |= {key: Wording(key[1], scale=scale) for key in unworded if (scale := rubrics.scale(*key)[0])}
    embeddings = tables.corpus.get("embeddings")
    steps = list(funnel(tables.corpus))
    pictures = gallery_cards(
        tables,
        gallery,
        rows_of,
        words,
        extra=summary.distributions.extra,
        exclusion_filter=exclusion_filter,
        prompts=PromptTexts(rubrics, []),
        marks=card_marks(results.spans, gallery.ids) if results.spans else {},
    )
    links, figures, left_out = _linked_figures(results, distributions, pictures, words)
    of_kind = {
        method: {rater for rater, used in results.methods.items() if used == {method}} for method in (HUMAN, GOLD)
    }
    estimated = estimated_questions(results.metrics, words)
    return Page(
        title=title or _title(distributions),
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        lede=_lede(images, summary.distributions),
        summary=summarize(
            distributions,
            results.metrics,
            words,
            people=of_kind[HUMAN],
            gold=of_kind[GOLD],
            estimates=list(estimate_sentences(estimated[:MAX_QUESTIONS])),
            plans=list(plan_lines(estimated[:MAX_QUESTIONS])),
        ),
        provenance=_provenance(tables.sources, versions),
        models=[_model(row) for row in models],
        notices=[*results.notices, *_random_weights(tables.sources), *_without_rubric(rubrics)],
        steps=steps,
        funnel=list(funnel_figures(steps)),
        links=links,
        figures=figures,
        figures_left_out=left_out,
        plots_saved=bool(figures or estimated),
        tables=[_table(name, source) for name, source in tables.corpus.items()]
        + [_table(f"ratings by {_rater(source)}", source) for source in tables.ratings],
        distributions=distributions,
        metrics=results.metrics,
        wording=words,
        pictures=pictures,
        pictures_missing=gallery.missing,
        pictures_tops=_shown_tops(gallery, pictures),
        map=embedding_map(embeddings, pictures, exclusion_filter) if embeddings else None,
        prompts=prompts(rubrics),
        pictures_total=images.rows if images else None,
        sections=list(estimate_sections(estimated, results.metrics, words)),
        paper=parts,
        paper_title=paper_title,
        paper_pictures={
            name: titled_cards(tables, titles, exclusion_filter) for name, titles in paper_pictures.items()
        },
    )


def _linked_figures(
    results: ReportResults,
    distributions: Sequence[Distribution],
    pictures: Sequence[GalleryPicture],
    words: Mapping[tuple[str, str], Wording],
) -> tuple[list[QuestionEntry], list[PageFigure], list[str]]:
    """Return the cards that plots link to, the plots, and the titles of those left out for their size."""
    single = {rater for rater, used in results.methods.items() if used <= {HUMAN, GOLD}}
    with_cards = [card for card in pictures if card.thumbnails]
    matrices = drawn_matrices(results.observations.confusions, words)
    links = card_links(matrices, results.metrics, with_cards, words)
    figures, left_out = page_figures(
        results.metrics, results.observations, words, places_of(links), letters_of(distributions, pictures)
    )
    answered = places_of(answer_index(with_cards, words))
    return links, [*figures, *region_figures(distributions, words, answered, single)], left_out


def _shown_tops(gallery: Gallery, shown: Sequence[GalleryPicture]) -> dict[str, int]:
    """Return the number of an order's top pictures that have a card, by its name; a picture may have several cards."""
    image_ids = {card.image_id for card in shown if card.thumbnails}
    counts = {name: len(image_ids.intersection(ids)) for name, ids in gallery.tops.items()}
    return {name: count for name, count in counts.items() if count}


def more_ratings(
    ratings: Sequence[str], assignments: str | None, items: Sequence[TableSource], exclusion_filter: ExclusionFilter
) -> list[str]:
    """Return what is estimated from people's answers so far, and what more of their ratings would bring.

    Subgroups are those by each attribute of the items that has 2 to `MOST_PARTS` values.

    Args:
        ratings: tables, or globs, of people and judges; assignments: the table that says which items people were given.
            Without either there is nothing to say.
        items: tables of the items, or of the images, which have no attributes.
    """
    if not ratings or assignments is None:
        return []
    of_items = [source for source in items if source.name == "items"]
    named = ReportInputs(ratings=list(ratings), assignments=[assignments], items=[source.uri for source in of_items])
    tables = open_inputs(named)
    rubrics, settings = read_rubrics(tables.ratings), MetricSettings(disaggregate=_few_valued(of_items))
    models = read_raters(tables.ratings)
    with Reduction(by=[CONDITION]) as reduction:
        summary = summarize_ratings(tables, settings, reduction, models=models, exclusion_filter=exclusion_filter)
        opened = ReportRatings(tables, reduction, summary, rubrics, exclusion_filter)
        results = compute_results(opened, settings, added=settings, questions_rubric="dsg", likert=None)
    estimated = estimated_questions(results.metrics, wording(rubrics))
    return [*estimate_sentences(estimated), *plan_lines(estimated)]


def _few_valued(items: Sequence[TableSource]) -> list[str]:
    """Return the attributes of items with 2 to `MOST_PARTS` values."""
    values: dict[str, set[str]] = {}
    for source in items:
        for batch in source.batches(["attributes"]):
            for name, value in (pair for row in batch["attributes"].to_pylist() for pair in row or ()):
                if value and len(of_name := values.setdefault(name, set())) <= MOST_PARTS:
                    of_name.add(value)
    return sorted(name for name, of_name in values.items() if 2 <= len(of_name) <= MOST_PARTS)


def wording(rubrics: Rubrics) -> dict[tuple[str, str], Wording]:
    """Return the texts of each question by (rubric, question), in the rubrics' order, without templates of prompts."""
    return {
        (rubric.name, question.name): Wording(
            in_words(question.name),
            "" if question.scale == CONTINUOUS else question.text,
            {answer.value: answer.label for answer in question.answers},
            rubrics.scale(rubric.name, question.name)[0],
        )
        for rubric in rubrics.by_name.values()
        for question in rubric.questions
        if question.name != ANY
    }


def prompts(rubrics: Rubrics) -> dict[str, str]:
    """Return the parts of each rubric's prompt that models were sent, as kept with the ratings, in their order."""
    parts = {rubric.name: full_data(rubric).get("parts") for rubric in rubrics.by_name.values()}
    return {
        name: "\n\n".join(str(part).strip() for part in of_rubric.values())
        for name, of_rubric in parts.items()
        if isinstance(of_rubric, Mapping) and of_rubric
    }


def funnel(corpus: Mapping[str, TableSource]) -> Iterator[FunnelStep]:
    """Yield the steps from the corpus to embeddings: of records by the footers' counts, of pictures by the rows."""
    left = None
    if "matches" in corpus:
        counts = corpus["matches"].counts()
        yield FunnelStep("read from the corpus", counts.rows_in, "records")
        if "language" in counts.filtered:
            yield FunnelStep("in the requested language", counts.rows_in - counts.filtered["language"], "records")
        left = counts.rows_out + counts.filtered[PURGED]
        yield FunnelStep("title contains a search term", left, "records")
    if "records" in corpus:
        curated = steps_of(corpus["records"].counts().tallies)
        for step in curated:
            if step.name != MATCHED or step.n != left:
                yield FunnelStep(STEP_LABELS[step.name], step.n, "records", _by_method(step, curated[0]))
            left = step.n
    for name in [name for name in ("matches", "records") if name in corpus][-1:]:
        counts = corpus[name].counts()
        if counts.filtered[PURGED]:
            yield FunnelStep("left after a purge", counts.rows_out, "records")
    yield from _steps_of_pictures(corpus)


def _steps_of_pictures(corpus: Mapping[str, TableSource]) -> Iterator[FunnelStep]:
    """Yield the numbers of distinct pictures, of the records if given.

    The tables may have more of them, such as those of an earlier selection, and a picture in several renditions.
    """
    for name, column, label, wanted in (
        ("images", "image_id", "picture found and readable", {}),
        ("embeddings", "item_id", "embedded", {"kind": "image"}),
    ):
        if name in corpus:
            hashes = _hashes(corpus[name], column, {**wanted, "status": Status.OK.value})
            if "records" in corpus:
                of_records = HashIndex(_hashes(corpus["records"], "image_id", {}))
                hashes = hashes[of_records.find_hashes(hashes) >= 0]
            yield FunnelStep(label, len(hashes), "pictures")


def _hashes(source: TableSource, column: str, wanted: Mapping[str, str]) -> np.ndarray:
    """Return uint64 [ids, 2], the sorted hashes of the distinct ids in the rows with the values `wanted`."""
    hashes = [np.empty((0, 2), np.uint64)]
    for batch in source.batches([column, *wanted]):
        for name, value in wanted.items():
            batch = batch.filter(pc.equal(batch[name], value))  # noqa: PLW2901
        hashes.append(hash_texts_128(batch[column]))
    return unique_codes(np.concatenate(hashes))[0]


def _by_method(step: CurationStep, matched: CurationStep) -> str:
    """Return the records of each method: of those that matched after the method's own rules, as in Century's E.2."""
    if step.ends_own_rules and step.by_method:
        parts = [f"{method} {step.of(method):,} of {matched.of(method):,}" for method in step.by_method]
        return f"after the rules for each method alone: {', '.join(parts)}"
    return ", ".join(f"{method} {step.of(method):,}" for method in step.by_method) if len(step.by_method) > 1 else ""


def _title(distributions: Sequence[Distribution]) -> str:
    """Return the names of the rubrics of a report, as its title."""
    names = sorted({d.rubric.replace("_", " ") for d in distributions})
    more = f" and {len(names) - TABLES_NAMED:,} more" if len(names) > TABLES_NAMED else ""
    title = ", ".join(names[:TABLES_NAMED]) + more
    return title[:1].upper() + title[1:] or "Report"


def _lede(images: TableSource | None, distributions: Distributions) -> str:
    parts = []
    if images:
        ok = images.counts().status.get("ok", 0)
        all_ok = ok in (0, images.rows)
        parts = [quantity(images.rows if all_ok else ok, "picture")]
        if not all_ok:
            parts[0] += f" (of {images.rows:,} requested)"
    if results := distributions.result():
        statuses = sum((Counter(d.statuses) for d in results), start=Counter[str]())
        questions = len({(d.rubric, d.question) for d in results})
        raters = quantity(len({d.rater for d in results}), "rater")
        counts = [f"{statuses[status]:,} {in_words(status)}" for status in STATUSES if statuses[status]]
        asked = f"{quantity(statuses.total(), 'rating')} requested: {', '.join(counts)}"
        parts.append(f"{raters}, {quantity(questions, 'question')}, {asked}")
    return f"{', '.join(parts)}." if parts else ""


def _provenance(sources: Sequence[TableSource], versions: Mapping[str, str]) -> list[tuple[str, str]]:
    placed = list(zip(sources, without_shared_folders([source.uri for source in sources]), strict=True))
    return [
        ("time", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())),
        # The identity says how the rows were made, the objects what they are: two files may be read in one way.
        *((s.name, f"{place} (identity {s.identity}, objects {s.whole().etag})") for s, place in placed),
        *((f"last run of {source.name}", text) for source in sources if (text := _spent(source))),
        ("code", versions["code"]),
        *((name, version) for name, version in sorted(versions.items()) if name != "code"),
    ]


def _spent(source: TableSource) -> str:
    """Return the duration of the last run that wrote the table, next to its estimate; empty if they are unknown."""
    manifest = run_files.kept_manifest(source.uri)
    try:
        return estimates.comparison(manifest.get("estimate") or {}, manifest.get("actual") or {})
    except (AttributeError, TypeError, ValueError):  # a damaged manifest must not end a report
        return ""


def _rater(source: TableSource) -> str:
    return source.metadata.get("remine.rater", source.uri.rsplit("/", 1)[-1])


def _table(name: str, source: TableSource) -> TableSummary:
    return TableSummary(name, source.rows, len(source.footers), dict(source.counts().status))


def _model(row: Mapping[str, Any]) -> ModelFacts:
    facts = {name: row[name] or "" for name in ("kind", "model", "revision", "dtype", "engine", "licence")}
    return ModelFacts(row["rater"], **facts | {"model": without_folders(facts["model"])})


def _random_weights(sources: Sequence[TableSource]) -> list[str]:
    models = {source.metadata.get(f"remine.{key}", "") for source in sources for key in ("rater", "encoder")}
    return [
        f"{model} has random weights: its answers are meaningless and serve only as a smoke test."
        for model in sorted(models)
        if has_random_weights(model)
    ]


def _without_rubric(rubrics: Rubrics) -> Iterator[str]:
    if rubrics.without:
        tables = ", ".join(without_shared_folders(rubrics.without[:TABLES_NAMED]))
        more = f" and {len(rubrics.without) - TABLES_NAMED:,} more" if len(rubrics.without) > TABLES_NAMED else ""
        keep = "keep no rubric" if len(rubrics.without) > 1 else "keeps no rubric"
        yield (
            f"{tables}{more} {keep}: unless another table keeps a rubric of the same name, the scale is unknown, "
            "and metrics that depend on it are undefined."
        )


MAP_SIDE = 56  # pixels of a picture on the map

Vectors = NDArray[np.float32]


def embedding_map(
    source: TableSource, cards: Sequence[GalleryPicture], exclusion_filter: ExclusionFilter
) -> EmbeddingMap | None:
    """Return the places of the cards' first pictures by their vectors; None with fewer than three vectors.

    The axes are fitted to at most `FITTED` pictures that are not excluded, those whose ids have the smallest hashes.
    """
    small_of = {card.image_id: card.thumbnails[0] for card in reversed(cards) if card.thumbnails}
    ids, vectors, sample = _map_vectors(source, list(small_of), exclusion_filter)
    if len(ids) < LEAST_ON_MAP or vectors.shape[1] < 2:
        return None
    mean, axes, shares = principal_axes(sample)
    places = in_unit_square((vectors - mean) @ axes.T)
    points = [
        MapPoint(image_id, float(x), float(y), _smaller(small_of[image_id]))
        for image_id, (x, y) in zip(ids, places, strict=True)
    ]
    return EmbeddingMap(points, len(sample), source.metadata.get("remine.encoder", ""), shares)


def _smaller(picture: Thumbnail) -> Thumbnail:
    return thumbnail(picture.data, side=MAP_SIDE)[0] or picture


def _map_vectors(
    source: TableSource, wanted: Sequence[str], exclusion_filter: ExclusionFilter
) -> tuple[list[str], Vectors, Vectors]:
    """Return the ids among `wanted` that have vectors, in order, their vectors, and the vectors of the sample."""
    vector_of: dict[str, Vectors] = {}
    hashes: Hashes = np.zeros(0, np.uint64)
    sample: Vectors = np.zeros((0, 0), np.float32)
    for batch in source.batches(["item_id", "kind", "embedding", "status"]):
        usable = pc.and_(pc.equal(batch["kind"], "image"), pc.equal(batch["status"], Status.OK.value))
        rows = batch.filter(pc.and_(usable, pa.array(~exclusion_filter.mask(batch["item_id"]))))
        for ids, column in zip(rows["item_id"].chunks, rows["embedding"].chunks, strict=True):
            vectors = matrix_of(column).astype(np.float32)
            for row in np.flatnonzero(pc.is_in(ids, pa.array(wanted, pa.string())).to_numpy(zero_copy_only=False)):
                vector_of.setdefault(ids[int(row)].as_py(), vectors[row])
            hashes = np.concatenate([hashes, hash_texts(ids)])
            sample = np.concatenate([sample.reshape(-1, vectors.shape[1]), vectors])
            kept = np.argsort(hashes, kind="stable")[:FITTED]
            hashes, sample = hashes[kept], sample[kept]
    mapped = sorted(vector_of)
    return mapped, np.array([vector_of[name] for name in mapped], np.float32).reshape(len(vector_of), -1), sample

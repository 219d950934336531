"""A page as a run of Century's labels would fill it: 8 questions, 2 raters, 24 pictures; drawn, not downloaded."""

import io
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw

from jobs.html.thumbnails import thumbnail
from jobs.judging.sent_prompts import SentPrompt
from jobs.metrics.answers import RatingTable
from jobs.metrics.distributions import Distribution, Distributions
from jobs.metrics.metric import Metric
from jobs.metrics.observations import Confusion, Observations
from jobs.metrics.rated_question import MetricSettings, QuestionContext, RatedQuestion
from jobs.metrics.suite import question_metrics
from jobs.page.card_links import card_links
from jobs.page.page_contents import (
    EmbeddingMap,
    FunnelStep,
    GalleryPicture,
    MapPoint,
    ModelFacts,
    Page,
    PictureRating,
    TableSummary,
    Wording,
    places_of,
)
from jobs.page.page_figures import funnel_figures, page_figures
from jobs.tables import table

RATERS = ("qwen2.5-vl-7b@cc594898137f", "smolvlm2-2.2b@482adb537c02")
WEIGHTS = {RATERS[0]: (2, 3, 7, 9, 4), RATERS[1]: (8, 7, 5, 2, 1)}
DEGREES = ("Not at all", "Not", "Somewhat", "", "Very")
SCALES = ("sensitive", "controversial", "commemorative")
KINDS = {
    "image_type": ["photograph", "document", "artistic_depiction", "symbol", "chart_or_infographic", "none_of_these"],
    "content_type": ["event", "location", "person", "organisation", "none_of_these"],
    "concept": ["conflict_and_war", "politics", "religion", "discrimination", "culture_and_art", "none_of_these"],
    "sub_region": ["western_europe", "eastern_asia", "western_asia", "northern_america", "sub_saharan_africa", "other"],
    "recognisable": ["yes", "no"],
}
TITLES = {
    "image_type": "Type of image",
    "content_type": "Type of content",
    "concept": "Chief concept",
    "sub_region": "UN sub-region",
    "recognisable": "Recognisable people",
}
TEXTS = {"sensitive": "How sensitive is what this picture shows, to people whom it concerns today?"}
SCHEMA = pa.schema([f for f in table("ratings").schema() if f.name in Distributions().columns])


def wording() -> dict[tuple[str, str], Wording]:
    words = {}
    for question in SCALES:
        labels = {str(i): f"{degree} {question}".strip().capitalize() for i, degree in enumerate(DEGREES, start=1)}
        words["century_labels", question] = Wording(question.capitalize(), TEXTS.get(question, ""), labels)
    for question, answers in KINDS.items():
        labels = {answer: answer.replace("_", " ").capitalize() for answer in answers}
        words["century_labels", question] = Wording(TITLES[question], "", labels)
    return words


def ratings(*, raters: Sequence[str] = RATERS, pictures: int = 24) -> list[dict]:
    draw = random.Random(7)
    rows = []
    for rater in raters:
        for question in [*SCALES, *KINDS]:
            scale = question in SCALES
            answers = list("12345") if scale else KINDS[question]
            weights = WEIGHTS.get(rater, (1, 1, 1, 1, 1)) if scale else [6, 3, 2, 1, 0.4, 0][: len(answers)]
            for _ in range(pictures):
                status = draw.choices(["ok", "refused", "unparsed"], [30, 1, 1])[0]
                value = draw.choices(answers, weights)[0] if status == "ok" else None
                rows.append({
                    "rater": rater, "rubric": "century_labels", "question": question, "status": status,
                    "value": value, "score": float(value) if value and scale else None,
                    "answers": answers, "outside_mass": draw.random() / 10 if value else None,
                })  # fmt: skip
    return rows


def distributions(rows: list[dict]) -> list[Distribution]:
    counted = Distributions()
    counted.add(pa.Table.from_pylist(rows, schema=SCHEMA))
    return counted.result()


def metrics() -> list[Metric]:
    """Return the metrics of three people and a model on one scale, with a part of too few items."""
    draw = np.random.default_rng(3)
    truth = draw.integers(1, 6, (60, 1))
    matrix = np.clip(truth + draw.integers(-1, 2, (60, 4)), 1, 5).astype(float)
    matrix[draw.random((60, 4)) < 0.1] = np.nan
    answers = RatingTable.from_matrix(matrix, raters=["p1", "p2", "p3", RATERS[0]])
    west = np.arange(60) < 8
    context = QuestionContext(
        kinds={"p1": "human", "p2": "human", "p3": "human"},
        picture=np.arange(60),
        target=np.zeros(60, np.int64),
        scale=(1, 5),
        subgroups={"region": {"East": ~west, "West": west}},
    )
    metrics = question_metrics(RatedQuestion(answers, context, MetricSettings(disaggregate=["region"])))
    return [metric.at(rubric="century_labels", question="sensitive") for metric in metrics]


def drawn(seed: int) -> bytes:
    draw = random.Random(seed)
    picture = Image.new("RGB", (480, 320 + 40 * (seed % 5)), tuple(draw.choices(range(256), k=3)))
    for _ in range(12):
        x, y, r = draw.randrange(480), draw.randrange(400), draw.randrange(20, 120)
        ImageDraw.Draw(picture).ellipse((x - r, y - r, x + r, y + r), fill=tuple(draw.choices(range(256), k=3)))
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def pictures(data: Sequence[bytes]) -> list[GalleryPicture]:
    rows, words = ratings(pictures=len(data)), wording()
    shown = []
    for i, encoded in enumerate(data):
        small, error_kind = thumbnail(encoded)
        arguments = [
            PictureRating(
                r["rater"],
                r["question"],
                words["century_labels", r["question"]].labels.get(r["value"]),
                r["status"],
                rubric="century_labels",
                value=r["value"],
                score=r["score"],
            )
            for r in rows[i :: len(data)]
        ]
        shown.append(
            GalleryPicture(
                title=f"Siege of Leningrad, plate {i + 1}",
                caption="Citizens leave their houses after a night of bombardment, December 1942." * (1 + i % 3 // 2),
                thumbnails=[small] if small else [],
                status="error" if error_kind else "ok",
                error_kind=error_kind,
                facts=[("image_id", f"{i:032x}"), ("size", "480 × 320"), ("licence", "CC BY-SA 3.0 de")],
                ratings=arguments,
                source_url=f"https://upload.wikimedia.org/wikipedia/commons/{i}/Example_{i}.jpg",
            )
        )
    return shown


def linked_page() -> Page:
    """Return the page with plots whose cells and rows link to cards, a map of pictures, and prompts on the cards."""
    page_content = page()
    answers = tuple("12345")
    confusion = Confusion(RATERS[0], "people", answers, np.full((5, 5), 2))
    observations = Observations([({"rubric": "century_labels", "question": "sensitive"}, confusion)])
    cards = []
    for number, card in enumerate(card for card in page_content.pictures if card.thumbnails):
        people = [
            PictureRating(name, "sensitive", value, rubric="century_labels", value=value, score=float(value), name=name,
                          method="human")
            for name, value in (("p1", answers[number % 5]), ("p2", answers[-1 - number % 5]))
        ]  # fmt: skip
        ratings = [replace(rating, name=rating.rater, method="closed") for rating in card.ratings]
        prompt = SentPrompt("century_labels", "You see.", "Look at it.", [("sensitive", "How sensitive?")] * 4)
        attributes = {"region": ("East", "West")[number % 2]}
        cards.append(
            replace(
                card, image_id=f"{number:032x}", ratings=[*ratings, *people], attributes=attributes, prompts=[prompt]
            )
        )
    links = card_links(observations.confusions, page_content.metrics, cards, page_content.wording)
    figures, _ = page_figures(page_content.metrics, observations, page_content.wording, places_of(links))
    points = [MapPoint(card.image_id, n / 22, 1 - n / 22, card.thumbnails[0]) for n, card in enumerate(cards)]
    mapped = EmbeddingMap(points, fitted=22, encoder="siglip", shares=(0.4, 0.2))
    prompts = {"century_labels": "Look."}
    return replace(
        page_content, pictures=cards, figures=figures, links=links, map=mapped, prompts=prompts,
        funnel=list(funnel_figures(page_content.steps)),
    )  # fmt: skip


def page(data: Sequence[bytes] | None = None) -> Page:
    return Page(
        title="Labels of sensitive historical pictures by two open judges",
        lede="Pictures of WIT whose article is about a historical event or figure, labelled along three qualities "
        "and five dimensions of diversity.",
        provenance=[
            ("command", "python -m jobs.report ratings=[R/ratings/qwen,R/ratings/smol] images=R/images out=R/report"),
            ("identity", "5f0c1d7a9b3e44c2a8c2f4f6d1e0b7a3"),
            ("versions", "remine 0.1.0 · Python 3.11.7 · pyarrow 26.0.1 · torch 2.9.0"),
            ("made", "2026-11-21 21:40 UTC"),
        ],
        notices=[
            "Judge local:qwen2.5-vl-tiny has random weights: its answers are meaningless.",
            "2 of 24 pictures could not be decoded.",
        ],
        steps=[
            FunnelStep("Records of WIT", 37_800_000, "records"),
            FunnelStep(
                "Title matches a search term", 1_214_530, "records", "8,412 terms from Wikidata and language models"
            ),
            FunnelStep("One picture a page", 402_118, "records"),
            FunnelStep("Curated", 1_500, "records", "at most 3 pictures an entity"),
            FunnelStep("Pictures fetched", 1_488, "pictures"),
            FunnelStep("Pictures labelled", 24, "pictures"),
        ],
        tables=[
            TableSummary("records", 1_500, 3),
            TableSummary("images", 1_500, 12, {"ok": 1_488, "missing": 9, "error": 3}),
        ],
        distributions=distributions(ratings()),
        metrics=metrics(),
        wording=wording(),
        pictures=pictures(data or [*(drawn(i) for i in range(22)), b"", b"\xff\xd8\xff broken"]),
        pictures_total=1_488,
        models=[
            ModelFacts(
                "Qwen/Qwen2.5-VL-7B-Instruct@main",
                "model",
                "Qwen/Qwen2.5-VL-7B-Instruct",
                "main",
                "bfloat16",
                "cascade, transformers 5.23 / torch 2.9.0, cuda",
                "Apache-2.0",
            ),
            ModelFacts("google/gemma-3-12b-it@main", "model", licence="Gemma Terms of Use"),
        ],
    )

"""An invented study as tables: drawn pictures, and ratings by people, judges and a scorer, for `report`.

Names, titles and numbers are invented; the questions are those of `conf/rubric/century_labels.yaml`.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from actors.ids import content_id
from actors.rubrics.rubric import Rubric
from jobs.judging import kept_rubric
from tests.factories import embedding_rows, write_file, write_table
from tests.jobs.page.sample import drawn

PEOPLE = ("p-ada", "p-ben", "p-chi")
JUDGES = {"org/judge-large@main": 0.5, "org/judge-small@main": 1.0, "lab/judge-tiny@main": 1.6}  # rater -> noise
SCORER = "lab/scorer@main"
WRITERS = ("writer-a@1", "writer-b@1")
REGIONS = ("Eastern Asia", "Western Asia", "Northern Europe", "Western Europe", "South America")
SCALES = ("sensitive", "controversial", "commemorative")
CATEGORIES = ("image_type", "content_type", "sub_region")
PLACES = ("Harbour", "Market", "Bridge", "Station", "Observatory", "Lighthouse", "Town hall", "Theatre")
MATCHED = {"language": 52_340, "title": 18_204}  # rule -> records that it removed
CURATED = {"is_main_image": 310, "one_image_a_page": 122, "draw": 408}
RUBRIC = Path(__file__).parents[3] / "conf" / "rubric" / "century_labels.yaml"


def write_study(folder: Path, *, pictures: int = 60) -> list[str]:
    """Write the tables of the study to `folder`; return the keys of `report` that name them."""
    draw = np.random.default_rng(20)
    data = yaml.safe_load(RUBRIC.read_text(encoding="utf-8"))
    rubric = Rubric.from_dict(data)
    images = [_image(number) for number in range(pictures)]
    ids = [image["image_id"] for image in images if image["status"] == "ok"]
    truth = {name: draw.integers(1, 6, len(ids)) for name in SCALES}
    regions = draw.integers(0, len(REGIONS), len(ids))
    rows = []
    for rater, noise in [*((person, 0.7) for person in PEOPLE), *JUDGES.items()]:
        for question in rubric.questions:
            values = [answer.value for answer in question.answers]
            for place, item in enumerate(ids):
                if question.name in SCALES:
                    score = int(np.clip(round(truth[question.name][place] + draw.normal(0, noise)), 1, 5))
                    rows.append(_rating(item, rater, question.name, str(score), values, score=score))
                elif question.name in CATEGORIES:
                    right = REGIONS[regions[place]] if question.name == "sub_region" else values[place % 3]
                    value = right if draw.random() > noise / 3 else values[int(draw.integers(len(values)))]
                    rows.append(_rating(item, rater, question.name, value, values))
    for row in rows[7::61]:
        refused = row["rater"] in JUDGES
        row |= {"value": None, "score": None, "probabilities": None, "status": "refused" if refused else "unparsed",
                "raw": "I would rather not judge this picture." if refused else None}  # fmt: skip
    gold = [_rating(item, "expert", "content_type", _right(rubric, place), None, method="gold")
            for place, item in enumerate(ids)]  # fmt: skip
    items, responses, of_responses = _responses(ids, draw)
    items += [_item(item, item, "image", region=REGIONS[regions[place]]) for place, item in enumerate(ids)]
    kept = kept_rubric.of_rubric(rubric, data)
    tables = {
        "ratings": [
            write_file(folder / "ratings", "ratings", rows, rubric=kept),
            write_file(folder / "gold", "ratings", gold, rubric=kept),
            write_file(folder / "likelihoods", "ratings", _likelihoods(ids, truth["sensitive"], draw), rubric=kept),
            write_file(folder / "of_responses", "ratings", of_responses,
                       rubric=kept_rubric.of_answers("responses", list("12345"), ordinal=True)),
        ],
        "items": [write_file(folder / "items", "items", items)],
        "responses": [write_file(folder / "responses", "responses", responses)],
    }  # fmt: skip
    records = [_record(number, image) for number, image in enumerate(images)]
    matched = [{"record_id": f"m{number}"} for number in range(len(records) + sum(CURATED.values()))]
    return [
        *(f"{key}=[{','.join(places)}]" for key, places in tables.items()),
        f"matches={write_table(folder / 'matches', 'records', matched, filtered=MATCHED)}",
        f"records={write_table(folder / 'records', 'records', records, filtered=CURATED)}",
        f"images={write_table(folder / 'images', 'images', images)}",
        f"embeddings={write_table(folder / 'embeddings', 'embeddings', _vectors(images))}",
        "metrics.disaggregate=[region]",
        "title=An invented study of historical pictures",
    ]


def _image(number: int) -> dict[str, Any]:
    url = f"https://upload.example/{number}.jpg"
    status = "missing" if number % 20 == 3 else "ok"
    return {"image_id": content_id(url), "rendition": "original", "source_url": url, "status": status,
            "bytes": drawn(number) if status == "ok" else None, "format": "PNG", "width": 480, "height": 320,
            "author": f"Author {number % 7}, invented", "licence": "CC BY-SA 4.0"}  # fmt: skip


def _vectors(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of `embeddings`: the colours of each picture in six fields, so that similar pictures are near."""
    shown = [image for image in images if image["bytes"]]
    small = [Image.open(io.BytesIO(image["bytes"])).resize((3, 2)) for image in shown]
    colours = np.array([np.asarray(picture, np.float32).reshape(-1) for picture in small])
    return embedding_rows([image["image_id"] for image in shown], "image", colours - colours.mean(axis=0))


def _record(number: int, image: dict[str, Any]) -> dict[str, Any]:
    title = f"{PLACES[number % len(PLACES)]} of {1870 + number}"
    return {"record_id": content_id("record", image["image_id"]), "image_id": image["image_id"],
            "image_url": image["source_url"], "page_title": title, "terms": ["harbour", "market"],
            "page_url": f"https://en.example/wiki/{title.replace(' ', '_')}",
            "caption_reference_description": f"The {title.lower()} on the day of the fair."}  # fmt: skip


def _rating(item: str, rater: str, question: str, value: str, answers: Any, **columns: Any) -> dict[str, Any]:
    judge = rater in JUDGES
    share = 0.6 if judge else None
    rest = (1 - 0.6) / (len(answers) - 1) if judge else None
    return {"item_id": item, "target": "", "rubric": "century_labels", "question": question, "rater": rater,
            "condition": "", "method": "closed" if judge else "human", "order": "", "sample": 0, "value": value,
            "score": None, "answers": answers, "status": "ok", "outside_mass": 0.02 if judge else None,
            "probabilities": [share if answer == value else rest for answer in answers] if judge else None,
            **columns}  # fmt: skip


def _right(rubric: Rubric, place: int) -> str:
    return next(question for question in rubric.questions if question.name == "content_type").answers[place % 3].value


def _likelihoods(ids: list[str], truth: Any, draw: np.random.Generator) -> list[dict[str, Any]]:
    scores = np.round(-9 + 1.1 * truth + draw.normal(0, 1.2, len(ids)), 3)
    return [_rating(item, SCORER, "sensitive", f"{score:g}", None, method="loglik", score=float(score))
            for item, score in zip(ids, scores.tolist(), strict=True)]  # fmt: skip


def _item(name: str, image_id: str, kind: str, *, response: str | None = None, **attributes: str) -> dict[str, Any]:
    return {"item_id": name, "kind": kind, "image_ids": [image_id], "text_ids": [], "response_id": response,
            "attributes": list(attributes.items())}  # fmt: skip


def _responses(
    ids: list[str], draw: np.random.Generator
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return items, responses and ratings of the responses of two writers, whose score grows with their length."""
    items, responses, ratings = [], [], []
    for image_id in ids:
        for writer in WRITERS:
            name = content_id(image_id, writer)
            score = float(np.clip(round(draw.normal(3, 1.2)), 1, 5))
            length = int(80 + 60 * score + draw.integers(0, 120))
            items.append(_item(name, image_id, "response", response=name))
            responses.append({"response_id": name, "item_id": image_id, "model": writer, "prompt": "describe",
                              "status": "ok", "text": ("The picture shows a fair. " * 40)[:length]})  # fmt: skip
            for rater in (*PEOPLE, *list(JUDGES)[:2]):
                arguments = int(np.clip(round(score + draw.normal(0, 0.6)), 1, 5))
                ratings.append(_rating(name, rater, "helpful", str(arguments), list("12345"), score=arguments)
                               | {"rubric": "responses"})  # fmt: skip
    return items, responses, ratings

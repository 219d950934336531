"""The commands of jobs that a driver does alone, each on a small input, for tests that disturb them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from actors.ids import content_id
from jobs.runtime.command_line.job_names import JOBS
from tests.factories import (
    DIM,
    century_rating,
    embedding_rows,
    picture,
    rating,
    record,
    write_csv,
    write_records,
    write_table,
    write_units,
)

PICTURES = [picture(number) for number in range(12)]
IMAGES = [row["image_id"] for row in PICTURES]
NODES: list[dict[str, Any]] = [
    {"node_id": f"n{n}", "lemmas": [("en", [f"thing {n}"])], "titles": [("en", f"Thing {n}")],
     "article_text_ids": [("en", f"text {n}")]}
    for n in range(6)
]  # fmt: skip
CAPTIONS = {str(n): f"Caption {n}" for n in range(8)}
DAYS = {f"{letter}.png": f"18{90 + place}-07-13" for place, letter in enumerate("abc")}
TITLE = {"category": "conflict", "sub_region": "none", "topic": "war"}
TITLES = "\n".join(json.dumps(TITLE | {"page_title": f"War {n}"}) for n in range(4))
FACTS = {"encoder": "e", "preprocessing": "p"}
SMALL_JOBS = (
    *("prompts", "items", "items from responses", "pairs", "annotate", "copy", "terms from responses"),
    *("items from links", "link names", "link review", "link evaluate", "candidates", "concepts", "calibrate"),
    *("question_scores", "import_ratings", "report of a file", "report", "tric captions", "tric rank", "tric items"),
    *("tric rerank", "tric statistics"),
)


def job_of(name: str) -> str:
    """Return the job of a small job, whose name may also say a kind of input."""
    return name if name in JOBS else name.partition(" ")[0]


def in_units(rows: Sequence[dict[str, Any]]) -> list[Sequence[dict[str, Any]]]:
    """Four units of the rows."""
    return [rows[place::4] for place in range(4)]


def response(item: str, text: str, sample: int = 0) -> dict[str, Any]:
    """Return a row of `responses`."""
    key = {"response_id": f"{item}-{sample}", "item_id": item, "model": "m", "prompt": "p", "condition": ""}
    return {**key, "sample": sample, "seed": sample, "text": text, "finish_reason": "stop", "status": "ok"}


def write_small_jobs(folder: Path) -> dict[str, list[str]]:
    """Write the inputs below `folder`; return each job, which may name a kind of input, and the keys of its command."""
    folder.mkdir(exist_ok=True)
    return {
        "prompts": ["axes.concept=[bread,rice]", "axes.country=[Peru,Chad]"],
        **_of_pictures(folder),
        **_of_links(folder),
        **_of_ratings(folder),
        **_of_tric(folder / "tric"),
    }


def _of_pictures(folder: Path) -> dict[str, list[str]]:
    write_units(folder / "images", "images", in_units(PICTURES))
    write_records(f"{folder}/records", in_units([record(f"title {n}") for n in range(12)]))
    items = [
        {"item_id": f"i{n}", "kind": "image", "image_ids": [image], "attributes": [("prompt", str(n % 3))]}
        for n, image in enumerate(IMAGES)
    ]
    write_units(folder / "items", "items", in_units(items))
    sheet = write_csv(folder / "set.csv", ["picture", "prompt"], [[f"{n}.jpg", f"a thing {n}"] for n in range(12)])
    (folder / "photos").mkdir()
    for number in range(12):
        (folder / "photos" / f"{number}.jpg").write_bytes(b"a picture")
    raters = write_csv(folder / "raters.csv", ["rater"], [["ann"], ["bo"], ["cy"]])
    places = ["columns.pictures=picture", f"pictures.path={folder}/photos", "columns.texts.prompt=prompt"]
    return {
        "items": [f"input={sheet}", *places, "unit_rows=3"],
        "items from responses": [f"responses=[{_write_titles(folder)}]", "unit_rows=2"],
        "pairs": [f"input={folder}/items", "unit_rows=6"],
        "annotate": [f"input={folder}/images", "rubric=century_labels", f"raters={raters}", "per_item=2"],
        "copy": [f"input={folder}/records"],
        "terms from responses": ["source=language_model", f"responses=[{folder}/titles]"],
    }


def _write_titles(folder: Path) -> str:
    return write_units(folder / "titles", "responses", in_units([response(f"t{n}", TITLES) for n in range(8)]))


def _of_links(folder: Path) -> dict[str, list[str]]:
    write_units(folder / "kb" / "nodes", "nodes", in_units(NODES))
    articles = [
        {"text_id": f"text {n}", "role": "article", "language": "en", "source": f"n{n}", "text": f"About thing {n}."}
        for n in range(len(NODES))
    ]
    write_table(folder / "kb" / "articles", "texts", articles)
    links = [
        {
            "image_id": image,
            "method": "m",
            "rank": rank,
            "node_id": f"n{(place + rank) % 6}",
            "lemma": "l",
            "score": 0.5,
        }
        for place, image in enumerate(IMAGES)
        for rank in (1, 2)
    ]
    write_units(folder / "links", "links", in_units(links))
    names = [response(image, f"a thing {place % 6}") for place, image in enumerate(IMAGES)]
    write_units(folder / "names", "responses", in_units(names))
    gold = write_csv(folder / "gold.csv", ["image_id", "node_id"], [[image, "n1"] for image in IMAGES])
    texts = [{"text_id": f"q{n}", "role": "prompt", "source": f'{{"thing":"{n}"}}', "text": str(n)} for n in range(4)]
    write_table(folder / "prompts", "texts", texts)
    near = [
        {"query_id": f"q{n}", "rank": rank, "item_id": f"u{2 * n + rank}", "score": 1 / rank}
        for n in range(4)
        for rank in (1, 2)
    ]
    write_units(folder / "near", "neighbors", in_units(near))
    corpus = [{"uid": f"u{n}", "url": f"https://pictures.example/{n}.jpg", "text": f"caption {n}"} for n in range(12)]
    (folder / "corpus").mkdir()
    pq.write_table(pa.Table.from_pylist(corpus), folder / "corpus" / "0.parquet", row_group_size=2)
    kb = f"kb.path={folder}/kb"
    return {
        "items from links": [f"links={folder}/links", kb, "unit_rows=3"],
        "link names": [f"responses={folder}/names", kb],
        "link review": [f"links=[{folder}/links]", kb],
        "link evaluate": [f"ranked={folder}/links", f"gold={gold}"],
        "candidates": [f"neighbors={folder}/near", f"corpus.path={folder}/corpus"],
        "concepts": ["lists=[world_religions]"],
    }


def _of_ratings(folder: Path) -> dict[str, list[str]]:
    likelihoods = [
        rating(f"i{n}", "m@1", "relevance", None, rubric="relevant_to", target=target, method="loglik", status="ok")
        | {"condition": condition, "score": -1.0 - (n + place) % 2}
        for n in range(12)
        for place, target in enumerate(("Brazil", "Peru"))
        for condition in ("lambda=0,T=-inf", "lambda=1,T=-inf")
    ]
    write_units(folder / "loglik", "ratings", in_units(likelihoods))
    labelled = [{"item_id": f"i{n}", "gold": ["Brazil" if n % 2 else "Peru"]} for n in range(12)]
    write_table(folder / "labelled", "items", labelled)
    answers = [
        rating(f"i{n}", "m", question, "yes", rubric="dsg", target="s") for n in range(12) for question in ("1", "2")
    ]
    write_units(folder / "answers", "ratings", [answers[place : place + 6] for place in range(0, len(answers), 6)])
    questions = [
        {"set_id": "s", "question_id": name, "text": "Is it?", "parents": parents, "valid": True}
        for name, parents in (("1", []), ("2", ["1"]))
    ]
    write_table(folder / "questions", "questions", questions)
    people = [
        century_rating(image, "sensitive", 1 + (place + number) % 5, rater=rater, method="human")
        for place, image in enumerate(IMAGES)
        for number, rater in enumerate(("ann", "bo"))
    ]
    write_table(folder / "people", "ratings", people)
    sheet = write_csv(
        folder / "people.csv",
        ["item_id", "rater", "value"],
        [[image, rater, str(1 + place % 5)] for place, image in enumerate(IMAGES) for rater in ("ann", "bo")],
    )
    return {
        "calibrate": [f"input={folder}/loglik", f"items=[{folder}/labelled]"],
        "question_scores": [f"input={folder}/answers", f"questions={folder}/questions"],
        "import_ratings": [f"input={sheet}", "question=sensitive", "rubric=century_labels"],
        "report of a file": [f"input={sheet}", "columns.item=item_id", "columns.rater=rater", "columns.value=value"],
        "report": [f"ratings=[{folder}/people]"],
    }


def _of_tric(folder: Path) -> dict[str, list[str]]:
    split = folder / "dev-0"
    split.mkdir(parents=True)
    (split / "in.tsv").write_text("".join(f"{name}\t{day}\n" for name, day in DAYS.items()))
    (split / "captions.tsv").write_text("".join(f"{number}\t{text}\n" for number, text in CAPTIONS.items()))
    (split / "expected.tsv").write_text("0\n1\n2\n")
    captions = [
        {"text_id": f"t{n}", "role": "caption", "revision": "none", "source": n, "text": text}
        for n, text in CAPTIONS.items()
    ]
    write_table(folder / "captions", "texts", captions)
    ids = {name: content_id(name) for name in DAYS}
    draw = np.random.default_rng(3)
    vectors = {"pictures": ("image", list(ids.values())), "vectors": ("text", [row["text_id"] for row in captions])}
    for table, (kind, names) in vectors.items():
        rows = embedding_rows(names, kind, draw.normal(size=(len(names), DIM)))
        write_units(folder / table, "embeddings", in_units(rows), **FACTS)
    near = [
        {"query_id": image, "rank": rank, "item_id": f"t{rank}", "score": -float(rank)}
        for image in ids.values()
        for rank in range(1, 6)
    ]
    write_units(folder / "neighbors", "neighbors", in_units(near))
    verdicts = [
        rating(image, "m", "belongs", "yes", target=text, expected=0.1 * place, condition="day", rubric="caption_match")
        for image in ids.values()
        for place, text in enumerate(CAPTIONS.values())
    ]
    write_table(folder / "ratings", "ratings", verdicts)
    of_split = [f"split={split}", f"captions={folder}/captions"]
    ranked = [*of_split, f"neighbors={folder}/neighbors"]
    return {
        "tric captions": [f"split={split}", "unit_rows=4"],
        "tric rank": [*of_split, f"pictures={folder}/pictures", f"vectors={folder}/vectors"],
        "tric items": [*ranked, "k=3", "unit_rows=1"],
        "tric rerank": [*ranked, f"ratings=[{folder}/ratings]"],
        "tric statistics": [f"path={folder}"],
    }

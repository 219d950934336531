"""`pipeline=caire` from a planted knowledge base and pictures on object storage to the report, compared with loops."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from actors.ids import content_id
from jobs.runtime import cli
from jobs.store import locations
from tests.factories import copy_folder, rows_of, write_csv

K = 3
ENCODER = "siglip-i18n-base"
NODES = [  # node, lemmas, title, pictures
    ("n1", ["djembe", "jembe"], "Djembe", ["a.png", "b.png"]),
    ("n2", ["drum"], "Drum", ["b.png", "c.png", "d.png"]),
    ("n3", ["mango"], "Mango", ["e.png"]),
    ("n4", ["fruit"], "", ["e.png", "f.png"]),
]
ARTICLES = {node: f"The {names[0]} is known in many countries." for node, names, _, _ in NODES}
LABELS = [["Mali", "Senegal", "India"], ["India", "Mexico"]]
PICTURES = {f"photo{number}.png": (LABELS[number % 2], LABELS[number % 2][:1]) for number in range(6)}


def write_inputs(folder: Path, uri: str) -> None:
    """Write knowledge base, pictures and the set to `folder` and copy them to `uri`."""
    for place, names in (("kb_pictures", "abcdef"), ("photos", PICTURES)):
        (folder / place).mkdir(parents=True)
        for number, name in enumerate(names):
            noise = np.random.default_rng(content_id(place, name).encode()[0] + number).integers(0, 255, (24, 32, 3))
            picture = name if name.endswith(".png") else f"{name}.png"
            Image.fromarray(noise.astype(np.uint8)).save(folder / place / picture)
    with (folder / "kb.jsonl").open("w") as file:
        for node, lemmas, title, images in NODES:
            row = {"node": node, "lemmas": lemmas, "title": title or None, "images": images}
            row |= {"gloss": f"A kind of {lemmas[0]}.", "text": ARTICLES[node]}
            file.write(json.dumps(row) + "\n")
    rows = ([name, ";".join(own), ";".join(gold), "n3"] for name, (own, gold) in PICTURES.items())
    write_csv(folder / "set.csv", ["picture", "labels", "gold", "right"], rows)
    copy_folder(folder, uri)


def vectors(table: str) -> dict[str, np.ndarray]:
    return {row["item_id"]: np.array(row["embedding"], np.float64) for row in rows_of(table)}


def ranked(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))


def top(table: str, query: str, answer: str) -> dict[str, list[str]]:
    lists: dict[str, list[Any]] = defaultdict(list)
    for row in sorted(rows_of(table), key=lambda row: row["rank"]):
        lists[row[query]].append(row[answer])
    return lists


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("ray_session")
def test_from_a_knowledge_base_to_the_report(tmp_path: Path, s3: str) -> None:
    inputs, out = f"{s3}/caire-inputs", f"{s3}/caire"
    write_inputs(tmp_path / "inputs", inputs)
    given = {
        "kb": f"{inputs}/kb.jsonl", "kb_pictures": f"{inputs}/kb_pictures", "set": f"{inputs}/set.csv",
        "kb_columns": "{title: title, gloss: gloss, article: text, images: images}", "pictures": f"{inputs}/photos",
        "target_column": "labels", "gold_column": "gold", "gold_node": "right", "k": K, "lambdas": "[0,1]",
        "thresholds": "[-inf]", "encoders": f"[{ENCODER}]", "rating_encoders": f"[{ENCODER}]", "linker": ENCODER,
        "judges": "[qwen2.5-vl-7b]", "contexts": "[none,article]", "text_judges": "[qwen2.5-7b-text]",
        "likelihoods": "[qwen2.5-vl-7b]", "text_likelihoods": "[]",
    }  # fmt: skip
    keys = [f"pipeline.inputs.{name}={value}" for name, value in given.items()]
    cli.execute("run", ["pipeline=caire", "profile=debug", f"out={out}", *keys])

    # Search and links, by the stored vectors in float64
    pictures, kb_pictures = (vectors(f"{out}/vectors/{ENCODER}/{name}") for name in ("pictures", "kb_pictures"))
    lemmas, nodes_of = defaultdict(list), defaultdict(set)
    lemma_vectors = vectors(f"{out}/vectors/{ENCODER}/lemmas")
    for row in rows_of(f"{out}/kb/lemmas"):
        lemmas[row["source"]].append(lemma_vectors[row["text_id"]])
    for node, _, _, images in NODES:
        for name in images:
            nodes_of[content_id(name)].add(node)
    near, links = (
        top(f"{out}/near/{ENCODER}", "query_id", "item_id"),
        top(f"{out}/links/lemma_vision", "image_id", "node_id"),
    )
    by_frequency = top(f"{out}/links_by_frequency/{ENCODER}", "image_id", "node_id")
    assert set(pictures) == set(near) == set(links) == {content_id(name) for name in PICTURES}
    for picture, vector in pictures.items():
        nearest = ranked({name: float(other @ vector) for name, other in kb_pictures.items()})[:K]
        assert near[picture] == nearest
        candidates = {node for name in nearest for node in nodes_of[name]}
        by_lemma = {node: max(float(lemma @ vector) for lemma in lemmas[node]) for node in candidates}
        assert links[picture] == ranked(by_lemma)[:K]
        counts = Counter(node for name in nearest for node in nodes_of[name])
        assert [counts[node] for node in by_frequency[picture]] == sorted(counts.values(), reverse=True)[:K]

    # Contexts: the article of the best entity, of the right one, or none
    title_of = {node: title or names[0] for node, names, title, _ in NODES}
    for context, node_of in (("article", lambda item: links[item][0]), ("gold", lambda _: "n3")):
        texts = {row["text_id"]: row["text"] for row in rows_of(f"{out}/contexts/{context}/texts")}
        for item in rows_of(f"{out}/contexts/{context}/items"):
            facts, node = dict(item["attributes"]), node_of(item["item_id"])
            assert (facts["node"], facts["entity"]) == (node, title_of[node])
            assert [texts[text_id] for text_id in item["text_ids"]] == [ARTICLES[node]]
    assert all(not item["text_ids"] for item in rows_of(f"{out}/contexts/none/items"))

    # Every label of every picture, under each condition
    own = {content_id(name): labels for name, (labels, _) in PICTURES.items()}
    pairs = {(item, label) for item, labels in own.items() for label in labels}
    tables = {
        "qwen2.5-vl-7b-none": ("local:qwen2.5-vl-tiny@qwen2.5-vl-7b", "none", "closed"),
        "qwen2.5-vl-7b-article": ("local:qwen2.5-vl-tiny@qwen2.5-vl-7b", "article", "closed"),
        "qwen2.5-vl-7b-gold": ("local:qwen2.5-vl-tiny@qwen2.5-vl-7b", "gold", "closed"),
        "qwen2.5-7b-text-article": ("local:llama-tiny@qwen2.5-7b-text", "article", "closed"),
        "qwen2.5-vl-7b-article-loglik": (
            "local:qwen2.5-vl-tiny@qwen2.5-vl-7b", "article; log-likelihood", "loglik_threshold"
        ),
    }  # fmt: skip
    for name, (rater, condition, method) in tables.items():
        rows = rows_of(f"{out}/ratings/{name}")
        assert {(row["item_id"], row["target"]) for row in rows} == pairs
        assert len(rows) == len(pairs)
        assert {(r["rater"], r["condition"], r["method"], r["status"]) for r in rows} == {
            (rater, condition, method, "ok")
        }
        assert {row["rubric"] for row in rows} == {"cultural_relevance"}
    assert {row["order"] for row in rows_of(f"{out}/ratings/qwen2.5-vl-7b-article")} == {"paper"}
    assert len(rows_of(f"{out}/ratings/{ENCODER}")) == len(pairs)

    # The report has F1 of each model under each condition
    metrics = rows_of(f"{out}/report/metrics")
    assert locations.exists(f"{out}/report/paper/table_1.csv")
    f1 = {
        (dims["group"], dims.get("condition"))
        for row in metrics
        if row["metric"] == "f1" and (dims := json.loads(row["dims"])).get("average") == "micro"
    }
    assert {condition for _, condition in f1} >= {"none", "article", "gold", "article; log-likelihood"}

"""`pipeline=caire` from a knowledge base and pictures on object storage to the report, compared with loops."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from actors.ids import content_id
from jobs.runtime.command_line import cli
from jobs.store.files import locations
from tests import secrets_found
from tests.factories import copy_folder, rows_of, write_csv

pytestmark = pytest.mark.long

K = 3
ENCODER = "siglip-i18n-base"
NODES = [  # node, lemmas, title, pictures
    ("n1", ["djembe", "jembe"], "Djembe", ["a.png", "b.png"]),
    ("n2", ["drum"], "Drum", ["b.png", "c.png", "d.png"]),
    ("n3", ["mango"], "Mango", ["e.png"]),
    ("n4", ["fruit"], "", ["e.png", "f.png"]),
]
ARTICLES = {node: f"The {names[0]} is known in many countries." for node, names, _, _ in NODES}
TITLES = {node: title or names[0] for node, names, title, _ in NODES}
LABELS = [["Mali", "Senegal", "India"], ["India", "Mexico"]]
PICTURES = {f"photo{number}.png": (LABELS[number % 2], LABELS[number % 2][:1]) for number in range(4)}
PAIRS = {(content_id(name), label) for name, (labels, _) in PICTURES.items() for label in labels}
VLM, LLM = "local:qwen2.5-vl-tiny@qwen2.5-vl-7b", "local:llama-tiny@qwen2.5-7b-text"
RATINGS = {  # table -> rater, condition, method
    "qwen2.5-vl-7b-none": (VLM, "none", "closed"),
    "qwen2.5-vl-7b-article": (VLM, "article", "closed"),
    "qwen2.5-vl-7b-titles": (VLM, "titles", "closed"),
    "qwen2.5-vl-7b-gold": (VLM, "gold", "closed"),
    "qwen2.5-7b-text-article": (LLM, "article", "closed"),
    "qwen2.5-7b-text-titles": (LLM, "titles", "closed"),
    "qwen2.5-7b-text-gold": (LLM, "gold", "closed"),
    "qwen2.5-vl-7b-article-reasoned": (VLM, "article; reasoned", "generate_then_score"),
    "qwen2.5-vl-7b-article-loglik": (VLM, "article; log-likelihood", "loglik_threshold"),
    "qwen2.5-vl-7b-gold-loglik": (VLM, "gold; log-likelihood", "loglik_threshold"),
    ENCODER: ("local:siglip-tiny", f"debug-{ENCODER}", "encoder"),
}


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
    rows = ([name, ";".join(own_values), ";".join(gold), "n3"] for name, (own_values, gold) in PICTURES.items())
    write_csv(folder / "set.csv", ["picture", "labels", "gold", "right"], rows)
    copy_folder(folder, uri)


@pytest.fixture(scope="module")
def run_once(
    tmp_path_factory: pytest.TempPathFactory, s3: str, in_process: None, without_plots: None
) -> tuple[str, str]:
    """The pipeline's outputs on the object storage, and what it printed."""
    inputs = f"{s3}/caire-inputs"
    write_inputs(tmp_path_factory.mktemp("caire"), inputs)
    arguments = {
        "kb": f"{inputs}/kb.jsonl", "kb_pictures": f"{inputs}/kb_pictures", "set": f"{inputs}/set.csv",
        "kb_columns": "{title: title, gloss: gloss, article: text, images: images}", "pictures": f"{inputs}/photos",
        "target_column": "labels", "gold_column": "gold", "gold_node": "right", "k": K, "lambdas": "[0,1]",
        "thresholds": "[-inf]", "encoders": f"[{ENCODER}]", "rating_encoders": f"[{ENCODER}]", "linker": ENCODER,
        "judges": "[qwen2.5-vl-7b]", "text_judges": "[qwen2.5-7b-text]", "reasoned": "[qwen2.5-vl-7b]",
        "namers": "[qwen2.5-vl-7b]", "likelihoods": "[qwen2.5-vl-7b]", "text_likelihoods": "[]",
    }  # fmt: skip
    keys = [f"pipeline.inputs.{name}={value}" for name, value in arguments.items()]

    with secrets_found.planting() as printed:
        cli.execute("run", ["pipeline=caire", "profile=debug", f"out={s3}/caire", *keys])
    return f"{s3}/caire", printed.getvalue()


@pytest.fixture(scope="module")
def out(run_once: tuple[str, str]) -> str:
    """The pipeline's outputs on the object storage."""
    return run_once[0]


def test_no_secret_is_written_or_printed(run_once: tuple[str, str]) -> None:
    out, printed = run_once
    assert secrets_found.leaks([out], printed) == []
    assert "[1/" in printed  # something was printed


def vectors(table: str) -> dict[str, np.ndarray]:
    return {row["item_id"]: np.array(row["embedding"], np.float64) for row in rows_of(table)}


def ranked(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))


def top(table: str, query: str, answer: str) -> dict[str, list[str]]:
    lists: dict[str, list[Any]] = defaultdict(list)
    for row in sorted(rows_of(table), key=lambda row: row["rank"]):
        lists[row[query]].append(row[answer])
    return lists


def test_search_and_links_are_those_of_a_loop_in_float64(out: str) -> None:
    pictures, kb_pictures = (vectors(f"{out}/vectors/{ENCODER}/{name}") for name in ("pictures", "kb_pictures"))
    lemmas, nodes_of = defaultdict(list), defaultdict(set)
    lemma_vectors = vectors(f"{out}/vectors/{ENCODER}/lemmas")
    for row in rows_of(f"{out}/kb/lemmas"):
        lemmas[row["source"]].append(lemma_vectors[row["text_id"]])
    for node, _, _, images in NODES:
        for name in images:
            nodes_of[content_id(name)].add(node)
    near = top(f"{out}/near/{ENCODER}", "query_id", "item_id")
    links = top(f"{out}/links/lemma_vision", "image_id", "node_id")
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


def test_each_context_has_its_texts(out: str) -> None:
    links = top(f"{out}/links/lemma_vision", "image_id", "node_id")

    def texts_of(context: str) -> dict[str, list[str]]:
        texts = {row["text_id"]: row["text"] for row in rows_of(f"{out}/contexts/{context}/texts")}
        return {
            row["item_id"]: [texts[name] for name in row["text_ids"]]
            for row in rows_of(f"{out}/contexts/{context}/items")
        }

    for context, node_of in (("article", lambda item: links[item][0]), ("gold", lambda _: "n3")):
        assert texts_of(context) == {item: [ARTICLES[node_of(item)]] for item in links}
        for item in rows_of(f"{out}/contexts/{context}/items"):
            facts, node = dict(item["attributes"]), node_of(item["item_id"])
            assert (facts["node"], facts["entity"]) == (node, TITLES[node])
    assert texts_of("titles") == {item: ["\n".join(TITLES[node] for node in nodes)] for item, nodes in links.items()}
    assert all(not item["text_ids"] for item in rows_of(f"{out}/contexts/none/items"))


def test_every_label_of_every_picture_is_rated_under_each_condition(out: str) -> None:
    for name, (rater, condition, method) in RATINGS.items():
        rows = rows_of(f"{out}/ratings/{name}")
        assert (name, sorted((row["item_id"], row["target"]) for row in rows)) == (name, sorted(PAIRS))
        assert all(row["rater"].startswith(rater) for row in rows)
        assert {(row["condition"], row["method"]) for row in rows} == {(condition, method)}
        assert {(row["rubric"], row["status"]) for row in rows} == {("cultural_relevance", "ok")}
    assert {row["order"] for row in rows_of(f"{out}/ratings/qwen2.5-vl-7b-article")} == {"paper"}
    reasoned = rows_of(f"{out}/ratings/qwen2.5-vl-7b-article-reasoned")
    assert any(row["comment"] for row in reasoned)
    assert all(sum(row["probabilities"]) == pytest.approx(1, abs=1e-6) for row in reasoned)


def test_entities_are_named_by_the_model(out: str) -> None:
    """The model of random weights names nothing that the knowledge base has, which stops no later step."""
    names = rows_of(f"{out}/names/qwen2.5-vl-7b")
    assert {row["item_id"] for row in names} == {content_id(name) for name in PICTURES}
    manifest = json.loads(locations.read_bytes(f"{out}/links_by_name/qwen2.5-vl-7b/_run/manifest.json"))
    assert manifest["counts"]["rows_out"] + sum(manifest["counts"]["filtered"].values()) >= len(PICTURES)


def test_the_report_has_f1_of_each_model_under_each_condition(out: str) -> None:
    assert {f"table_{number}.csv" for number in (1, 8, 10, 11)} <= {
        file.uri.rsplit("/", 1)[-1] for file in locations.listing(f"{out}/report/paper")
    }
    f1 = {
        dims.get("condition")
        for row in rows_of(f"{out}/report/metrics")
        if row["metric"] == "f1" and (dims := json.loads(row["dims"])).get("average") == "micro"
    }
    assert f1 == {condition for _, condition, _ in RATINGS.values()}

"""Review of links by people from end to end: links, items, tasks, an export, ratings, metrics; counted by hand."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import picture, trials_below, write_table
from tests.jobs.annotation import tool_exports
from tests.jobs.annotation.tool_exports import Act

pytestmark = pytest.mark.usefixtures("without_plots")

PICTURES = [picture(number) for number in range(4)]
IMAGES = [image["image_id"] for image in PICTURES]
# Method -> best nodes of the four pictures; the methods agree on the first picture.
LINKS = {"lemma": ["apple", "bread", "bread", "corn"], "lemma_vision": ["apple", "corn", "corn", "bread"]}
# (picture, node) -> answers of three people; majorities: exact, similar, wrong, none.
VERDICTS = {
    (0, "apple"): ["exact", "exact", "similar"],
    (1, "bread"): ["similar", "similar", "similar"],
    (1, "corn"): ["exact", "exact", "exact"],
    (2, "bread"): ["wrong", "wrong", "exact"],
    (2, "corn"): ["exact", "exact", "wrong"],
    (3, "corn"): ["exact", "similar", "wrong"],
    (3, "bread"): ["wrong", "wrong", "wrong"],
}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    write_table(str(tmp_path / "images"), "images", PICTURES)
    nodes: list[dict[str, Any]] = [
        {"node_id": "apple", "lemmas": [("de", ["Apfel"]), ("en", ["apple", "pome"])], "glosses": [("en", "a fruit")]},
        {
            "node_id": "bread",
            "lemmas": [("en", ["bread"])],
            "glosses": [("en", "baked")],
            "article_text_ids": [("de", "t")],
        },
        {"node_id": "corn", "lemmas": [("de", ["Mais"])], "glosses": []},
        {"node_id": "dog", "lemmas": [], "glosses": []},
    ]
    write_table(str(tmp_path / "kb" / "nodes"), "nodes", nodes)
    article = {
        "text_id": "t",
        "role": "article",
        "language": "en",
        "source": "bread",
        "text": "Bread is old." + " x" * 50,
    }
    write_table(str(tmp_path / "kb" / "articles"), "texts", [article])
    for method, nodes_of_pictures in LINKS.items():
        rows = [
            {"image_id": image, "method": method, "rank": rank, "node_id": node, "lemma": node, "score": 1.0}
            for image, best in zip(IMAGES, nodes_of_pictures, strict=True)
            for rank, node in enumerate([best, "dog"], 1)
        ]
        write_table(str(tmp_path / "links" / method), "links", rows)
    (tmp_path / "raters.csv").write_text("rater\nr0@x\nr1@x\nr2@x\n")
    return tmp_path


def rows_of(uri: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.concat_tables(open_table(str(uri)).batches()).to_pylist()
    return rows


def test_review_of_links_end_to_end(world: Path) -> None:
    verdicts = world / "verdicts"
    assert cli.main("link review", [f"links=[{world}/links/*]", f"kb.path={world}/kb", f"out={verdicts}"]) == 0
    items = {row["item_id"]: row for row in rows_of(verdicts / "items")}
    assert len(items) == len(VERDICTS)  # a pair that both methods gave is judged once
    node_of = {item: dict(row["attributes"])["node"] for item, row in items.items()}
    pairs = {item: (IMAGES.index(row["image_ids"][0]), node_of[item]) for item, row in items.items()}
    assert set(pairs.values()) == set(VERDICTS)
    both = next(dict(row["attributes"]) for item, row in items.items() if pairs[item] == (0, "apple"))
    assert both == {"node": "apple", "lemma": "rank 1", "lemma_vision": "rank 1"}
    assert {row["source"]: row["text"] for row in rows_of(verdicts / "texts")} == {
        "apple": "apple; pome; Apfel\n\na fruit",
        "bread": "bread\n\nbaked\n\nBread is old." + " x" * 37 + " …",
        "corn": "Mais",
    }

    tasks = ["rubric=link_verdict", f"raters={world}/raters.csv", "per_item=3", f"out={world}/tasks"]
    tables = [f"input={verdicts}/items", f"texts={verdicts}/texts", f"images={world}/images"]
    assert cli.main("annotate", [*tables, *tasks]) == 0
    for number in range(3):
        path = world / "tasks" / "label_studio" / f"r{number}@x.json"
        asked = json.loads(path.read_text())
        assert len(asked) == len(VERDICTS)
        acts = [
            [Act(f"r{number}@x", chosen={"verdict": VERDICTS[pairs[task["data"]["item_id"]]][number]})]
            for task in asked
        ]
        (world / "export").mkdir(exist_ok=True)
        (world / "export" / path.name).write_text(json.dumps(tool_exports.label_studio(asked, acts)))
    read = [f"input={world}/export/*.json", "format=label_studio", "rubric=link_verdict", f"out={world}/people"]
    assert cli.main("import_ratings", read) == 0
    assert {row["status"] for row in rows_of(world / "people")} == {"ok"}

    shown = [f"ratings=[{world}/people]", f"items=[{verdicts}/items]", "metrics.disaggregate=[lemma,lemma_vision]"]
    assert cli.main("report", [*shown, f"out={world}/report"]) == 0
    metrics = rows_of(world / "report" / "metrics")
    shares: dict[tuple[str, str], dict[str, float]] = {}
    for row in metrics:
        dims = json.loads(row["dims"])
        if row["metric"] == "majority_share" and dims["group"] == "people":
            shares.setdefault((dims.get("attribute", ""), dims.get("part", "")), {})[dims["answer"]] = row["value"]
            assert row["low"] < row["value"] < row["high"] or row["value"] in (0, 1)
    no = "(no majority)"
    assert shares == {
        ("", ""): pytest.approx({"exact": 3 / 7, "similar": 1 / 7, "wrong": 2 / 7, no: 1 / 7}),
        ("lemma", "rank 1"): pytest.approx({"exact": 1 / 4, "similar": 1 / 4, "wrong": 1 / 4, no: 1 / 4}),
        ("lemma_vision", "rank 1"): pytest.approx({"exact": 3 / 4, "similar": 0, "wrong": 1 / 4, no: 0}),
    }
    (alpha,) = [r for r in metrics if r["metric"] == "alpha" and "attribute" not in json.loads(r["dims"])]
    assert json.loads(alpha["dims"]) == {"group": "people", "level": "nominal"} | {
        "rubric": "link_verdict", "question": "verdict"
    }  # fmt: skip
    assert 0 < alpha["value"] < 1


def test_the_entities_own_pictures_are_links_in_the_tasks(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entity_pictures = [
        picture(number) for number in range(10, 15)
    ]  # bread's, and apple's: one failed, one is not a web address
    entity_pictures[1] |= {"final_url": "https://upload.example/moved.jpg"}
    rows = [*entity_pictures, picture(15, status="error"), picture(16, url="file:///secret.jpg"), PICTURES[0]]
    write_table(str(world / "kb_images"), "images", rows)
    names = [row["image_id"] for row in rows]
    pairs = [*(("bread", name) for name in names[:5]), *(("apple", name) for name in names[4:])]
    carried = [{"node_id": node, "image_id": image} for node, image in pairs]
    write_table(str(world / "kb" / "node_images"), "node_images", carried)
    (world / "no.txt").write_text(f"{names[0]}\n")
    review = [f"links=[{world}/links/lemma]", f"kb.path={world}/kb", f"kb.images={world}/kb_images", "pictures=3"]
    assert cli.main("link review", [*review, f"exclusions={world}/no.txt", f"out={world}/v"]) == 0

    web = {row["image_id"]: row.get("final_url") or row["source_url"] for row in rows}
    bread, apple = ([web[name] for name in sorted(some)] for some in (names[1:5], names[4:5]))
    wanted = {"apple": apple, "bread": bread[:3], "corn": []}  # apple's other one is the picture that is judged
    tables = [f"input={world}/v/items", f"texts={world}/v/texts", f"images={world}/images", "per_item=1"]
    tasks = [*tables, "rubric=link_verdict", "welfare=entity_links", f"raters={world}/raters.csv"]
    for tool in ("label_studio", "prodigy"):
        assert cli.main("annotate", [*tasks, f"tool={tool}", f"out={world}/{tool}"]) == 0
    items = {row["item_id"]: dict(row["attributes"])["node"] for row in rows_of(world / "v" / "items")}
    files = [json.loads(path.read_text()) for path in (world / "label_studio" / "label_studio").glob("r*.json")]
    asked = {task["data"]["item_id"]: task["data"] for tasks_of in files for task in tasks_of}
    lines = [path.read_text().splitlines() for path in (world / "prodigy" / "prodigy").glob("r*.jsonl")]
    pages = {task["item_id"]: task["html"] for some in lines for task in map(json.loads, some)}
    assert set(asked) == set(pages) == set(items)
    for item, node in items.items():
        for shown in (asked[item]["instruction_html"], pages[item]):
            assert re.findall(r'href="([^"]+)"', shown) == wanted[node]
        assert asked[item]["image_ids"] == [image for image in asked[item]["image_ids"] if image in IMAGES]

    without = [f"links=[{world}/links/lemma]", f"kb.path={world}/kb", f"out={world}/v"]
    assert cli.main("link review", without) == 0
    assert cli.main("annotate", [*tasks, f"out={world}/none"]) == 2
    assert "uses 'entity_picture_1'" in capsys.readouterr().err


def test_ranks_exclusions_and_what_is_refused(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = [f"links=[{world}/links/lemma]", f"kb.path={world}/kb", f"out={world}/v"]
    (world / "no.txt").write_text(f"{IMAGES[0]}\n")
    assert cli.main("link review", [*common, "ranks=2", f"exclusions={world}/no.txt"]) == 0
    assert len(rows_of(world / "v" / "items")) == 6
    for keys, message in (
        (["ranks=0"], "ranks=0: "),
        (["pictures=0"], "pictures=0: "),
        (["links=[]"], "links=: required"),
        ([f"links=[{world}/images]"], "is a table 'images', expected links"),
    ):
        assert cli.main("link review", [*common, *keys, f"out={world}/w"]) == 2
        assert message in capsys.readouterr().err
    lost = [{"image_id": IMAGES[0], "method": "lemma", "rank": 1, "node_id": "gone", "lemma": "x", "score": 1.0}]
    write_table(str(world / "lost"), "links", lost)
    assert cli.main("link review", [*common, f"links=[{world}/lost]", f"out={world}/w"]) == 2
    assert "no node 'gone'" in capsys.readouterr().err
    assert not (world / "w").exists()


def test_a_limit_takes_the_links_of_the_first_pictures_by_every_method(world: Path) -> None:
    links = [f"links=[{world}/links/*]", f"kb.path={world}/kb"]
    for out, more in (("whole", []), ("first", ["limit=2"]), ("other", ["ranks=2", "limit=2"])):
        assert cli.main("link review", [*links, *more, f"out={world}/{out}"]) == 0
    first = rows_of(world / "first" / "items")
    assert {image for row in first for image in row["image_ids"]} == set(IMAGES[:2])
    assert first == [row for row in rows_of(world / "whole" / "items") if row["image_ids"][0] in IMAGES[:2]]
    assert len(first) == 3, "one pair of the first picture, and one of each method of the second"
    assert trials_below(world) == {f"first/{name}": f"whole/{name}" for name in ("items", "texts")}
    assert cli.main("link review", [*links, f"out={world}/none", "limit=0"]) == 2

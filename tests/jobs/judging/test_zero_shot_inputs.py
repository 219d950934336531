"""The inputs of `zero_shot`: vectors of items, and templates from conf/zero_shot_template or a user's YAML file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from jobs.errors import InputError
from jobs.judging.zero_shot_inputs import TEMPLATES, read_item_vectors, read_sentences, read_template
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from jobs.store.units import Unit
from jobs.store.writer import UnitTask
from tests.actors.vlm.helpers import png
from tests.factories import DIM, embedding_rows, rows_of, write_table, write_units

pytestmark = pytest.mark.usefixtures("in_process")
SHARED = ["embedder=local-tiny"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("vectors")
    images = [
        {"image_id": name, "rendition": "original", "bytes": png(number), "source_url": name, "status": "ok"}
        for number, name in enumerate(("red", "green"), 1)
    ]
    write_table(root / "images", "images", images)
    cli.execute("embed", [*SHARED, f"input={root}/images", f"out={root}/embeddings"])
    items = [
        {"item_id": "one", "image_ids": ["green"], "targets": ["Peru", "Chile"]},
        {"item_id": "both", "image_ids": ["red", "green"]},
        {"item_id": "none", "image_ids": []},
        {"item_id": "lost", "image_ids": ["blue"]},
        {"item_id": "all", "image_ids": ["red"]},
    ]
    write_units(root / "items", "items", [items], condition="photo")
    (root / "out.txt").write_text("red\n")
    return root


def rate(tables: Path, out: Path, *keys: str) -> list[dict[str, Any]]:
    cli.execute("zero_shot", [*SHARED, "targets=[India]", f"out={out}", *keys])
    return rows_of(str(out))


def test_items_are_rated_as_their_pictures(tables: Path, tmp_path: Path) -> None:
    keys = [f"input={tables}/items", f"embeddings={tables}/embeddings"]
    rows = rate(tables, tmp_path / "items", *keys)
    assert [(row["item_id"], row["target"], row["status"], row["error_kind"]) for row in rows] == [
        ("one", "Peru", "ok", None),
        ("one", "Chile", "ok", None),
        ("both", "India", "skipped", "picture_count"),
        ("none", "India", "missing_input", "no_picture"),
        ("lost", "India", "missing_input", "no_picture"),
        ("all", "India", "ok", None),
    ]
    assert {row["condition"] for row in rows} == {"photo"}
    of_picture = {row["item_id"]: row for row in rate(tables, tmp_path / "images", f"input={tables}/embeddings")}
    assert rows[-1]["probabilities"] == pytest.approx(of_picture["red"]["probabilities"], abs=1e-6)


def test_a_texts_vector_is_not_used_for_a_picture(tmp_path: Path) -> None:
    items: list[dict[str, Any]] = [{"item_id": name, "image_ids": [name]} for name in ("picture", "caption", "failed")]
    items.append({"item_id": "bare", "image_ids": None})
    vectors = [
        *embedding_rows(["caption"], "text", np.ones((1, DIM))),
        *embedding_rows(["picture"], "image", np.ones((1, DIM))),
        {"item_id": "failed", "kind": "image", "status": "missing_input", "error_kind": "gone", "error_message": "m"},
    ]
    sources = [open_table(write_units(tmp_path / name, name, [rows])).footers[0].object
               for name, rows in (("items", items), ("embeddings", vectors))]  # fmt: skip
    rows = read_item_vectors(UnitTask(Unit("u", tuple(sources), rows=4))).to_pylist()
    assert [(row["status"], row["error_kind"], row["embedding"] is None) for row in rows] == [
        ("ok", None, False),
        ("missing_input", "no_picture", True),
        ("missing_input", "gone", True),
        ("missing_input", "no_picture", True),
    ]
    assert "does not have the picture" in rows[1]["error_message"]
    assert rows[3]["error_message"] == "the item has no picture"


def test_excluded_pictures_are_not_rated(tables: Path, tmp_path: Path) -> None:
    keys = [f"input={tables}/items", f"embeddings={tables}/embeddings", f"exclusions={tables}/out.txt"]
    assert {row["item_id"]: row["status"] for row in rate(tables, tmp_path / "out", *keys)} == {
        "one": "ok", "both": "reported", "none": "missing_input", "lost": "missing_input", "all": "reported"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["input={}/items"], "a table of items; set embeddings="),
        (["input={0}/embeddings", "embeddings={0}/embeddings"], "allowed only for a table of items"),
        (["input={0}/items", "embeddings={0}/embeddings", "targets=null"], "targets=null: 4 items have no targets"),
        (["input={0}/items", "embeddings={0}/images"], "is a table 'images', expected embeddings"),
    ],
)
def test_wrong_tables_are_refused(tables: Path, tmp_path: Path, keys: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        rate(tables, tmp_path / "out", *(key.format(tables) for key in keys))
    assert not (tmp_path / "out").exists()


def test_likelihoods_of_an_items_own_labels(tables: Path, tmp_path: Path) -> None:
    keys = [f"input={tables}/items", f"images={tables}/images", "model=local-tiny", "lambdas=[0,1]", "targets=[India]"]
    cli.execute("loglik", [*keys, f"out={tmp_path}/out"])
    rows = rows_of(f"{tmp_path}/out")
    assert [(row["item_id"], row["target"]) for row in rows[:4:2]] == [("one", "Peru"), ("one", "Chile")]
    assert {row["target"] for row in rows[4:]} == {"India"}
    assert {row["condition"] for row in rows} == {"photo; lambda=0,T=-inf", "photo; lambda=1,T=-inf"}
    with pytest.raises(InputError, match="4 items have no targets"):
        cli.execute("loglik", [*keys[:3], f"out={tmp_path}/other"])
    assert not (tmp_path / "other").exists()


def test_template_names_a_file_of_conf_or_of_the_user(tmp_path: Path) -> None:
    template = yaml.safe_load((TEMPLATES / "cultural_relevance.yaml").read_text(encoding="utf-8"))
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(template | {"name": "own"}), encoding="utf-8")
    assert read_template("cultural_relevance") == template
    assert read_template(str(file))["name"] == "own"
    file.write_text("a: [", encoding="utf-8")
    for name in ("nope", str(tmp_path / "none.yaml"), str(file)):
        with pytest.raises(InputError, match=name):
            read_template(name)


def test_sentences_keep_the_labels_of_targets(tmp_path: Path) -> None:
    plain = read_sentences("cultural_relevance", None)
    named = read_sentences("cultural_relevance", ["Peru", "Mali"])
    assert (plain.targets, named.targets) == ((), ("Peru", "Mali"))
    assert plain.identity["template"] == named.identity["template"]
    assert plain.identity["targets"] != named.identity["targets"]
    kept = named.kept
    assert (kept.kind, kept.name, kept.data) == ("zero_shot_template", "cultural_relevance", named.data)
    levels = [(level.value, level.phrase, level.score) for level in named.template.levels]
    assert [(answer.value, answer.label, answer.score) for answer in kept.questions[0].answers] == levels
    assert kept.questions[0].name == named.template.question
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({**named.data, "levels": []}), encoding="utf-8")
    with pytest.raises(InputError, match=r"^template: levels: only 0"):  # the command line adds the value of the key
        read_sentences(str(file), None)


def test_a_template_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "deep.yaml"
    file.write_text(f"levels: {'[' * 4000}{']' * 4000}")
    with pytest.raises(InputError, match="not valid YAML"):
        read_template(str(file))

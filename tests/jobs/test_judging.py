"""What `judge` reads, and a run over items with targets of their own by two judges, one of which sees no picture."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from actors.ids import content_id
from jobs import cli, judging
from jobs.errors import InputError
from jobs.flow import TALLY, Stage, _tallies
from jobs.store.reading import open_table
from jobs.store.units import Unit
from jobs.store.writer import Target, Task, UnitWriter
from jobs.tables import conform, table

PICTURES = {name: content_id(name) for name in ("red", "green", "blue", "black")}


def put(out: Path, name: str, rows: list[dict[str, Any]]) -> str:
    """A table of `rows`, written as jobs write one; columns that are not given are null."""
    unit = Unit(content_id(str(out)), (), rows=len(rows))
    made = pa.Table.from_pylist(rows, schema=table(name).schema())
    with UnitWriter(Target(str(out), name, {}, "identity", {}), Task(unit)) as writer:
        writer.counts.rows_in = made.num_rows
        writer.write(made)
    return str(out)


def png(colour: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (64, 48), colour).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tables of three pictures and one that is missing, two texts, and six items about them."""
    root = tmp_path_factory.mktemp("given")
    shown: list[dict[str, Any]] = [
        {"image_id": image, "rendition": "original", "bytes": png(name), "status": "ok"}
        for name, image in PICTURES.items()
    ]
    shown[-1] |= {"bytes": None, "status": "missing"}
    texts = [
        {"text_id": "t1", "role": "article", "text": "A feast of the coast."},
        {"text_id": "t2", "role": "caption", "text": "Dancers."},
    ]
    items: list[dict[str, Any]] = [
        {"item_id": "own", "image_ids": [PICTURES["red"]], "text_ids": ["t1", "t2"], "targets": ["Sahel", "Levant"]},
        {"item_id": "plain", "image_ids": [PICTURES["green"]], "attributes": [("entity", "Kula")]},
        {"item_id": "bare", "image_ids": [PICTURES["blue"]]},
        {"item_id": "gone", "image_ids": [PICTURES["black"]], "text_ids": ["t1"]},
        {"item_id": "two", "image_ids": [PICTURES["red"], PICTURES["green"]], "text_ids": ["t1"]},
        {"item_id": "none", "text_ids": ["t1"]},
    ]
    (root / "out.txt").write_text(f"{PICTURES['blue']}\n")
    return {
        "images": put(root / "images", "images", shown),
        "texts": put(root / "texts", "texts", texts),
        "items": put(root / "items", "items", [{"kind": "image", **item} for item in items]),
        "excluded": str(root / "out.txt"),
    }


def test_targets_of_a_file_a_list_and_a_name(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("# cultures\nNorthern Africa\n\nMelanesia  # islands\n", encoding="utf-8")
    assert judging.read_targets(str(tmp_path / "mine.txt")) == ("Northern Africa", "Melanesia")
    assert judging.read_targets(["India", "Brazil"]) == ("India", "Brazil")
    assert len(judging.read_targets("un_subregions") or ()) == 22
    assert len(judging.read_targets("caire_countries") or ()) == 10
    assert judging.read_targets(None) is None
    (tmp_path / "empty.txt").write_text("# nothing\n")
    for wrong, message in (
        (str(tmp_path / "empty.txt"), "no label in it"),
        (["a", "b", "a"], "label 'a' stands twice"),
        ("no_such", "no such list of conf/labels .caire_countries, un_subregions."),
    ):
        with pytest.raises(InputError, match=message):
            judging.read_targets(wrong)


def test_items_with_pictures_texts_and_attributes(given: dict[str, str]) -> None:
    items, images, texts = (open_table(given[name]) for name in ("items", "images", "texts"))
    (unit,) = judging.with_items(items, images, texts)
    assert len(unit.inputs) == 3
    rows = judging.items(
        Task(unit), images=images.uri, texts=texts.uri, context=("entity", "article", "caption"), kept=None
    ).to_pylist()
    assert {row["item_id"]: row["status"] for row in rows} == {
        "own": "ok", "plain": "ok", "bare": "ok", "gone": "missing", "two": "skipped", "none": None
    }  # fmt: skip
    own, plain = rows[:2]
    assert (own["article"], own["caption"], own["entity"]) == ("A feast of the coast.", "Dancers.", "")
    assert (plain["entity"], plain["article"], plain["targets"]) == ("Kula", "", None)
    assert own["bytes"] == png("red")
    counts = judging.rows_of_items(pa.Table.from_pylist(rows), questions=3, targets=5)
    assert counts == [6, 15, 15, 15, 15, 15]


def test_tallies_of_a_unit_are_summed() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    rows = pa.table({TALLY: pa.array([[("noise/flips", 1), ("tokens/passed", 5)], None, [("noise/flips", 2)]], kind)})
    assert _tallies(rows) == {"noise": {"flips": 3}, "tokens": {"passed": 5}}
    assert _tallies(pa.table({"a": [1]})) == {}
    assert Stage("judge", object, {}, rows_out=3).made_of(rows) == [3, 3, 3]


@pytest.mark.usefixtures("ray_session")
def test_two_judges_over_items(given: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [f"input={given['items']}", f"images={given['images']}", f"texts={given['texts']}", "noise=1"]
    asked += ["rubric=cultural_relevance", "targets=[Nordic]", f"exclusions={given['excluded']}", f"out={tmp_path}/r"]
    assert cli.main("judge", [*asked, "judges=[local-tiny,local-text-tiny]"]) == 0
    said = capsys.readouterr().out
    assert said.count("rows scored again in other company, 0 flips") == 2
    found = {}
    for name in ("local-tiny", "local-text-tiny"):
        made = open_table(f"{tmp_path}/r/{name}", "ratings")
        rows = pa.concat_tables(made.batches()).to_pylist()
        found[name] = {(row["item_id"], row["target"]): row["status"] for row in rows}
        (rater,) = pq.read_table(tmp_path / "r" / name / "_run" / "raters.parquet").to_pylist()
        conform(pa.Table.from_pylist([rater], schema=table("raters").schema()), table("raters"))
        assert rater["engine"].startswith("cascade, transformers ")
        assert rater["rater"] == rows[0]["rater"]
        assert made.counts().tallies["noise"]["scored again"] == sum(row["status"] == "ok" for row in rows)
    pictured = {("own", "Sahel"): "ok", ("own", "Levant"): "ok", ("plain", "Nordic"): "ok"}
    pictured |= {("bare", "Nordic"): "reported", ("gone", "Nordic"): "missing_input", ("two", "Nordic"): "skipped"}
    assert found["local-tiny"] == {**pictured, ("none", "Nordic"): "missing_input"}
    told = {("gone", "Nordic"): "ok", ("two", "Nordic"): "ok", ("none", "Nordic"): "ok"}
    assert found["local-text-tiny"] == {**pictured, **told}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["targets=no_such.txt"], "targets=no_such.txt: no such file, and no such list"),
        (["rubric=century_labels", "targets=[a]"], "rubric 'century_labels' asks about no target"),
        (["targets=[a]", "engine=fast"], "engine=fast: one of auto, cascade, batched, naive"),
        (["targets=[a]", "empty_context=guess"], "empty_context=guess: one of answer, skip"),
        (["targets=[a]", "max_context_tokens=0"], "max_context_tokens=0: at least 1"),
        (["targets=[a]", "judge.dtype=int8"], "dtype 'int8' is not one of auto, float32"),
        (["targets=[a]", "judge.model=/no/such/folder"], "/no/such/folder: no such folder"),
        (["targets=[a]", "judge.model=./no-such"], "./no-such: no such folder"),
        (["targets=[a]", "noise=2"], "noise=2: a share, from 0 to 1"),
        (["targets=[a]", "budget_gb=-1"], "budget_gb=-1: more than 0"),
        (["targets=[a]", "records=x"], "records= belongs to a table of images"),
        (["targets=[a]", "judges=[local-tiny,no-such]"], "judge=no-such: no such option"),
        (["targets=[a]", "judges=[local-tiny,local-tiny]"], "judges names local-tiny twice"),
        ([], "5 items have no targets of their own"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    given: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: list[str], message: str
) -> None:
    asked = [f"input={given['items']}", f"images={given['images']}", "rubric=cultural_relevance", "judge=local-tiny"]
    assert cli.main("judge", [*asked, f"out={tmp_path}/r", *wrong]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "r").exists()

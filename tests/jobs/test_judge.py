"""What `judge` reads, and a run over items with targets of their own by two judges, one of which sees no picture."""

import io
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from PIL import Image

from actors.ids import content_id
from actors.local_models import resolve
from actors.vlm.rubric import Rubric
from jobs.errors import InputError
from jobs.judging import kept_raters
from jobs.judging.items import Reader, open_sources
from jobs.judging.kept_rubric import read_rubrics
from jobs.judging.targets import ratings_of, read_targets, rows_of_items
from jobs.runtime import cli
from jobs.runtime.config_files import CONF
from jobs.runtime.stage_contract import Stage
from jobs.runtime.stage_workers import EXCLUDED, EXPECTED_ROWS, TALLY, TASK, StageRunner, sum_tallies
from jobs.store.reading import open_table
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask, UnitWriter
from jobs.tables import table

PICTURES = {name: content_id(name) for name in ("red", "green", "blue", "black")}


def put(out: Path, name: str, rows: list[dict[str, Any]]) -> str:
    """A table of `rows`, written as jobs write one; columns that are not given are null."""
    unit = Unit(content_id(str(out)), (), rows=len(rows))
    made = pa.Table.from_pylist(rows, schema=table(name).schema())
    with UnitWriter(Target(str(out), name, {}, "identity", {}), UnitTask(unit)) as writer:
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


@pytest.fixture
def culture() -> Rubric:
    return Rubric.from_dict(yaml.safe_load((CONF / "rubric" / "cultural_relevance.yaml").read_text(encoding="utf-8")))


def test_targets_of_a_file_a_list_and_a_name(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("# cultures\nNorthern Africa\n\nMelanesia  # islands\n", encoding="utf-8")
    assert read_targets(str(tmp_path / "mine.txt")) == ("Northern Africa", "Melanesia")
    assert read_targets(["India", "Brazil"]) == ("India", "Brazil")
    assert len(read_targets("un_subregions") or ()) == 22
    rubric = yaml.safe_load((CONF / "rubric" / "century_labels.yaml").read_text(encoding="utf-8"))
    (sub_region,) = (question for question in rubric["questions"] if question["name"] == "sub_region")
    assert [*(read_targets("century_subregions") or ()), "unsure"] == [a["value"] for a in sub_region["answers"]]
    assert len(read_targets("caire_countries") or ()) == 10
    assert read_targets(None) is None
    (tmp_path / "empty.txt").write_text("# nothing\n")
    for wrong, message in (
        (str(tmp_path / "empty.txt"), "no label in it"),
        (["a", "b", "a"], "duplicate label 'a'"),
        ("no_such", "no such list of conf/target_lists .caire_countries, century_subregions, un_subregions."),
    ):
        with pytest.raises(InputError, match=message):
            read_targets(wrong)


def test_items_with_pictures_texts_and_attributes(given: dict[str, str], culture: Rubric) -> None:
    fields = ("entity", "article", "caption", "text")
    beside: dict[str, Any] = {"images": given["images"], "texts": given["texts"], "records": None}
    sources = open_sources(given["items"], fields=fields, pictures=True, **beside)
    (unit,) = sources.units()
    assert len(unit.inputs) == 3
    made = Reader("items", tuple(sources.sides), fields, True)(UnitTask(unit))
    rows = made.to_pylist()
    assert {row["item_id"]: (row["status"], len(row["pictures"])) for row in rows} == {
        "own": ("ok", 1), "plain": ("ok", 1), "bare": ("ok", 1), "gone": ("missing", 1), "two": ("ok", 2),
        "none": ("ok", 0),
    }  # fmt: skip
    own, plain = rows[:2]
    assert (own["article"], own["caption"], own["entity"]) == ("A feast of the coast.", "Dancers.", None)
    assert own["text"] == "A feast of the coast.\n\nDancers."
    assert (plain["entity"], plain["article"], plain["targets"]) == ("Kula", None, None)
    assert own["pictures"] == [png("red")]
    assert rows_of_items(made, each=3, targets=5) == [6, 15, 15, 15, 15, 15]
    counted = ratings_of(sources.items, culture, ("a", "b"), samples=3)
    assert counted.asked == 3 * (2 + 5 * 2)
    assert callable(counted.rows_out)
    assert counted.rows_out(made) == [6] * 6
    with pytest.raises(InputError, match="5 items have no targets of their own"):
        ratings_of(sources.items, culture, None)


def test_tallies_of_an_earlier_stage_stay_with_its_unit() -> None:
    """A stage that makes two rows of one, behind one that counted."""

    class Twice:
        INPUTS = OUTPUTS = pa.schema({"a": pa.int64()})

        def take_tally(self) -> dict[str, int]:
            return {"tokens/passed": 7}

        def __call__(self, rows: pa.Table) -> pa.Table:
            return rows.take([place for place in range(rows.num_rows) for _ in range(2)])

    kind = pa.map_(pa.string(), pa.int64())
    shown = pa.array([[("pictures/shown", 1)], None, [("pictures/shown", 4)]], kind)
    given = pa.table(
        {"a": [1, 2, 3], TASK: ["u", "u", "v"], EXPECTED_ROWS: [2, 2, 2], EXCLUDED: ["{}"] * 3, TALLY: shown}
    )
    made = StageRunner(stage=Stage("judge", Twice, {}, rows_out=2), board=None)(given)
    assert sum_tallies(made) == {"tokens": {"passed": 7}, "pictures": {"shown": 5}}
    assert sum_tallies(made.filter(pc.equal(made[TASK], "v"))) == {"pictures": {"shown": 4}}


def test_tallies_of_a_unit_are_summed() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    rows = pa.table(
        {
            TALLY: pa.array(
                [[("rescored/changed answers", 1), ("tokens/passed", 5)], None, [("rescored/changed answers", 2)]], kind
            )
        }
    )
    assert sum_tallies(rows) == {"rescored": {"changed answers": 3}, "tokens": {"passed": 5}}
    assert sum_tallies(pa.table({"a": [1]})) == {}
    assert Stage("judge", object, {}, rows_out=3).row_counts(rows) == [3, 3, 3]


@pytest.mark.usefixtures("ray_session")
def test_two_judges_over_items(given: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [f"input={given['items']}", f"images={given['images']}", f"texts={given['texts']}", "rescore_fraction=1"]
    asked += ["rubric=cultural_relevance", "targets=[Nordic]", f"exclusions={given['excluded']}", f"out={tmp_path}/r"]
    assert cli.main("judge", [*asked, "models=[local-tiny,local-text-tiny]"]) == 0
    said = capsys.readouterr().out
    assert said.count("rows individually: 0 answers changed") == 2
    assert said.count("exclusions: 1 of 1 entries match a picture here") == 2
    assert said.count("1 reported (excluded), for example bare: the picture may not be used") == 2
    shown = re.findall(r"(\d+) pictures shown, (\d+) tokens each \(max_pixels=([\d,]+)\)", said)
    assert shown == [("2", "4", "1,003,520")]
    resolved = {"local-tiny": "local:qwen2.5-vl-tiny", "local-text-tiny": "local:llama-tiny"}
    found = {}
    for name in ("local-tiny", "local-text-tiny"):
        made = open_table(f"{tmp_path}/r/{name}", "ratings")
        rows = pa.concat_tables(made.batches()).to_pylist()
        found[name] = {(row["item_id"], row["target"]): row["status"] for row in rows}
        (rater,) = kept_raters.read([made])
        assert (rater["kind"], rater["model"], rater["licence"]) == ("model", resolved[name], "Apache-2.0")
        assert read_rubrics([made]).scale("cultural_relevance", "relevance")[0] == (1.0, 5.0)
        assert rater["engine"].startswith("cascade, transformers ")
        assert rater["rater"] == rows[0]["rater"]
        assert made.counts().tallies["rescored"]["rows"] == sum(row["status"] == "ok" for row in rows)
    pictured = {("own", "Sahel"): "ok", ("own", "Levant"): "ok", ("plain", "Nordic"): "ok"}
    pictured |= {("bare", "Nordic"): "reported", ("gone", "Nordic"): "missing_input", ("two", "Nordic"): "skipped"}
    assert found["local-tiny"] == {**pictured, ("none", "Nordic"): "missing_input"}
    told = {("gone", "Nordic"): "ok", ("two", "Nordic"): "ok", ("none", "Nordic"): "ok"}
    assert found["local-text-tiny"] == {**pictured, **told}


@pytest.mark.usefixtures("ray_session")
def test_a_judge_that_fails_leaves_the_others(
    given: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "weights"
    shutil.copytree(resolve("local:qwen2.5-vl-tiny"), broken)
    (broken / "model.safetensors").write_bytes(b"cut off")  # which only shows when it is loaded
    (tmp_path / "broken.yaml").write_text(yaml.safe_dump({"name": "broken", "checkpoint": str(broken)}))
    asked = [f"input={given['items']}", f"images={given['images']}", f"texts={given['texts']}", "targets=[Nordic]"]
    asked += ["rubric=cultural_relevance", f"models=[{tmp_path}/broken.yaml,local-text-tiny]", f"out={tmp_path}/r"]
    assert cli.main("judge", asked) == 1
    said = capsys.readouterr().err
    assert said.count("judge broken failed: a worker failed") == 1
    assert "error: 1 of 2 models failed: broken (a worker failed" in said
    assert open_table(f"{tmp_path}/r/local-text-tiny", "ratings").rows == 7
    # the same command with the cause gone: what is done stays
    shutil.copy(Path(resolve("local:qwen2.5-vl-tiny")) / "model.safetensors", broken)
    assert cli.main("judge", asked) == 0
    assert open_table(f"{tmp_path}/r/broken", "ratings").rows == 7


@pytest.mark.usefixtures("ray_session")
def test_items_that_all_have_targets_need_no_others(given: dict[str, str], tmp_path: Path) -> None:
    item = {"item_id": "own", "kind": "image", "image_ids": [PICTURES["red"]], "text_ids": ["t1"], "targets": ["Sahel"]}
    mine = put(tmp_path / "mine", "items", [item])
    asked = [f"input={mine}", f"texts={given['texts']}", "rubric=cultural_relevance", "model=local-text-tiny"]
    assert cli.main("judge", [*asked, f"out={tmp_path}/r"]) == 0
    (row,) = pa.concat_tables(open_table(f"{tmp_path}/r", "ratings").batches()).to_pylist()
    assert (row["target"], row["status"]) == ("Sahel", "ok")


@pytest.mark.usefixtures("ray_session")
def test_thinking_about_items_with_targets_of_their_own(given: dict[str, str], tmp_path: Path) -> None:
    asked = [f"input={given['items']}", f"texts={given['texts']}", "rubric=cultural_relevance", "targets=[Nordic]"]
    asked += ["model=local-text-tiny", "max_tokens=3", "samples=2", "empty_context=skip", f"out={tmp_path}/r"]
    assert cli.main("judge", [*asked, "method=reasoned"]) == 0
    rows = pa.concat_tables(open_table(f"{tmp_path}/r", "ratings").batches()).to_pylist()
    found = {(row["item_id"], row["target"], row["sample"]): row["status"] for row in rows}
    told = {("own", "Sahel"), ("own", "Levant"), *((item, "Nordic") for item in ("plain", "gone", "two", "none"))}
    expected = {(*key, sample): "ok" for key in told for sample in (0, 1)}
    assert found == expected | {("bare", "Nordic", sample): "skipped" for sample in (0, 1)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["targets=no_such.txt"], "targets=no_such.txt: no such file, and no such list"),
        (["rubric=century_labels", "targets=[a]"], "rubric 'century_labels' asks about no target"),
        (["targets=[a]", "engine=fast"], "engine=fast: "),
        (["targets=[a]", "empty_context=guess"], "empty_context=guess: "),
        (["targets=[a]", "max_context_tokens=0"], "max_context_tokens=0: "),
        (["targets=[a]", "model.dtype=int8"], "dtype=int8"),
        (["targets=[a]", "model.max_pixels=0"], "model.max_pixels=0: must be an integer of at least 1"),
        (["targets=[a]", "model.max_pixels=1.5"], "model.max_pixels"),
        (["targets=[a]", "model.max_pixels=many"], "model.max_pixels"),
        (["targets=[a]", "model.min_pixels=-1"], "model.min_pixels=-1: must be an integer of at least 1"),
        (["targets=[a]", "model.min_pixels=2000000"], "model.min_pixels=2000000: must not exceed max_pixels=1003520"),
        (["targets=[a]", "model.checkpoint=/no/such/folder"], "/no/such/folder: no such folder"),
        (["targets=[a]", "model.checkpoint=./no-such"], "./no-such: no such folder"),
        (["targets=[a]", "rescore_fraction=2"], "rescore_fraction=2: "),
        (["targets=[a]", "memory_budget_gb=-1"], "memory_budget_gb=-1: "),
        (["targets=[a]", "records=x"], "x: no table here"),
        (["targets=[a]", "images=null"], "is a table of items and the prompt shows a picture: say where with images="),
        (["targets=[a]", "models=[local-tiny,no-such]"], "model=no-such: no such option"),
        (["targets=[a]", "models=[local-tiny,local-tiny]"], "duplicate local-tiny"),
        (["targets=[a]", "method=guessed"], "method=guessed: "),
        (["targets=[a]", "samples=3"], "samples=3: method=closed has no such key"),
        (["targets=[a]", "method=reasoned", "engine=naive"], "engine=naive: method=reasoned has no such key"),
        (["targets=[a]", "method=reasoned", "rescore_fraction=1"], "rescore_fraction=1.0: method=reasoned has no"),
        ([], "5 items have no targets of their own"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    given: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: list[str], message: str
) -> None:
    asked = [f"input={given['items']}", f"images={given['images']}", "rubric=cultural_relevance", "model=local-tiny"]
    assert cli.main("judge", [*asked, f"out={tmp_path}/r", *wrong]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "r").exists()

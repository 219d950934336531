"""Inputs of `judge`, runs of both methods, and the values that it refuses."""

import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from PIL import Image

from actors.ids import content_id
from actors.local_models import resolve
from actors.rubrics.rubric import Rubric
from jobs.errors import InputError
from jobs.judging import rating_tables
from jobs.judging.items import Reader, open_sources
from jobs.judging.kept_rubric import read_rubrics
from jobs.judging.targets import count_ratings, ratings_per_item, read_targets
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.stage_contract import BEGUN, EXCLUDED, EXPECTED_ROWS, TALLY, TASK, Stage, sum_tallies
from jobs.runtime.stage_workers import StageRunner
from jobs.store.reading import open_table
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask, UnitWriter
from jobs.tables import table

PICTURES = {name: content_id(name) for name in ("red", "green", "blue", "black")}


def put(out: Path, name: str, rows: list[dict[str, Any]]) -> str:
    """Write a table as jobs do and return its path; columns that `rows` lack are null."""
    unit = Unit(content_id(str(out)), (), rows=len(rows))
    content = pa.Table.from_pylist(rows, schema=table(name).schema())
    with UnitWriter(Target(str(out), name, {}, "identity", {}), UnitTask(unit)) as writer:
        writer.counts.rows_in = content.num_rows
        writer.write(content)
    return str(out)


def png(colour: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (64, 48), colour).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the paths of six items, their pictures (one missing) and texts, and of a list of exclusions."""
    root = tmp_path_factory.mktemp("inputs")
    images: list[dict[str, Any]] = [
        {"image_id": image, "rendition": "original", "bytes": png(name), "status": "ok"}
        for name, image in PICTURES.items()
    ]
    images[-1] |= {"bytes": None, "status": "missing"}
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
        "images": put(root / "images", "images", images),
        "texts": put(root / "texts", "texts", texts),
        "input": put(root / "items", "items", [{"kind": "image", **item} for item in items]),
        "exclusions": str(root / "out.txt"),
    }


@pytest.fixture
def culture() -> Rubric:
    return Rubric.from_dict(yaml.safe_load((CONF / "rubric" / "cultural_relevance.yaml").read_text(encoding="utf-8")))


def test_targets_from_a_file_from_a_list_and_by_name(tmp_path: Path) -> None:
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
        (str(tmp_path / "empty.txt"), "has no labels"),
        (["a", "b", "a"], "duplicate label 'a'"),
        ("no_such", r"no such list in conf/target_lists \(bronze_age_civilizations, caire_countries, .*un_subregions"),
    ):
        with pytest.raises(InputError, match=message):
            read_targets(wrong)


LABEL_SETS = {  # of CAIRE, table 13: numbers of states and countries are facts, the others those of our selections
    "countries_of_the_world": 195, "countries_of_africa": 54, "states_of_mexico": 32, "states_of_the_us": 50,
    "states_of_india": 28, "major_cities_of_india": 30, "cities_of_indonesia": 30, "cities_of_nepal": 20,
    "ethnicities_of_africa": 40, "ethnicities_of_india": 30, "ethnicities_of_australia": 30,
    "ethnicities_of_the_us": 39, "ethnicities_of_indonesia": 30, "festivals_of_india": 30,
    "japanese_philosophy": 24, "world_religions": 24,
    "bronze_age_civilizations": 28,
}  # fmt: skip


def test_label_sets_of_caire() -> None:
    assert {name: len(read_targets(name) or ()) for name in LABEL_SETS} == LABEL_SETS
    countries = set(read_targets("countries_of_the_world") or ())
    assert set(read_targets("countries_of_africa") or ()) < countries
    assert set(read_targets("caire_countries") or ()) < countries
    headers = {
        name: " ".join((CONF / "target_lists" / f"{name}.txt").read_text("utf-8").replace("\n# ", " ").split())
        for name in LABEL_SETS
    }
    assert [name for name, text in headers.items() if "table 13" not in text or "Source: " not in text] == []


def test_items_with_pictures_texts_and_attributes(inputs: dict[str, str], culture: Rubric) -> None:
    fields = ("entity", "article", "caption", "text")
    joined: dict[str, Any] = {"images": inputs["images"], "texts": inputs["texts"], "records": None}
    sources = open_sources(inputs["input"], fields=fields, pictures=True, **joined)
    (unit,) = sources.units()
    assert len(unit.inputs) == 3
    items = Reader("items", tuple(sources.joined_tables), fields, True)(UnitTask(unit))
    rows = items.to_pylist()
    assert {row["item_id"]: (row["status"], len(row["pictures"])) for row in rows} == {
        "own": ("ok", 1), "plain": ("ok", 1), "bare": ("ok", 1), "gone": ("missing", 1), "two": ("ok", 2),
        "none": ("ok", 0),
    }  # fmt: skip
    own_values, plain = rows[:2]
    assert (own_values["article"], own_values["caption"], own_values["entity"]) == (
        "A feast of the coast.",
        "Dancers.",
        None,
    )
    assert own_values["text"] == "A feast of the coast.\n\nDancers."
    assert (plain["entity"], plain["article"], plain["targets"]) == ("Kula", None, None)
    assert own_values["pictures"] == [png("red")]
    assert ratings_per_item(items, per_label=3, once=0, labels=5) == [6, 15, 15, 15, 15, 15]
    counts = count_ratings(sources.items, culture, ("a", "b"), samples=3)
    assert counts.total == 3 * (2 + 5 * 2)
    assert callable(counts.rows_out)
    assert counts.rows_out(items) == [6] * 6
    once = replace(culture.questions[0], name="once", targets=False)
    with_once = count_ratings(sources.items, replace(culture, questions=(*culture.questions, once)), ("a", "b"))
    assert with_once.total == 2 + 5 * 2 + 6
    assert callable(with_once.rows_out)
    assert with_once.rows_out(items) == [3] * 6
    with pytest.raises(InputError, match="5 items have no targets"):
        count_ratings(sources.items, culture, None)


def test_tallies_of_an_earlier_stage_stay_with_its_unit() -> None:
    """The second stage returns two rows per input row; the first has a tally."""

    class Twice:
        INPUTS = OUTPUTS = pa.schema({"a": pa.int64()})

        def take_tally(self) -> dict[str, int]:
            return {"tokens/passed": 7}

        def __call__(self, rows: pa.Table) -> pa.Table:
            return rows.take([index for index in range(rows.num_rows) for _ in range(2)])

    kind = pa.map_(pa.string(), pa.int64())
    shown = pa.array([[("pictures/shown", 1)], None, [("pictures/shown", 4)]], kind)
    batch = pa.table(
        {
            "a": [1, 2, 3],
            TASK: ["u", "u", "v"],
            EXPECTED_ROWS: [2, 2, 2],
            EXCLUDED: ["{}"] * 3,
            BEGUN: [0.0] * 3,
            TALLY: shown,
        }
    )
    result = StageRunner(stage=Stage("judge", Twice, {}, rows_out=2), board=None)(batch)
    assert sum_tallies(result) == {"tokens": {"passed": 7}, "pictures": {"shown": 5}}
    assert sum_tallies(result.filter(pc.equal(result[TASK], "v"))) == {"pictures": {"shown": 4}}


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


@pytest.mark.usefixtures("in_process")
def test_two_models_over_items_of_which_one_first_fails(
    inputs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second model runs although the first fails; the same command then completes the first."""
    weights = tmp_path / "weights"
    shutil.copytree(resolve("local:qwen2.5-vl-tiny"), weights)
    config = json.loads((weights / "config.json").read_text(encoding="utf-8"))
    config["text_config"]["intermediate_size"] += 32  # detected only when the weights are loaded
    (weights / "config.json").write_text(json.dumps(config))
    model = yaml.safe_load((CONF / "model.yaml").read_text(encoding="utf-8"))["local-tiny"]
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(model | {"name": "tiny", "checkpoint": str(weights)}))
    command = [f"{name}={inputs[name]}" for name in ("input", "images", "texts", "exclusions")]
    command += ["rubric=cultural_relevance", "targets=[Nordic]", "rescore_fraction=1", f"out={tmp_path}/r"]
    command += [f"models=[{tmp_path}/tiny.yaml,local-text-tiny]"]
    assert cli.main("judge", command) == 1
    errors = capsys.readouterr().err
    assert errors.count("judge tiny failed: ") == 1
    assert "error: 1 of 2 models failed: tiny (" in errors
    assert open_table(f"{tmp_path}/r/local-text-tiny", "ratings").rows == 7

    shutil.copy(Path(resolve("local:qwen2.5-vl-tiny")) / "config.json", weights)
    assert cli.main("judge", command) == 0
    output = capsys.readouterr().out
    assert output.count("rows individually: 0 answers changed") == 2
    assert output.count("exclusions: 1 of 1 entries match a picture here") == 2
    assert output.count("1 reported (excluded), for example bare: ") == 2
    shown = re.findall(r"(\d+) pictures shown, (\d+) tokens each \(max_pixels=([\d,]+)\)", output)
    assert shown == [("2", "4", "1,003,520")]
    checkpoints = {"tiny": str(weights), "local-text-tiny": "local:llama-tiny"}
    statuses = {}
    for name, checkpoint in checkpoints.items():
        ratings = open_table(f"{tmp_path}/r/{name}", "ratings")
        rows = pa.concat_tables(ratings.batches()).to_pylist()
        statuses[name] = {(row["item_id"], row["target"]): row["status"] for row in rows}
        (rater,) = rating_tables.read_raters([ratings])
        assert (rater["kind"], rater["model"], rater["licence"]) == ("model", checkpoint, "Apache-2.0")
        assert read_rubrics([ratings]).scale("cultural_relevance", "relevance")[0] == (1.0, 5.0)
        assert rater["engine"].startswith("cascade, transformers ")
        assert rater["rater"] == rows[0]["rater"]
        assert ratings.counts().tallies["rescored"]["rows"] == sum(row["status"] == "ok" for row in rows)
    with_pictures = {("own", "Sahel"): "ok", ("own", "Levant"): "ok", ("plain", "Nordic"): "ok"}
    with_pictures |= {("bare", "Nordic"): "reported", ("gone", "Nordic"): "missing_input", ("two", "Nordic"): "skipped"}
    assert statuses["tiny"] == {**with_pictures, ("none", "Nordic"): "missing_input"}
    text_only = {("gone", "Nordic"): "ok", ("two", "Nordic"): "ok", ("none", "Nordic"): "ok"}
    assert statuses["local-text-tiny"] == {**with_pictures, **text_only}


@pytest.mark.usefixtures("in_process")
def test_reasoned_answers_about_items_with_targets_of_their_own(inputs: dict[str, str], tmp_path: Path) -> None:
    """`targets=` is not needed if every item has targets."""
    items = [
        {"item_id": "own", "kind": "text", "text_ids": ["t1"], "targets": ["Sahel", "Levant"]},
        {"item_id": "bare", "kind": "text", "targets": ["Nordic"]},
    ]
    command = [f"input={put(tmp_path / 'items', 'items', items)}", f"texts={inputs['texts']}", "method=reasoned"]
    command += ["rubric=cultural_relevance", "model=local-text-tiny", "max_tokens=3", "samples=2", "empty_context=skip"]
    assert cli.main("judge", [*command, f"out={tmp_path}/r"]) == 0
    rows = pa.concat_tables(open_table(f"{tmp_path}/r", "ratings").batches()).to_pylist()
    assert {(row["item_id"], row["target"], row["sample"]): row["status"] for row in rows} == {
        ("own", "Sahel", 0): "ok", ("own", "Sahel", 1): "ok", ("own", "Levant", 0): "ok", ("own", "Levant", 1): "ok",
        ("bare", "Nordic", 0): "skipped", ("bare", "Nordic", 1): "skipped",
    }  # fmt: skip


def test_values_that_are_not_allowed_are_refused(
    inputs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is one line, with exit code 2, before anything is written."""
    command = [f"input={inputs['input']}", f"images={inputs['images']}", "rubric=cultural_relevance"]
    command += ["model=local-tiny", f"out={tmp_path}/r"]
    misses = []
    for overrides, message in (
        (["targets=no_such.txt"], "targets=no_such.txt: does not exist; "),
        (["rubric=century_labels", "targets=[a]"], "rubric 'century_labels' asks about no target"),
        (["targets=[a]", "engine=fast"], "engine=fast: "),
        (
            ["targets=[a]", "engine=packed", "model.checkpoint=local:gemma3-tiny"],
            "engine=packed: does not support local:",
        ),
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
        (["targets=[a]", "images=null"], "name its table with images="),
        (["targets=[a]", "models=[local-tiny,no-such]"], "models=no-such: no such option"),
        (["targets=[a]", "models=[local-text-tiny]"], "model=local-tiny: not allowed with models="),
        (["targets=[a]", "method=guessed"], "method=guessed: "),
        (["targets=[a]", "samples=3"], "samples=3: method=closed has no such key"),
        (["targets=[a]", "method=reasoned", "engine=naive"], "engine=naive: "),
        (["targets=[a]", "method=reasoned", "rescore_fraction=1"], "rescore_fraction=1: method=reasoned has no"),
        ([], "5 items have no targets"),
    ):
        code, errors = cli.main("judge", [*command, *overrides]), capsys.readouterr().err
        if code != 2 or message not in errors or errors.count("\n") != 1 or (tmp_path / "r").exists():
            misses.append((overrides, code, errors))
    assert misses == []


@pytest.mark.usefixtures("in_process")
def test_a_plan_shows_prompts_and_answers_of_a_tiny_model(
    inputs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mood.yaml").write_text(
        'name: mood\nquestions:\n- {name: shown, text: "Is it calm?", answers: [1, 2, 3]}\n', encoding="utf-8"
    )
    command = [f"input={inputs['images']}", f"rubric={tmp_path}/mood.yaml", "show_prompts=1", f"out={tmp_path}/R"]
    assert cli.main("judge", command) == 2
    assert "only used with plan=true" in capsys.readouterr().err
    assert cli.main("judge", [*command, "plan=true"]) == 0
    text = capsys.readouterr().out
    assert text.count("\nitem ") == 1
    assert "[picture 64 x 48: " in text
    assert "Question: Is it calm?" in text
    assert "the processor of Qwen/Qwen2.5-VL-7B-Instruct is not on this machine" in text
    answers = text.split("meaningless")[1]
    assert answers.count(" shown: ") == 1
    assert not (tmp_path / "R").exists()

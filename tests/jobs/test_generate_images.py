"""`generate_images`: pictures from prompts, and the items that show them, with a small random model."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from jobs import (
    generate_images,
)
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.selection.exclusions import Exclusions
from tests import secrets_found
from tests.cases import check_cases
from tests.factories import rows_of, write_table, write_units

pytestmark = pytest.mark.usefixtures("in_process")
SMALL = ["steps=2"]


def run(*keys: str) -> Any:
    single = [] if any(key.startswith("image_models=") for key in keys) else ["image_model=local-tiny"]
    return cli.execute("generate_images", [*single, *SMALL, *keys])


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = str(tmp_path_factory.mktemp("prompts") / "prompts")
    cli.execute("prompts", ["axes.concept=[dance,dinner]", "axes.country=[Brazil]", f"out={out}"])
    return out


@pytest.fixture(scope="module")
def generated(prompts: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = str(tmp_path_factory.mktemp("generated") / "out")
    with secrets_found.planting() as printed:
        run(f"input={prompts}", "samples=2", f"out={out}")
    assert secrets_found.leaks([out], printed.getvalue()) == []
    return out


def test_some_units_are_drawn_to_measure_the_pace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = [{"text_id": f"t{number}", "role": "prompt", "text": f"a mask, {number}"} for number in range(9)]
    write_units(str(tmp_path / "prompts"), "texts", [[row] for row in prompts])
    keys = (f"input={tmp_path}/prompts", f"out={tmp_path}/out")
    assert run(*keys, "plan=calibrate").keys() == {"images"}
    assert not (tmp_path / "out" / "items").exists()
    assert "done   6 of 9 units" in capsys.readouterr().out
    assert run(*keys).keys() == {"images", "items"}  # draws the three others
    assert len(rows_of(f"{tmp_path}/out/images")) == len(rows_of(f"{tmp_path}/out/items")) == 9


def pixels(row: dict[str, Any]) -> bytes:
    return Image.open(io.BytesIO(row["bytes"])).tobytes()


def test_each_prompt_has_pictures_of_its_own_seeds(generated: str) -> None:
    rows = rows_of(f"{generated}/images")
    assert [(row["status"], row["format"], row["width"], row["rendition"]) for row in rows] == [
        ("ok", "PNG", 32, "original")
    ] * 4
    assert len({row["sha256"] for row in rows}) == len({row["image_id"] for row in rows}) == 4
    assert {row["author"] for row in rows} == {"local:sd3-tiny"}


def test_items_have_the_values_of_their_prompt(generated: str, prompts: str) -> None:
    items = rows_of(f"{generated}/items")
    texts = {row["text_id"]: row["text"] for row in rows_of(prompts)}
    assert [item["item_id"] for item in items] == [row["image_id"] for row in rows_of(f"{generated}/images")]
    facts = [dict(item["attributes"]) for item in items]
    assert [(f["concept"], f["country"], f["sample"], f["image_model"]) for f in facts] == [
        (concept, "Brazil", sample, "local:sd3-tiny") for concept in ("dance", "dinner") for sample in ("0", "1")
    ]
    assert [texts[f["prompt_id"]] for f in facts] == [texts[item["text_ids"][0]] for item in items]


def test_a_picture_depends_on_its_prompt_and_seed_alone(generated: str, prompts: str, tmp_path: Path) -> None:
    """Drawn alone, in a run of fewer samples: the same pixels, but for the rounding of products of another shape."""
    run(f"input={prompts}", "samples=1", "resources.judge.batch_size=1", f"out={tmp_path}/one")
    whole = {row["image_id"]: pixels(row) for row in rows_of(f"{generated}/images")}
    alone = {row["image_id"]: pixels(row) for row in rows_of(f"{tmp_path}/one/images")}
    assert len(alone) == 2
    for image_id, drawn in alone.items():
        values, again = (np.frombuffer(pixel, np.uint8).astype(int) for pixel in (whole[image_id], drawn))
        assert np.abs(values - again).max() <= 2
    run(f"input={prompts}", "seed=1", f"out={tmp_path}/other")
    others = rows_of(f"{tmp_path}/other/images")
    assert whole.keys().isdisjoint(row["image_id"] for row in others)
    assert set(whole.values()).isdisjoint(map(pixels, others))


def test_several_models_draw_into_one_table(prompts: str, tmp_path: Path) -> None:
    models = ["image_models=[local:sd3-tiny@a,local:sd3-tiny@b]", f"input={prompts}", f"out={tmp_path}/out"]
    assert run(*models)["images"]["models"] == {name: f"local:sd3-tiny@{name}" for name in "ab"}
    images, items = rows_of(f"{tmp_path}/out/images"), rows_of(f"{tmp_path}/out/items")
    drew = {row["image_id"]: row["author"] for row in images}
    assert sorted(drew.values()) == ["local:sd3-tiny@a"] * 2 + ["local:sd3-tiny@b"] * 2
    assert {item["item_id"]: dict(item["attributes"])["image_model"] for item in items} == drew
    (tmp_path / "out" / "images").joinpath("_run", "manifest.json").unlink()
    next(path for path in (tmp_path / "out" / "images").glob("*.parquet")).unlink()
    run(*models)  # draws the pictures of one model again
    assert {row["image_id"]: row["sha256"] for row in rows_of(f"{tmp_path}/out/images")} == {
        row["image_id"]: row["sha256"] for row in images
    }
    for wrong, message in (
        ("[local:sd3-tiny@a,local:sd3-tiny@a]", "duplicate a"),
        ("[nothing]", "^image_models=nothing: no such option"),
    ):
        with pytest.raises(InputError, match=message):
            run(f"image_models={wrong}", f"input={prompts}", f"out={tmp_path}/wrong")


def test_a_second_run_draws_nothing(generated: str, prompts: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(generated).rglob("*.parquet")}
    run(f"input={prompts}", "samples=2", f"out={generated}")
    assert {path: path.stat().st_mtime_ns for path in Path(generated).rglob("*.parquet")} == before


def test_items_keep_their_texts_targets_and_attributes(tmp_path: Path) -> None:
    texts = [
        {"text_id": "p", "role": "prompt", "text": "a house"},
        {"text_id": "d", "role": "document", "text": "a long text"},
    ]
    items: list[dict[str, Any]] = [
        {"item_id": "full", "text_ids": ["d", "p"], "targets": ["Peru"], "attributes": [("scenario", "news")]},
        {"item_id": "empty", "text_ids": ["d"]},
    ]
    write_units(tmp_path / "items", "items", [items])
    write_table(tmp_path / "texts", "texts", texts)
    run(f"input={tmp_path}/items", f"texts={tmp_path}/texts", "samples=2", f"out={tmp_path}/out")
    statuses = [(row["status"], row["error_kind"]) for row in rows_of(f"{tmp_path}/out/images")]
    assert statuses == [("ok", None)] * 2 + [("missing_input", "no_prompt")] * 2
    first = rows_of(f"{tmp_path}/out/items")[0]
    assert (first["text_ids"], first["targets"]) == (["d", "p"], ["Peru"])
    assert dict(first["attributes"])["scenario"] == "news"
    assert dict(first["attributes"])["prompt_id"] == "full"


def test_texts_of_other_roles_are_left_out(tmp_path: Path) -> None:
    rows = [
        {"text_id": "p", "role": "prompt", "text": "a house", "source": "my file"},
        {"text_id": "d", "role": "document", "text": "a long text"},
    ]
    write_table(tmp_path / "texts", "texts", rows)
    manifests = run(f"input={tmp_path}/texts", f"out={tmp_path}/out")
    assert {name: m["counts"]["filtered"] for name, m in manifests.items()} == {
        "images": {"other roles": 1},
        "items": {"other roles": 1},
    }
    (item,) = rows_of(f"{tmp_path}/out/items")
    assert dict(item["attributes"])["source"] == "my file"


def test_wrong_values_are_refused_before_anything_is_written(prompts: str, tmp_path: Path) -> None:
    cases = [
        (["samples=0"], "samples=0: must be above 0"),
        (["prompt_role=caption"], r"prompt_role=caption: no text of input=.* its roles are prompt"),
        (["texts=x"], "texts=x: allowed only for a table of items"),
        (["image_model.checkpoint=./nothing"], r"^image_model.checkpoint=\./nothing: no such folder"),
        (["image_model.checkpoint=local:siglip-tiny"], "not a pipeline of diffusers"),
        (["guidance=-1"], "guidance=-1: must be at least 0"),
    ]

    def check(keys: list[str], message: str) -> None:
        with pytest.raises(InputError, match=message):
            run(f"input={prompts}", f"out={tmp_path}/out", *keys)
        assert not (tmp_path / "out").exists()

    check_cases(check, cases)


def test_pictures_of_one_or_several_models_depend_on_their_settings_and_prompts() -> None:
    models: list[Any] = [SimpleNamespace(identity={"model": n}, rater=f"org/{n}", name=n) for n in "ab"]
    prompts: Any = SimpleNamespace(units=lambda drawn: drawn, identity={"input": "texts"})

    def plan(count: int, **keys: Any) -> Any:
        cfg = generate_images.GenerateImagesConfig(input="i", out="o", **keys)
        return generate_images._plan(cfg, prompts, models[:count], [], Exclusions())

    alone, both = plan(1), plan(2)
    assert (alone.out, alone.table, alone.derived) == (str(Path("o").absolute() / "images"), "images", True)
    assert (alone.identity["model"], "models" in alone.identity) == ("a", False)
    assert (both.identity["models"], "model" in both.identity) == ([{"model": "a"}, {"model": "b"}], False)
    assert (alone.metadata, both.metadata) == ({"image_model": "org/a"}, {"image_model": "org/a, org/b"})
    assert both.models == {"a": "org/a", "b": "org/b"}
    for key, value in {"seed": 1, "samples": 2, "prompt_role": "caption"}.items():
        changed = plan(1, **{key: value}).identity
        assert {name for name in changed if changed[name] != alone.identity[name]} == {key}
    assert plan(1, steps=3).identity == alone.identity | {"num_inference_steps": 3}

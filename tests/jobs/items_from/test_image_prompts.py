"""Prompts of a unit and the items of its pictures: which texts, in which order, with which attributes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.diffusion_models import DrawingSettings
from actors.ids import content_id
from actors.vlm.generation import sample_seed
from jobs.checkpoints.image_model import ImageModelConfig
from jobs.errors import InputError
from jobs.items_from.image_prompts import (
    DrawnPictures,
    ImagePromptReader,
    _item_of_text,
    items_plan,
    model_of,
    open_prompts,
)
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask
from tests.factories import write_table, write_units

DRAWN = DrawnPictures(role="prompt", samples=2, seed=7, model="m", settings="s")


def text(name: str, role: str | None = "prompt", **columns: Any) -> dict[str, Any]:
    return {"text_id": name, "role": role, "text": f"{name}.", **columns}


def prompts_of(reader: ImagePromptReader, unit: Unit) -> list[tuple[str, str]]:
    rows = reader(UnitTask(unit)).to_pylist()
    assert {row["status"] for row in rows} <= {"ok"}
    return [(row["image_id"], row["prompt"]) for row in rows]


def test_texts_of_the_role_are_prompts(tmp_path: Path) -> None:
    values = json.dumps({"scenario": "triumph", "n": 3, "sample": "of the text"})
    units = [[text("a", source=values), text("x", "note"), text("b", source="a page")], [text("y", None)], [text("c")]]
    uri = write_units(tmp_path / "texts", "texts", units)
    tables = open_prompts(uri, texts=None, role="prompt")
    first, second, third = tables.units([DRAWN])
    assert [(unit.rows, unit.extra.get("filtered")) for unit in (first, second, third)] == [
        (4, {"other roles": 1}), (0, {"other roles": 1}), (2, None),
    ]  # fmt: skip
    assert (first.name, model_of(first)) == ("unit0", "m")
    reader = ImagePromptReader(DRAWN, "texts")
    expected = [(DRAWN.image_id(name, sample), f"{name}.") for name in "ab" for sample in (0, 1)]
    assert prompts_of(reader, first) == expected
    assert prompts_of(reader, second) == []
    rows = reader.items(first)
    items = rows.tables["items"].to_pylist()
    assert [item["item_id"] for item in items] == [name for name, _ in expected]
    assert items[1]["attributes"] == [
        ("scenario", "triumph"), ("n", "3"), ("prompt_id", "a"), ("image_model", "m"), ("sample", "1"),
    ]  # fmt: skip
    assert (items[2]["attributes"][0], items[2]["text_ids"]) == (("source", "a page"), ["b"])
    assert (rows.rows_in, rows.filtered) == (5, {"other roles": 1})
    some = reader.items(replace(first, extra={"limit": 3}))
    assert (some.tables["items"].column("item_id").to_pylist(), some.rows_in) == ([name for name, _ in expected[:3]], 3)
    assert reader.items(third).tables["items"].to_pylist()[0]["attributes"][0] == ("prompt_id", "c")
    assert tables.identity.keys() == {"input"}


def test_several_models_have_units_of_their_own(tmp_path: Path) -> None:
    uri = write_units(tmp_path / "texts", "texts", [[text("a")], [text("b")]])
    other = DrawnPictures(role="prompt", samples=1, seed=7, model="n", settings="s")
    units = open_prompts(uri, texts=None, role="prompt").units([DRAWN, other])
    assert [(model_of(unit), unit.rows, unit.extra["parent"]) for unit in units] == [
        ("m", 2, "unit0"), ("m", 2, "unit1"), ("n", 1, "unit0"), ("n", 1, "unit1"),
    ]  # fmt: skip
    assert len({unit.name for unit in units}) == 4
    assert [DRAWN.has(unit) for unit in units] == [True, True, False, False]
    assert len({DRAWN.image_id("a", 0), DRAWN.image_id("a", 1), DRAWN.image_id("b", 0), other.image_id("a", 0)}) == 4
    readers = {drawn.model: ImagePromptReader(drawn, "texts") for drawn in (DRAWN, other)}
    plan = items_plan(TablePlan("R", "images", {"k": "v"}, units, {}, {}, derived=True), readers)
    assert (list(plan.units), plan.identity, plan.tables, plan.derived) == (list(units), {"k": "v"}, ("items",), True)
    ids = [plan.read(unit).tables["items"].column("item_id").to_pylist() for unit in plan.units]
    assert ids[1:3] == [[DRAWN.image_id("b", 0), DRAWN.image_id("b", 1)], [other.image_id("a", 0)]]


def test_pictures_of_other_settings_have_other_ids_and_samples_other_seeds() -> None:
    other = DrawnPictures(role="prompt", samples=2, seed=8, model="m", settings="t")
    assert DRAWN.image_id("a", 0) != other.image_id("a", 0)
    rows = DRAWN.requests([("a", "A."), ("b", "A.")]).to_pylist()
    assert [row["image_id"] for row in rows] == [DRAWN.image_id(name, sample) for name in "ab" for sample in (0, 1)]
    seeds = [row["seed"] for drawn in (DRAWN, other) for row in drawn.requests([("a", "A."), ("b", "A.")]).to_pylist()]
    assert len(set(seeds)) == 8
    assert DRAWN.requests([("b", "A.")]).to_pylist() == rows[2:]


def test_prompts_of_items_are_their_texts_of_the_role(tmp_path: Path) -> None:
    """b's texts are joined in the order of the item; c has none of the role, and d no texts and attributes."""
    texts = [text("t"), text("u"), text("n", "note"), text("e", text=None)]
    items: list[dict[str, Any]] = [
        {
            "item_id": "a",
            "kind": "description",
            "text_ids": ["t", "n"],
            "attributes": [("image_model", "old"), ("k", "v")],
        },
        {"item_id": "b", "kind": "description", "text_ids": ["u", "e", "absent", "t"], "attributes": []},
        {"item_id": "c", "kind": "description", "text_ids": ["n"], "attributes": []},
        {"item_id": "d", "kind": "description", "text_ids": None, "attributes": None},
    ]
    place, of_texts = write_table(tmp_path / "items", "items", items), write_table(tmp_path / "texts", "texts", texts)
    tables = open_prompts(place, texts=of_texts, role="prompt")
    (unit,) = tables.units([DRAWN])
    reader = ImagePromptReader(DRAWN, "items")
    expected = {"a": "t.", "b": "u.\n\nt.", "c": "", "d": ""}
    assert prompts_of(reader, unit) == [
        (DRAWN.image_id(name, sample), prompt) for name, prompt in expected.items() for sample in (0, 1)
    ]
    rows = reader.items(unit).tables["items"].to_pylist()
    assert rows[0]["attributes"] == [("k", "v"), ("prompt_id", "a"), ("image_model", "m"), ("sample", "0")]
    assert rows[6]["attributes"] == [("prompt_id", "d"), ("image_model", "m"), ("sample", "0")]
    assert (rows[3]["kind"], rows[3]["image_ids"]) == ("image", [DRAWN.image_id("b", 1)])


def test_tables_without_a_prompt_are_refused(tmp_path: Path) -> None:
    texts = write_units(tmp_path / "texts", "texts", [[text("a", "note"), text("b", "gloss")], [text("c", None)]])
    items = write_table(tmp_path / "items", "items", [{"item_id": "a", "kind": "image", "text_ids": ["a"]}])
    none = write_table(tmp_path / "none", "texts", [text("a", None)])

    def refused(uri: str, texts_key: str | None) -> str:
        with pytest.raises(InputError) as error:
            open_prompts(uri, texts=texts_key, role="prompt").units([DRAWN])
        return str(error.value)

    roles = "has this role; its roles are gloss, note"
    assert refused(texts, None) == f"prompt_role=prompt: no text of input={texts} {roles}"
    assert refused(items, texts) == f"prompt_role=prompt: no text of texts={texts} {roles}"
    assert refused(none, None).endswith("has this role; its texts have none")
    assert "set texts= to the table of their texts" in refused(items, None)
    assert "allowed only for a table of items" in refused(texts, texts)


def test_sources_that_are_no_objects_become_an_attribute() -> None:
    for source in ("a file", "[1]", "7", "[" * 100_000):
        row = {"text_id": "t", "source": source}
        assert _item_of_text(row) == {"text_ids": ["t"], "attributes": [("source", source)]}
    assert _item_of_text({"text_id": "t", "source": None})["attributes"] == []
    assert _item_of_text({"text_id": "t", "source": '{"a\\ud83c": "\\ud83c"}'})["attributes"] == [("a\ufffd", "\ufffd")]


THREE_DRAWN = DrawnPictures("prompt", samples=2, seed=7, model="m@1", settings="s")
PROMPTS = Unit("u", (), rows=3, extra={"filtered": {"other roles": 1}})


def test_a_single_model_keeps_the_names_of_the_prompts() -> None:
    alone, one_of_two = (THREE_DRAWN.unit(PROMPTS, alone=alone) for alone in (True, False))
    assert (alone.name, alone.rows, alone.parent) == ("u", 6, "u")
    assert (one_of_two.name, one_of_two.rows, one_of_two.parent) == (content_id("drawn by", "m@1", "u"), 6, "u")
    assert alone.extra == {"filtered": {"other roles": 1}, "image_model": "m@1"}
    assert one_of_two.extra == alone.extra | {"parent": "u"}
    assert THREE_DRAWN.unit(replace(PROMPTS, rows=None), alone=True).rows is None
    assert [model_of(unit) for unit in (alone, one_of_two)] == ["m@1"] * 2
    assert [replace(THREE_DRAWN, model=name).has(alone) for name in ("m@1", "m@2")] == [True, False]


def test_an_id_depends_on_the_prompt_the_model_its_settings_and_the_sample() -> None:
    others = [replace(THREE_DRAWN, model="n"), replace(THREE_DRAWN, settings="t")]
    ids = [THREE_DRAWN.image_id("p", 0), THREE_DRAWN.image_id("q", 0), THREE_DRAWN.image_id("p", 1)]
    ids += [other.image_id("p", 0) for other in others]
    assert len(set(ids)) == 5
    assert replace(THREE_DRAWN, samples=9, role="x").image_id("p", 0) == ids[0]


def test_each_sample_of_a_prompt_is_a_request_with_its_seed_and_an_item() -> None:
    rows = THREE_DRAWN.requests([("p", "a cat"), ("q", "a dog")]).to_pylist()
    expected = [(prompt, sample) for prompt in "pq" for sample in range(2)]
    assert [(row["image_id"], row["seed"]) for row in rows] == [
        (THREE_DRAWN.image_id(prompt, sample), sample_seed(7, prompt, sample)) for prompt, sample in expected
    ]
    assert [(row["prompt"], row["status"]) for row in rows] == [("a cat", "ok")] * 2 + [("a dog", "ok")] * 2
    earlier = [("theme", "sea"), ("sample", "9"), ("image_model", "old"), ("prompt_id", "older")]
    parent: dict[str, Any] = {"item_id": "old", "targets": ["t"], "attributes": earlier}
    items = THREE_DRAWN.items([("p", parent)])
    assert [item["item_id"] for item in items] == [THREE_DRAWN.image_id("p", sample) for sample in range(2)]
    for number, item in enumerate(items):
        assert (item["image_ids"], item["kind"], item["targets"]) == ([item["item_id"]], "image", ["t"])
        assert item["attributes"] == [
            ("theme", "sea"), ("prompt_id", "p"), ("image_model", "m@1"), ("sample", str(number))
        ]  # fmt: skip


def test_the_settings_cover_the_model_how_it_draws_and_the_seed() -> None:
    def settings(seed: int = 0, steps: int | None = None, revision: str = "r") -> str:
        model = ImageModelConfig(name="m", checkpoint="c", revision=revision)
        drawn = DrawnPictures.by(model, DrawingSettings(seed=seed, steps=steps), role="prompt", samples=3)
        assert (drawn.role, drawn.samples, drawn.seed, drawn.model) == ("prompt", 3, seed, model.rater)
        return drawn.settings

    assert settings() == settings()
    assert len({settings(), settings(seed=1), settings(steps=4), settings(revision="s")}) == 4

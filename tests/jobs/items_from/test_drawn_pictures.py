"""Units, ids, seeds and items of drawn pictures."""

from dataclasses import replace
from typing import Any

from actors.diffusion.settings import DrawingSettings
from actors.generator import sample_seed
from actors.ids import content_id
from jobs.items_from.drawn_pictures import DrawnPictures, model_of
from jobs.models.image_model import ImageModelConfig
from jobs.store.units import Unit

DRAWN = DrawnPictures("prompt", samples=2, seed=7, model="m@1", settings="s")
PROMPTS = Unit("u", (), rows=3, extra={"filtered": {"other roles": 1}})


def test_a_single_model_keeps_the_names_of_the_prompts() -> None:
    alone, one_of_two = (DRAWN.unit(PROMPTS, alone=alone) for alone in (True, False))
    assert (alone.name, alone.rows, alone.parent) == ("u", 6, "u")
    assert (one_of_two.name, one_of_two.rows, one_of_two.parent) == (content_id("drawn by", "m@1", "u"), 6, "u")
    assert alone.extra == {"filtered": {"other roles": 1}, "image_model": "m@1"}
    assert one_of_two.extra == alone.extra | {"parent": "u"}
    assert DRAWN.unit(replace(PROMPTS, rows=None), alone=True).rows is None
    assert [model_of(unit) for unit in (alone, one_of_two)] == ["m@1"] * 2
    assert [replace(DRAWN, model=name).has(alone) for name in ("m@1", "m@2")] == [True, False]


def test_an_id_depends_on_the_prompt_the_model_its_settings_and_the_sample() -> None:
    others = [replace(DRAWN, model="n"), replace(DRAWN, settings="t")]
    ids = [DRAWN.image_id("p", 0), DRAWN.image_id("q", 0), DRAWN.image_id("p", 1)]
    ids += [other.image_id("p", 0) for other in others]
    assert len(set(ids)) == 5
    assert replace(DRAWN, samples=9, role="x").image_id("p", 0) == ids[0]


def test_each_sample_of_a_prompt_is_a_request_with_its_seed_and_an_item() -> None:
    rows = DRAWN.requests([("p", "a cat"), ("q", "a dog")]).to_pylist()
    expected = [(prompt, sample) for prompt in "pq" for sample in range(2)]
    assert [(row["image_id"], row["seed"]) for row in rows] == [
        (DRAWN.image_id(prompt, sample), sample_seed(7, prompt, sample)) for prompt, sample in expected
    ]
    assert [(row["prompt"], row["status"]) for row in rows] == [("a cat", "ok")] * 2 + [("a dog", "ok")] * 2
    earlier = [("theme", "sea"), ("sample", "9"), ("image_model", "old"), ("prompt_id", "older")]
    parent: dict[str, Any] = {"item_id": "old", "targets": ["t"], "attributes": earlier}
    items = DRAWN.items([("p", parent)])
    assert [item["item_id"] for item in items] == [DRAWN.image_id("p", sample) for sample in range(2)]
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

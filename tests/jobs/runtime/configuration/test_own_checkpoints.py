"""A checkpoint that is given by itself has nothing that an option says about its own."""

from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from tests.cases import check_cases

QWEN = "Qwen/Qwen2.5-VL-7B-Instruct"
JUDGE = ["input=y", "rubric=century_labels", "out=x"]


def model(*overrides: str) -> tuple[str, str, str | None, float | None, str | None]:
    """Return the model of a judge: name, checkpoint, revision, memory, licence."""
    one = config.load("judge", cli.job("judge").schema, [*JUDGE, *overrides]).model
    return one.name, one.checkpoint, one.revision, one.memory_gb, one.licence


def test_another_checkpoint_has_its_own_name_and_no_revision() -> None:
    cases = [
        ("org/other", "other"),
        ("/models/mine/", "mine"),
        ("s3://bucket/models/mine", "mine"),
        ("local:llama-tiny", "llama-tiny"),
    ]

    def check(checkpoint: str, name: str) -> None:
        assert model("model=qwen2.5-vl-7b", f"model.checkpoint={checkpoint}") == (name, checkpoint, None, None, None)

    check_cases(check, cases)


def test_the_options_own_checkpoint_keeps_what_the_option_says() -> None:
    named = model("model=qwen2.5-vl-7b")
    assert named[:2] == ("qwen2.5-vl-7b", QWEN)
    assert None not in named
    assert model("model=qwen2.5-vl-7b", f"model.checkpoint={QWEN}") == named
    assert model("model=qwen2.5-vl-7b", "model.revision=main") == (*named[:2], "main", *named[3:])


def test_what_is_given_with_the_checkpoint_stays() -> None:
    keys = ["model.revision=v2", "model.name=mine", "model.memory_gb=3", "model.licence=MIT"]
    assert model("model.checkpoint=org/other", *keys) == ("mine", "org/other", "v2", 3.0, "MIT")
    assert model(*keys, "model.checkpoint=org/other") == ("mine", "org/other", "v2", 3.0, "MIT")


def test_models_that_draw_are_treated_alike() -> None:
    overrides = ["input=y", "out=x", "image_model.checkpoint=s3://bucket/sd"]
    drawn = config.load("generate_images", cli.job("generate_images").schema, overrides).image_model
    assert (drawn.name, drawn.revision, drawn.licence) == ("sd", None, None)


def test_an_encoder_leaves_the_weights_of_the_default_behind() -> None:
    def encoder(*overrides: str) -> tuple[str | None, str | None]:
        one = config.load("embed", cli.job("embed").schema, ["input=y", "out=x", *overrides]).embedder
        return one.name, one.pretrained

    assert encoder()[1] is not None
    assert encoder("embedder.checkpoint=transformers:/models/mine") == ("mine", None)
    assert encoder("embedder.checkpoint=ViT-B-32", "embedder.pretrained=openai") == ("ViT-B-32", "openai")


def test_groups_without_a_checkpoint_have_none() -> None:
    keys = {
        "model": {"checkpoint": "org/a", "memory_gb": "${nowhere}"},
        "same": "${model}",
        "judge": {"checkpoint": "${model.checkpoint}"},
        "ray": {"address": None},
        "out": "o",
        "absent": None,
    }
    assert config._checkpoints(keys) == {"model": "org/a", "judge": "${model.checkpoint}"}


def test_a_model_whose_checkpoint_is_that_of_another_keeps_its_name() -> None:
    judge = {"checkpoint": "${folder}/new", "name": "n", "revision": "r"}
    values = {"folder": "/m", "judge": judge, "other": judge}
    of_files = {"judge": "/m/old", "other": "${folder}/new"}
    changed = config._without_descriptions(values, of_files, {"judge.checkpoint"})
    assert changed == {"folder": "/m", "judge": judge | {"revision": None}, "other": judge}

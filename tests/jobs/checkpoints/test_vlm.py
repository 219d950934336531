"""The vision-language model of a job: what identifies it, the keys that its errors name, comparisons."""

from dataclasses import replace

import pytest

from jobs.checkpoints import vlm
from jobs.checkpoints.vlm import ModelConfig, check_bounds

MODEL = ModelConfig(
    name="seven", checkpoint="me/seven", revision="abc", dtype="float32", max_pixels=90_000, min_pixels=900
)


def test_what_changes_the_answers_identifies_a_model() -> None:
    pixels = {"max_pixels": 90_000, "min_pixels": 900}
    assert MODEL.identity == {"model": "me/seven", "revision": "abc", "dtype": "float32", "template": {}, **pixels}
    assert MODEL.pixels == pixels
    assert MODEL.rater == "me/seven@abc"
    same = replace(MODEL, name="other", memory_gb=3.0, licence="mine", device_map="cpu", offload=True)
    assert (same.identity, same.rater) == (MODEL.identity, MODEL.rater)


def test_bounds_of_pixels_are_refused_by_their_key() -> None:
    check_bounds(MODEL)
    check_bounds(replace(MODEL, min_pixels=90_000))
    for key, wrong in (
        ("model.max_pixels=0: ", replace(MODEL, max_pixels=0)),
        ("model.min_pixels=90001: ", replace(MODEL, min_pixels=90_001)),
    ):
        with pytest.raises(ValueError, match=f"^{key}"):
            check_bounds(wrong)


def test_which_architectures_share_prefixes_and_what_is_equal() -> None:
    shares = {kind: vlm.shares_prefixes(kind) for kind in ("qwen3_5", "gpt2", "deepseek_v32", "no_such", None)}
    assert shares == {"qwen3_5": True, "gpt2": True, "deepseek_v32": False, "no_such": None, None: None}
    words = {kind: vlm.comparison_summary(kind) for kind in ("qwen3_5", "deepseek_v32", "no_such", None)}
    assert words == {"qwen3_5": "equal", "deepseek_v32": "equal, naive", "no_such": "", None: ""}

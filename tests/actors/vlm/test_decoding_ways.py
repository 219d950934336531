"""A way of decoding is used if the first prompts show that its texts are those of whole passes."""

import logging
from typing import Any

import pytest

from actors.vlm import decoding, decoding_ways, shared_prefix
from actors.vlm.chat import ChatEncoder
from actors.vlm.decoding_ways import DecodingWays, Way, fits
from actors.vlm.engines import NaiveEngine
from actors.vlm.generation import TextGenerator
from actors.vlm.model_inputs import collate
from actors.vlm.settings import Sampling
from tests.actors.vlm.helpers import picture

GREEDY = Sampling(temperature=0, max_tokens=5)


@pytest.fixture(scope="module")
def prompts(vlm: tuple[Any, Any]) -> list[dict[str, Any]]:
    """Prompts with pictures: two of one length, and a longer one with which they are padded."""
    chat = ChatEncoder(vlm[1])
    texts = ("What is this?", "What is this?", "And what is this here?")
    return [chat.encode([text, None], [picture(seed)]) for seed, text in enumerate(texts)]


@pytest.fixture
def asked(vlm: tuple[Any, Any], prompts: list[dict[str, Any]]) -> tuple[Any, list[dict[str, Any]]]:
    return vlm[0], prompts


def texts_of(model: Any, prompts: list[dict[str, Any]]) -> list[Any]:
    return TextGenerator(model, pad_id=0, ends=[]).generate(prompts, seeds=[[1, 2]] * len(prompts), sampling=GREEDY)


def ways_without(wrong: set[Way], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let some ways compute other likelihoods."""
    decode = decoding_ways.decode

    def changed(model: Any, prompts: Any, way: Way, **options: Any) -> None:
        choose = options.pop("choose")
        if way in wrong:
            decode(model, prompts, way, **options, choose=lambda logits: choose(-logits))
        else:
            decode(model, prompts, way, **options, choose=choose)

    monkeypatch.setattr(decoding_ways, "decode", changed)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (set(), "padded"),
        ({"padded"}, "equal"),
        ({"padded", "equal"}, "alone"),
        ({"padded", "equal", "alone"}, "whole"),
    ],
)
def test_the_first_way_with_the_likelihoods_of_whole_passes(
    asked: tuple[Any, list[dict[str, Any]]],
    wrong: set[Way],
    expected: Way,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, prompts = asked
    ways_without(wrong, monkeypatch)
    ways = DecodingWays(model, pad_id=0)
    with caplog.at_level(logging.WARNING):
        assert ways.of(prompts, steps=8) == expected
        assert len(caplog.records) == len(wrong)
        monkeypatch.setattr(ways, "_compared", lambda *_, **__: pytest.fail("compared again"))
        assert ways.of(prompts[::-1], steps=8) == expected
    assert fits("padded", 10, 8) > fits("padded", 10, 7)
    assert fits("equal", 10, 10) > fits("equal", 10, 9)
    assert not fits(expected, 10, 10) or expected in ("padded", "equal")


def test_a_pictures_effect_on_another_text_is_seen_below_rounding(
    vlm: tuple[Any, Any], prompts: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two prompts of which the second shows the first one's picture, in half precision, in which much is tolerated."""
    import torch

    def mixed(batch: Any, *, pad_id: int) -> Any:
        inputs = collate(batch, pad_id=pad_id)
        half = len(inputs["pixel_values"]) // 2
        inputs["pixel_values"][half:] = inputs["pixel_values"][:half]
        return inputs

    monkeypatch.setattr(shared_prefix, "tolerance", lambda _: 100.0)
    model = vlm[0].to(torch.bfloat16)
    try:
        assert DecodingWays(model, pad_id=0).of(prompts[:2], steps=4) == "equal"
        monkeypatch.setattr(decoding_ways, "collate", mixed)
        assert DecodingWays(model, pad_id=0).of(prompts[:2], steps=4) == "alone"
    finally:
        model.to(torch.float32)


def test_a_model_without_a_cache_writes_the_same_texts(
    vlm: tuple[Any, Any],
    prompts: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = texts_of(vlm[0], prompts)
    monkeypatch.setattr(decoding, "CACHES", ())
    with caplog.at_level(logging.WARNING):
        assert texts_of(vlm[0], prompts) == expected
    assert "returns no cache" in caplog.text


def test_a_prompt_that_cannot_pass_says_nothing_about_a_way(
    vlm: tuple[Any, Any], prompts: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {name: tensor for name, tensor in prompts[0].items() if name != "pixel_values"}
    broken["image_grid_thw"] = prompts[0]["image_grid_thw"] * 3
    ways = DecodingWays(vlm[0], pad_id=0)
    assert ways.of([broken], steps=4) == "alone"
    assert ways.of(prompts, steps=4) == "padded"
    endless = NaiveEngine.log_probabilities
    monkeypatch.setattr(
        NaiveEngine, "log_probabilities", lambda *arguments, **options: endless(*arguments, **options) * float("nan")
    )
    assert DecodingWays(vlm[0], pad_id=0).of(prompts, steps=4) == "alone", "likelihoods that are not finite"

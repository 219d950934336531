"""Decoding into buffers writes the texts that transformers' own steps write; without a GPU nothing is recorded."""

import copy
from typing import Any

import pytest

from actors.vlm import decode_graph, generation
from actors.vlm.encoding import ChatEncoder
from actors.vlm.generation import Generated, TextGenerator
from actors.vlm.sampling import Sampling
from tests.actors.vlm.helpers import Load, picture

SEEDS = [[10, 11], [20, 21], [30, 31]]


def texts(model: Any, processor: Any, *, max_tokens: int = 40, temperature: float = 1.0) -> list[list[Generated]]:
    chat = ChatEncoder(processor)
    shown = [None, picture(1), picture(2, width=200)] if chat.sees_pictures else [None] * 3
    prompts = [
        chat.encode([*((None,) if one else ()), "Tell me more. " * (1 + place)], [one] if one else [])
        for place, one in enumerate(shown)
    ]
    engine = TextGenerator(model, pad_id=0, ends=[])
    results = engine.generate(prompts, seeds=SEEDS, sampling=Sampling(temperature=temperature, max_tokens=max_tokens))
    return [result for result in results if isinstance(result, list)]


@pytest.mark.parametrize("name", ["qwen2.5-vl-tiny", "qwen3-vl-tiny", "llama-tiny", "qwen2-tiny", "qwen3-tiny"])
def test_buffers_give_the_texts_of_a_growing_cache(load: Load, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = load(name)
    model = copy.deepcopy(model).double()  # in float32 a number may fall within rounding of two tokens' boundary
    monkeypatch.setattr(generation, "PADDING_SHARE", 1.0)  # prompts of any length in a group: there is padding
    expected = texts(model, processor)
    monkeypatch.setattr(decode_graph, "can_record", lambda *_, **__: True)
    monkeypatch.setattr(decode_graph, "GROWTH", 16)  # they grow twice
    grown: list[int] = []
    rows: list[int] = []
    begin = decode_graph.GraphDecoder.__init__

    def begun(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        rows.append(len(self._tokens))

    monkeypatch.setattr(decode_graph.GraphDecoder, "__init__", begun)
    grow = decode_graph.GraphDecoder._grow
    monkeypatch.setattr(
        decode_graph.GraphDecoder,
        "_grow",
        lambda self: grown.append(self._length) or grow(self),  # type: ignore[func-returns-value]
    )
    assert texts(model, processor) == expected
    assert len(expected) == 3
    assert len(grown) >= 2
    assert sorted(rows) == ([2, 4] if "-vl-" in name else [6])  # a group that failed would be decoded prompt by prompt
    assert texts(model, processor, max_tokens=3) == [
        [one._replace(tokens=one.tokens[:3]) for one in row] for row in expected
    ]


def test_where_steps_are_recorded(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    class OnGpu:
        def __init__(self, model: Any, places: dict[str, Any]) -> None:
            self.config, self.hf_device_map, self.device = model.config, places, type("Place", (), {"type": "cuda"})()

    qwen, gemma = (load(name)[0] for name in ("qwen2.5-vl-tiny", "gemma3-tiny"))
    cases = {
        "one GPU": (OnGpu(qwen, {"": 0}), 64, True),
        "few steps": (OnGpu(qwen, {"": 0}), 4, False),
        "two GPUs": (OnGpu(qwen, {"a": 0, "b": 1}), 64, False),
        "windows": (OnGpu(gemma, {"": 0}), 64, False),
        "a CPU": (qwen, 64, False),
    }
    results = {name: decode_graph.can_record(model, steps=steps) for name, (model, steps, _) in cases.items()}
    assert results == {name: expected for name, (_, _, expected) in cases.items()}

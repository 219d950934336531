"""The likeliest texts about items, by stand-ins for a model and its prompts."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from actors import generator
from actors.vlm.engine_sample import EngineSample
from actors.vlm.errors import ScoringError
from actors.vlm.settings import ModelSettings, Sampling, SamplingSettings

MODEL = ModelSettings(checkpoint="m")


def texts_of(
    results: list[Any], monkeypatch: pytest.MonkeyPatch, *, engine: str = "transformers", **more: Any
) -> EngineSample:
    """Return the texts that a model with `results` writes about two items, a third one having no prompt."""
    settings: Any = SamplingSettings(temperature=0, max_tokens=2, memory_budget_gb=0.5)

    def generate(inputs: list[str], *, seeds: list[list[int]], sampling: Sampling) -> list[Any]:
        assert (inputs, seeds, sampling) == (["a", "b"], [[0], [0]], Sampling(0.0, 1.0, 2))
        return results

    def load(*arguments: Any) -> Any:
        assert arguments == (settings, MODEL, None)
        return writer, None, facts

    def preparer(**keys: Any) -> Any:
        assert keys == {"model": MODEL, "instruction": "I", "keeps_pictures": engine == "vllm"}
        return lambda items: items

    writer = SimpleNamespace(
        generate=generate,
        token_logprobs=lambda prompt, text: [-float(token) for token in text],
    )
    facts = SimpleNamespace(dtype="float32", engine="e")
    monkeypatch.setattr(generator, "PromptPreparer", preparer)
    monkeypatch.setattr(generator, "from_bytes", bytes.decode)
    monkeypatch.setattr(generator, "load_in_vllm" if engine == "vllm" else "load_in_transformers", load)
    items = pa.table({"inputs": pa.array([b"a", None, b"b"], pa.binary())})
    prepare = {"model": MODEL, "instruction": "I", "keeps_pictures": None}
    return generator.greedy_texts(items, engine=engine, prepare=prepare, max_tokens=2, memory_budget_gb=0.5, **more)


def test_texts_have_their_tokens_ends_and_log_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    written = [
        [SimpleNamespace(tokens=[1, 2], finish_reason="length")],
        [SimpleNamespace(tokens=[], finish_reason="stop")],
    ]
    result = texts_of(written, monkeypatch)
    assert result == ([[1, 2], []], ["length", "stop"], [[-1.0, -2.0], []], "float32", "e", 0.0)
    assert texts_of(written, monkeypatch, engine="vllm") == result
    others = texts_of(written, monkeypatch, texts=[[3], [4, 5]])
    assert (others.texts, others.logprobs) == ([[1, 2], []], [[-3.0], [-4.0, -5.0]])


def test_a_prompt_without_a_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"^too long$"):
        texts_of([ScoringError("prompt_too_long", "too long")], monkeypatch)

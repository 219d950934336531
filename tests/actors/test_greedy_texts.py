"""The likeliest texts about items, by stand-ins for a model and its prompts."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from actors import greedy_texts
from actors.vlm.errors import ScoringError
from actors.vlm.settings import ModelSettings


def texts_of(results: list[Any], monkeypatch: pytest.MonkeyPatch, **more: Any) -> greedy_texts.GreedyTexts:
    """Return the texts that a model with `results` writes about two items, a third one having no prompt."""
    generator = SimpleNamespace(
        generate=lambda inputs, **_: results if inputs == ["a", "b"] else [],
        token_logprobs=lambda prompt, text: [-float(token) for token in text],
    )
    facts = SimpleNamespace(dtype="float32", engine="e")
    monkeypatch.setattr(greedy_texts, "PromptPreparer", lambda **_: lambda items: items)
    monkeypatch.setattr(greedy_texts, "from_bytes", bytes.decode)
    monkeypatch.setattr(greedy_texts, "load_in_transformers", lambda *_: (generator, None, facts))
    items = pa.table({"inputs": pa.array([b"a", None, b"b"], pa.binary())})
    prepare = {"model": ModelSettings(checkpoint="m")}
    return greedy_texts.greedy_texts(items, engine="naive", prepare=prepare, max_tokens=2, **more)


def test_texts_have_their_tokens_ends_and_log_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    written = [
        [SimpleNamespace(tokens=[1, 2], finish_reason="length")],
        [SimpleNamespace(tokens=[], finish_reason="stop")],
    ]
    result = texts_of(written, monkeypatch)
    assert result == ([[1, 2], []], ["length", "stop"], [[-1.0, -2.0], []], "float32", "e")
    others = texts_of(written, monkeypatch, texts=[[3], [4, 5]])
    assert (others.texts, others.logprobs) == ([[1, 2], []], [[-3.0], [-4.0, -5.0]])


def test_a_prompt_without_a_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"^too long$"):
        texts_of([ScoringError("prompt_too_long", "too long")], monkeypatch)

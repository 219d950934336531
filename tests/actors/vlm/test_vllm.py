"""The engine vLLM, with a fake of its interface: the same rows as other engines; prompts, statuses and failures."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from actors.vlm import vllm_engine
from actors.vlm.errors import EngineError
from actors.vlm.scoring_requests import AnswerCodes
from actors.vlm.vllm_engine import following
from tests.actors.vlm import engine_rows, fake_vllm
from tests.actors.vlm.helpers import MODEL

pytestmark = pytest.mark.long
DRAWS = ((1.0, 0.9), (0.0, 1.0))
TEXT_MODEL = "local:llama-tiny"


@pytest.fixture
def vllm() -> Iterator[type[fake_vllm.LLM]]:
    with fake_vllm.installed() as engine:
        yield engine


def responses(engine: str, **keys: Any) -> list[dict[str, Any]]:
    chosen: dict[str, Any] = {"count": 2, "draws": DRAWS, "max_tokens": 3, **keys}
    return engine_rows.responses(MODEL, engine, **chosen)


def test_texts_are_those_of_the_other_engine(vllm: type[fake_vllm.LLM]) -> None:
    expected, rows = responses("transformers"), responses("vllm")
    assert engine_rows.differences(expected, rows, tolerance=0) == []
    assert len({row["text"] for row in rows}) > 3
    (options,) = vllm.made
    assert options["mm_processor_kwargs"]["images_kwargs"]["size"]["longest_edge"] == engine_rows.MOST_PIXELS
    assert (options["enable_prefix_caching"], options["trust_remote_code"]) == (True, False)
    assert options["kv_cache_memory_bytes"] == 300_000_000


def test_ratings_are_those_of_the_other_engines(vllm: type[fake_vllm.LLM]) -> None:
    rubrics = [(engine_rows.relevance(), 1), (engine_rows.relevance(reply="label"), 1)]
    expected = engine_rows.ratings(MODEL, "cascade", rubrics, count=2)
    rows = engine_rows.ratings(MODEL, "vllm", rubrics, count=2)
    assert engine_rows.differences(expected, rows, tolerance=1e-4) == []
    assert {row["method"] for row in rows} == {"closed", "closed_sequence"}
    # One call for all items of a batch: one prompt per label, and per beginning of an answer of several tokens.
    assert vllm.calls[0] == 2 * 3
    assert (len(vllm.calls), vllm.calls[1] % 6, vllm.calls[1] > 6) == (2, 0, True)


def test_reasonings_and_the_ratings_after_them_are_those_of_the_other_engine(vllm: type[fake_vllm.LLM]) -> None:
    expected, rows = engine_rows.reasoned(MODEL, "auto"), engine_rows.reasoned(MODEL, "vllm")
    assert engine_rows.differences(expected, rows, tolerance=1e-4) == []
    assert {row["status"] for row in rows} == {"ok"}
    assert len({row["comment"] for row in rows}) > 6
    assert vllm.calls == [2 * 3 * 2] * 2  # the texts of all items, then the answers after them


def test_a_call_shows_as_many_pictures_as_fit_into_memory(
    vllm: type[fake_vllm.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    rubrics = [(engine_rows.relevance(), 1)]
    expected = engine_rows.ratings(MODEL, "vllm", rubrics, count=3)
    vllm.calls.clear()
    monkeypatch.setattr(vllm_engine, "PIXELS_AT_ONCE", 400 * 300 + 28 * 28)
    rows = engine_rows.ratings(MODEL, "vllm", rubrics, count=3)
    assert engine_rows.differences(expected, rows, tolerance=0) == []
    assert vllm.calls == [3, 6]  # pictures of 120 x 90, 400 x 300 and 28 x 28 pixels


def test_text_models_are_asked_without_pictures(vllm: type[fake_vllm.LLM]) -> None:
    rows = engine_rows.responses(TEXT_MODEL, "vllm", shows=False, count=1, draws=DRAWS[:1], max_tokens=2)
    expected = engine_rows.responses(TEXT_MODEL, "transformers", shows=False, count=1, draws=DRAWS[:1], max_tokens=2)
    assert engine_rows.differences(expected, rows, tolerance=0) == []
    assert "limit_mm_per_prompt" not in vllm.made[0]


def test_a_model_is_split_over_the_gpus_of_the_actor(
    vllm: type[fake_vllm.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(vllm_engine, "has_cuda", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    model = vllm_engine.VllmModel(engine_rows.model_settings(TEXT_MODEL))
    (options,) = vllm.made
    assert (options["tensor_parallel_size"], options["distributed_executor_backend"]) == (2, "mp")
    assert (options["enforce_eager"], options["kv_cache_memory_bytes"]) == (False, None)
    assert model.facts.engine.endswith(", 2 x cuda")
    model = vllm_engine.VllmModel(replace(engine_rows.model_settings(TEXT_MODEL), device_map="cpu"))
    assert (vllm.made[1]["tensor_parallel_size"], vllm.made[1]["enforce_eager"]) == (1, True)
    assert model.facts.engine.endswith(", cpu")


def test_a_prompt_that_the_engine_refuses_fails_alone(
    vllm: type[fake_vllm.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_large(prompt: Mapping[str, Any]) -> Exception | None:
        return ValueError("bad picture") if prompt["multi_modal_data"]["image"][0].width > 200 else None

    monkeypatch.setattr(vllm, "fails", staticmethod(refuse_large))
    rows = responses("vllm", count=3, draws=DRAWS[1:])
    assert [row["status"] for row in rows] == ["truncated"] * 2 + ["error"] * 2 + ["truncated"] * 2
    rows = rows[:4]
    assert (rows[-1]["error_kind"], rows[-1]["error_message"]) == ("ValueError", "bad picture")


def test_other_failures_end_the_engine(vllm: type[fake_vllm.LLM], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "fails", staticmethod(lambda prompt: RuntimeError("EngineDeadError")))
    with pytest.raises(EngineError, match="EngineDeadError"):
        responses("vllm")
    with pytest.raises(EngineError, match="EngineDeadError"):
        engine_rows.ratings(MODEL, "vllm", [(engine_rows.relevance(), 1)], count=1)


def test_a_prompt_longer_than_the_cache_is_an_error(vllm: type[fake_vllm.LLM], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "limit", 60)
    rows = responses("vllm", draws=DRAWS[1:])
    assert {(row["status"], row["error_kind"]) for row in rows} == {("error", "out_of_memory")}
    rated = engine_rows.ratings(MODEL, "vllm", [(engine_rows.relevance(), 1)], count=1)
    assert {(row["status"], row["error_kind"]) for row in rated} == {("error", "out_of_memory")}


def test_other_tokens_than_the_processors_are_an_error(
    vllm: type[fake_vllm.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = vllm._output

    def longer(self: Any, *arguments: Any) -> Any:
        result = output(self, *arguments)
        result.prompt_token_ids.append(0)
        return result

    monkeypatch.setattr(vllm, "_output", longer)
    rows = responses("vllm", draws=DRAWS[1:])
    assert {(row["status"], row["error_kind"]) for row in rows} == {("error", "other_prompt")}
    rated = engine_rows.ratings(MODEL, "vllm", [(engine_rows.relevance(), 1)], count=1)
    assert {(row["status"], row["error_kind"]) for row in rated} == {("error", "other_prompt")}


def test_likelihoods_that_are_not_finite_are_an_error(
    vllm: type[fake_vllm.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = vllm._output

    def not_finite(self: Any, *arguments: Any) -> Any:
        result = output(self, *arguments)
        result.outputs[0].cumulative_logprob = float("nan")
        for entry in result.outputs[0].logprobs[0].values():
            entry.logprob = float("nan")
        return result

    monkeypatch.setattr(vllm, "_output", not_finite)
    assert {row["status"] for row in responses("vllm", draws=DRAWS[1:])} == {"error"}
    rated = engine_rows.ratings(MODEL, "vllm", [(engine_rows.relevance(), 1)], count=1)
    assert {(row["status"], row["error_kind"]) for row in rated} == {("error", "not_finite")}


def test_the_tokens_after_each_beginning_of_an_answer() -> None:
    codes = AnswerCodes("sequence", (), ((5, 6, 1), (5, 6, 7, 1), (8, 1)))
    assert following(codes) == {(): [5, 8], (5,): [6], (5, 6): [1, 7], (5, 6, 7): [1], (8,): [1]}

"""How prompts are divided into calls of vLLM, and which prompt has which parameters; without vLLM."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.vlm import vllm_engine
from actors.vlm.errors import ScoringError
from actors.vlm.generation import Generated
from actors.vlm.model_inputs import VllmPrompt
from actors.vlm.settings import Sampling
from actors.vlm.vllm_engine import DRAWS_KEY, VllmModel, VllmTextGenerator


def picture(pixels: int) -> Any:
    return SimpleNamespace(width=pixels, height=1)


def prompt(number: int, *pictures: Any) -> Any:
    data = {"multi_modal_data": {"image": list(pictures)}} if pictures else {}
    return SimpleNamespace(request={"number": number} | data, tokens=[number])


def test_pictures_that_prompts_share_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_engine, "PIXELS_AT_ONCE", 100)
    one, other, large = picture(60), picture(40), picture(150)
    cases: list[tuple[list[tuple[Any, ...]], list[tuple[int, int]]]] = [
        ([], []),
        ([(), ()], [(0, 2)]),
        ([(one,), (other,)], [(0, 2)]),  # as many as are allowed
        ([(one,), (picture(41),)], [(0, 1), (1, 2)]),
        ([(one,), (one,), (other,), (one, other)], [(0, 4)]),
        ([(one,), (other,), (one,), (other,), (picture(1),)], [(0, 4), (4, 5)]),
        ([(large,), (large,), ()], [(0, 3)]),
        ([(large,), (one,), (other,), (large,)], [(0, 1), (1, 3), (3, 4)]),
        ([(one,), (picture(50),), (one,)], [(0, 1), (1, 2), (2, 3)]),  # its pixels are counted anew
    ]
    for pictures, calls in cases:
        prompts = [prompt(number, *shown) for number, shown in enumerate(pictures)]
        assert list(vllm_engine._calls(prompts)) == calls


def test_each_prompt_has_its_own_parameters_in_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt that vLLM refuses fails alone; the others of its call are asked again."""
    monkeypatch.setattr(vllm_engine, "PIXELS_AT_ONCE", 100)
    asked: list[list[tuple[int, str]]] = []

    def generate(requests: list[Any], params: list[str], *, use_tqdm: bool) -> list[Any]:
        asked.append([(request["number"], values) for request, values in zip(requests, params, strict=True)])
        if any(request["number"] == 4 for request in requests):
            raise ValueError("too many pictures")
        return [SimpleNamespace(prompt_token_ids=[request["number"]], text=values)
                for request, values in zip(requests, params, strict=True)]  # fmt: skip

    model: Any = object.__new__(VllmModel)
    model._llm, model.label = SimpleNamespace(generate=generate), "model m"
    prompts = [prompt(number, picture(50)) for number in range(5)]
    prompts[1].tokens = [1, 1]
    outputs = model.run(prompts, [f"p{number}" for number in range(5)])
    assert asked == [[(0, "p0"), (1, "p1")], [(2, "p2"), (3, "p3")], [(4, "p4")]]
    texts = [getattr(output, "text", None) or (output.kind, output.message) for output in outputs]
    message = "vLLM makes 1 tokens of this prompt, the processor 2"
    assert texts == ["p0", ("other_prompt", message), "p2", "p3", ("ValueError", "too many pictures")]
    asked.clear()
    monkeypatch.setattr(vllm_engine, "PIXELS_AT_ONCE", 1000)
    assert [getattr(output, "text", None) for output in model.run(prompts[2:], ["a", "b", "c"])] == ["a", "b", None]
    assert asked == [[(2, "a"), (3, "b"), (4, "c")], [(2, "a")], [(3, "b"), (4, "c")], [(3, "b")], [(4, "c")]]


def completion(tokens: list[int], likelihood: float | None, finish_reason: str) -> Any:
    text = SimpleNamespace(token_ids=tokens, cumulative_logprob=likelihood, finish_reason=finish_reason)
    return SimpleNamespace(outputs=[text])


def generator_with(outputs: list[Any], asked: list[tuple[int, dict[str, Any]]], lengths: list[Any]) -> Any:
    """Return a generator whose model has 100 positions and memory for 80, and refuses a prompt of 99 tokens.

    Args:
        outputs: what vLLM returns.
        asked: gets the length and the parameters of each prompt.
        lengths: gets each length that was checked, and the positions for it.
    """

    def too_long(tokens: int, *, positions: int) -> ScoringError | None:
        lengths.append((tokens, positions))
        return ScoringError("prompt_too_long", "no") if tokens == 99 else None

    def run(prompts: list[Any], params: list[dict[str, Any]]) -> list[Any]:
        asked.extend(zip([len(entry.tokens) for entry in prompts], params, strict=True))
        return outputs

    text_config = SimpleNamespace(max_position_embeddings=100)
    model: Any = SimpleNamespace(
        config=SimpleNamespace(get_text_config=lambda: text_config), max_positions=80, too_long=too_long, run=run,
        params=lambda **values: values,
    )  # fmt: skip
    return VllmTextGenerator(model, ends=[9])


@pytest.mark.parametrize("temperature", [0.5, 0.0])
def test_texts_have_seeds_of_their_own_and_room_for_what_follows(temperature: float) -> None:
    asked: list[tuple[int, dict[str, Any]]] = []
    lengths: list[Any] = []
    outputs = [completion([1, 9], -1.0, "stop") for _ in range(4)]
    generator = generator_with([*outputs, ScoringError("other_prompt", "no")], asked, lengths)
    generator.reserve(5)
    prompts = [VllmPrompt({}, [0] * size) for size in (40, 99, 78, 5)]
    sampling = Sampling(temperature=temperature, top_p=0.9, max_tokens=50)
    results = generator.generate(prompts, seeds=[[1, 2, 3], [4], [5], [6]], sampling=sampling)
    text = Generated([1], "stop")
    assert [result.kind if isinstance(result, ScoringError) else result for result in results] == [
        [text] * 3, "prompt_too_long", [text], "other_prompt"
    ]  # fmt: skip
    assert lengths == [(size, 95) for size in (40, 99, 78, 5)]
    expected = [(40, 1, 35), (40, 2, 35), (40, 3, 35), (78, 5, 1), (5, 6, 50)]
    assert [(size, params["max_tokens"]) for size, params in asked] == [(size, steps) for size, _, steps in expected]
    draws = [{DRAWS_KEY: [seed, 0.5, 0.9, steps]} for _, seed, steps in expected]
    assert [params["extra_args"] for _, params in asked] == (draws if temperature else [None] * 5)
    assert {(*params["stop_token_ids"], params["logprobs"]) for _, params in asked} == {(9, 0)}


def test_a_text_ends_as_vllm_says() -> None:
    drawn: list[int] = []

    def generated(*output: Any) -> Any:
        generator = generator_with([completion(*output)], [], [])
        generator.on_tokens = drawn.append
        (result,) = generator.generate([VllmPrompt({}, [0])], seeds=[[1]], sampling=Sampling())
        return result.kind if isinstance(result, ScoringError) else result

    assert generated([1, 2, 9], -1.0, "stop") == [Generated([1, 2], "stop")]
    assert generated([1, 9, 2], None, "length") == [Generated([1, 9, 2], "length")]
    assert generated([9], -1.0, "stop") == [Generated([], "stop")]
    assert generated([], 0.0, "stop") == [Generated([], "stop")]
    assert generated([3], -1.0, "abort") == "not_finished"
    for likelihood in (float("nan"), float("-inf")):
        assert generated([4, 5], likelihood, "stop") == "not_finite"
    assert drawn == [3, 3, 1, 0, 1, 2, 2]

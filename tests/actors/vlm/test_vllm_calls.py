"""How prompts are divided into calls of vLLM, and which prompt has which parameters; without vLLM."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.vlm import vllm_model
from actors.vlm.vllm_model import VllmModel


def picture(pixels: int) -> Any:
    return SimpleNamespace(width=pixels, height=1)


def prompt(number: int, *pictures: Any) -> Any:
    data = {"multi_modal_data": {"image": list(pictures)}} if pictures else {}
    return SimpleNamespace(request={"number": number} | data, tokens=[number])


def test_pictures_that_prompts_share_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_model, "PIXELS_AT_ONCE", 100)
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
        assert list(vllm_model._calls(prompts)) == calls


def test_each_prompt_has_its_own_parameters_in_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt that vLLM refuses fails alone; the others of its call are asked again."""
    monkeypatch.setattr(vllm_model, "PIXELS_AT_ONCE", 100)
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
    monkeypatch.setattr(vllm_model, "PIXELS_AT_ONCE", 1000)
    assert [getattr(output, "text", None) for output in model.run(prompts[2:], ["a", "b", "c"])] == ["a", "b", None]
    assert asked == [[(2, "a"), (3, "b"), (4, "c")], [(2, "a")], [(3, "b"), (4, "c")], [(3, "b")], [(4, "c")]]

"""Steps of decoding: which rows are repeated, what is kept, and what the model is asked."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from actors.vlm import decoding, decoding_ways
from actors.vlm.chat import ChatEncoder
from actors.vlm.decoding import _hide_generation_config, advance, draw, encode_once, repeated, run_custom
from actors.vlm.generation import Generated, TextGenerator
from actors.vlm.settings import Sampling
from tests.actors.vlm.helpers import Load, picture
from tests.cases import check_cases


class Cache:
    """Stands for a cache: the numbers of its rows."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        self.layers = [self]

    def reorder_cache(self, rows: torch.Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]


def state(cache: Cache) -> dict[str, Any]:
    return {
        "past_key_values": cache,
        "attention_mask": torch.tensor([[1, 1], [0, 1]]),
        "position_ids": torch.tensor([[[0, 1], [5, 6]], [[0, 1], [7, 8]]]),  # [axes, rows, tokens], as Qwen's
        "use_cache": True,
    }


def test_rows_are_repeated_in_succession() -> None:
    cache = Cache([0, 1])
    more = repeated(state(cache), 2, rows=2)
    assert more["past_key_values"] is cache
    assert cache.rows == [0, 0, 1, 1]
    assert more["attention_mask"].tolist() == [[1, 1], [1, 1], [0, 1], [0, 1]]
    assert more["position_ids"].tolist() == [
        [[0, 1], [0, 1], [5, 6], [5, 6]], [[0, 1], [0, 1], [7, 8], [7, 8]]
    ]  # fmt: skip
    assert more["use_cache"] is True
    flat = repeated({"past_key_values": Cache([0]), "position_ids": torch.tensor([[3, 4]])}, 2, rows=1)
    assert flat["position_ids"].tolist() == [[3, 4], [3, 4]]


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_copied_cache_can_be_repeated_again(repeats: int) -> None:
    cache = Cache([0, 1])
    for _ in range(2):
        more = repeated(state(cache), repeats, rows=2, copied=True)
        assert more["past_key_values"].rows == [row for row in (0, 1) for _ in range(repeats)]
        assert more["past_key_values"] is not cache
    assert cache.rows == [0, 1]


CACHE = Cache([0])


class Model:
    """Notes what it is asked; its logits are the numbers of the tokens."""

    generation_config = "its own"

    def __init__(self) -> None:
        self.prepared: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []

    def prepare_inputs_for_generation(self, input_ids: torch.Tensor, **options: Any) -> dict[str, Any]:
        self.prepared.append({"input_ids": input_ids} | options)
        return {"input_ids": input_ids[:, -options.get("next_sequence_length", input_ids.shape[1]) :]}

    def _update_model_kwargs_for_generation(self, outputs: Any, state: dict[str, Any], **options: Any) -> Any:
        assert not outputs
        self.updates.append(options)
        return dict(state)

    def __call__(self, input_ids: torch.Tensor, *, return_dict: bool) -> Any:
        assert return_dict
        outputs: Any = {"past_key_values": CACHE}
        return type("Outputs", (dict,), {"logits": input_ids[..., None].float()})(outputs)


def test_prompts_are_run_once_and_rows_are_kept_for_what_follows() -> None:
    model: Any = Model()
    ids = torch.tensor([[1, 2, 3]])
    mask = torch.ones(1, 3)
    before = {"attention_mask": mask, "pixel_values": "pictures", "use_cache": True, "logits_to_keep": None}
    logits, after = encode_once(model, ids, before)
    assert logits.tolist() == [[[3.0]]]
    assert after == {"attention_mask": mask, "use_cache": True, "past_key_values": CACHE}
    assert model.prepared[0]["pixel_values"] == "pictures"
    assert model.prepared[0]["is_first_iteration"] is True


@pytest.mark.parametrize(("tokens", "rows"), [(1, 2), (3, 5)])
def test_the_last_tokens_are_run_and_each_has_a_row_of_the_pictures_mask(tokens: int, rows: int) -> None:
    model: Any = Model()
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    mask = torch.tensor([[[[1]], [[7]]]])  # [prompts, tokens, pictures, tiles]
    logits, after = advance(model, ids, {"cross_attention_mask": mask}, tokens=tokens)
    assert logits[0, :, 0].tolist() == [5.0] if tokens == 1 else [3.0, 4.0, 5.0]
    assert after["cross_attention_mask"].shape == (1, rows, 1, 1)
    assert after["cross_attention_mask"].flatten().tolist() == [1, 7, *[7] * (rows - 2)]
    assert model.updates == [{"is_encoder_decoder": False, "num_new_tokens": tokens}]
    assert model.prepared[0]["next_sequence_length"] == tokens


@pytest.mark.parametrize(("steps", "longest"), [(0, 4), (1, 4), (5, 8)])
def test_settings_that_the_library_gets(steps: int, longest: int) -> None:
    calls: list[dict[str, Any]] = []
    inner = SimpleNamespace(rope_deltas="of the last picture")
    model: Any = SimpleNamespace(device=torch.device("cpu"), dtype=torch.float16, generation_config="own", model=inner)

    def generate(**keys: Any) -> None:
        calls.append(keys | {"hidden": model.generation_config != "own", "positions": inner.rope_deltas})

    model.generate = generate
    inputs = {"input_ids": torch.tensor([[1, 2, 3]]), "pixel_values": torch.ones(2)}
    decode: Any = "decode"
    run_custom(model, inputs, decode, pad_id=7, steps=steps)
    (call,) = calls
    config = call["generation_config"]
    keys = (config.max_length, config.pad_token_id, config.eos_token_id, config.do_sample, config.use_cache)
    assert keys == (longest, 7, None, False, True)
    assert (call["custom_generate"], call["hidden"], call["positions"]) == ("decode", True, None)
    assert (call["input_ids"].dtype, call["pixel_values"].dtype) == (torch.int64, torch.float16)
    assert model.generation_config == "own"


def test_the_models_own_settings_come_back_after_an_error() -> None:
    model: Any = Model()
    with _hide_generation_config(model):
        assert model.generation_config != "its own"
    assert model.generation_config == "its own"
    with pytest.raises(KeyError), _hide_generation_config(model):
        raise KeyError
    assert model.generation_config == "its own"


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
    monkeypatch.setattr(decoding_ways, "PADDING_SHARE", 1.0)  # prompts of any length in a group: there is padding
    monkeypatch.setattr(decoding_ways.DecodingWays, "of", lambda *_, **__: "padded")
    expected = texts(model, processor)
    monkeypatch.setattr(decoding, "can_record", lambda *_, **__: True)
    monkeypatch.setattr(decoding, "GROWTH", 16)  # they grow twice
    grown: list[int] = []
    rows: list[int] = []
    begin = decoding.GraphDecoder.__init__

    def begun(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        rows.append(len(self._tokens))

    monkeypatch.setattr(decoding.GraphDecoder, "__init__", begun)
    grow = decoding.GraphDecoder._grow
    monkeypatch.setattr(
        decoding.GraphDecoder,
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
    results = {name: decoding.can_record(model, steps=steps) for name, (model, steps, _) in cases.items()}
    assert results == {name: expected for name, (_, _, expected) in cases.items()}


def test_settings_that_are_not_allowed() -> None:
    cases = [
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"temperature": float("inf")}, "temperature=inf"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.1}, "top_p=1.1"),
        ({"max_tokens": 0}, "max_tokens=0"),
    ]

    def check(settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Sampling(**settings)

    check_cases(check, cases)
    Sampling(temperature=0.0, top_p=1.0, max_tokens=1)


SHARES = ((0.25, 0.5, 0.25), (0.125, 0.125, 0.75))


def drawn(number: float, **settings: float) -> list[int]:
    import torch

    logits = torch.tensor(SHARES).log()
    tokens: list[int] = draw(logits, [number, number], Sampling(**settings)).tolist()  # type: ignore[arg-type]
    return tokens


def test_a_number_falls_on_the_cumulative_distribution() -> None:
    expected = {0.0: [0, 0], 0.13: [0, 1], 0.24: [0, 1], 0.3: [1, 2], 0.74: [1, 2], 0.99: [2, 2]}
    assert {number: drawn(number) for number in expected} == expected


@pytest.mark.parametrize("number", [0.0, 0.5, 0.99])
def test_temperature_0_takes_the_most_likely_token(number: float) -> None:
    assert drawn(number, temperature=0) == drawn(number, top_p=0.4) == [1, 2]


def test_the_nucleus_is_the_smallest_set_with_enough_probability() -> None:
    """With 0.6, the first row has the tokens 1 and 0 with 0.5 and 0.25 of 0.75, the second one the token 2 alone."""
    assert [drawn(number, top_p=0.6) for number in (0.0, 0.66, 0.67, 0.99)] == [[1, 2], [1, 2], [0, 2], [0, 2]]
    # Of the second row, 2 and 0: 0.75 and 0.125 of 0.875.
    assert [drawn(number, top_p=0.8)[1] for number in (0.85, 0.86)] == [2, 0]


def test_a_low_temperature_sharpens() -> None:
    """At 0.5 the shares are squared: 1, 4, 1 of 6, and 1, 1, 36 of 38."""
    assert [drawn(number, temperature=0.5) for number in (0.02, 0.04, 0.16, 0.17, 0.83, 0.84)] == [
        [0, 0], [0, 1], [0, 2], [1, 2], [1, 2], [2, 2]
    ]  # fmt: skip


def test_a_token_without_probability_is_never_drawn() -> None:
    import torch

    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf]])
    assert [draw(logits, [number], Sampling()).tolist() for number in (0.0, 1 - 1e-16)] == [[1], [1]]
    for wrong in (torch.nan, torch.inf):
        with pytest.raises(ValueError, match="not finite"):
            draw(torch.tensor([[0.0, wrong]]), [0.5], Sampling())

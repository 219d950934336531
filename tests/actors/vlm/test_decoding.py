"""Steps of decoding: which rows are repeated, what is kept, and what the model is asked."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from actors.vlm.decoding import _hide_generation_config, advance, encode_once, repeated, run_custom


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
        return SimpleNamespace(logits=input_ids[..., None].float(), past_key_values="cache")


def test_prompts_are_run_once_and_rows_are_kept_for_what_follows() -> None:
    model = Model()
    ids = torch.tensor([[1, 2, 3]])
    mask = torch.ones(1, 3)
    before = {"attention_mask": mask, "pixel_values": "pictures", "use_cache": True, "logits_to_keep": None}
    logits, after = encode_once(model, ids, before)
    assert logits.tolist() == [[[3.0]]]
    assert after == {"attention_mask": mask, "use_cache": True, "past_key_values": "cache"}
    assert model.prepared[0]["pixel_values"] == "pictures"
    assert model.prepared[0]["is_first_iteration"] is True


@pytest.mark.parametrize(("tokens", "rows"), [(1, 2), (3, 5)])
def test_the_last_tokens_are_run_and_each_has_a_row_of_the_pictures_mask(tokens: int, rows: int) -> None:
    model = Model()
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
    run_custom(model, inputs, "decode", pad_id=7, steps=steps)
    (call,) = calls
    config = call["generation_config"]
    keys = (config.max_length, config.pad_token_id, config.eos_token_id, config.do_sample, config.use_cache)
    assert keys == (longest, 7, None, False, True)
    assert (call["custom_generate"], call["hidden"], call["positions"]) == ("decode", True, None)
    assert (call["input_ids"].dtype, call["pixel_values"].dtype) == (torch.int64, torch.float16)
    assert model.generation_config == "own"


def test_the_models_own_settings_come_back_after_an_error() -> None:
    model = Model()
    with _hide_generation_config(model):
        assert model.generation_config != "its own"
    assert model.generation_config == "its own"
    with pytest.raises(KeyError), _hide_generation_config(model):
        raise KeyError
    assert model.generation_config == "its own"

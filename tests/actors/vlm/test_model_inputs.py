"""Prompts for vLLM: the tokens with marks and those that it must make of them, and the pictures on their way."""

from typing import Any

import numpy as np
import torch
from PIL import Image

from actors.vlm.model_inputs import MARKED_IDS, OPTIONS, pack_for_vllm, unpack_for_vllm, vllm_prompts_of

MARKED = [1, 9, 2, 9, 3, 4]  # 9: a picture
TOKENS = [1, 9, 9, 9, 2, 9, 9, 3, 4]  # as the processor writes them
INPUTS = {"input_ids": torch.tensor([TOKENS])}
PICTURES = [Image.new("RGB", (3, 2), colour) for colour in ("red", "blue")]
BOUNDS = {"size": {"longest_edge": 64}}


def packed(options: dict[str, Any] | None = None) -> dict[str, Any]:
    return pack_for_vllm(INPUTS, MARKED, PICTURES, BOUNDS if options is None else options)


def test_pictures_arrive_as_they_were_sent_and_in_their_order() -> None:
    prompt = unpack_for_vllm(packed())
    assert prompt.tokens == TOKENS
    assert prompt.request["prompt_token_ids"] == MARKED
    images = prompt.request["multi_modal_data"]["image"]
    assert [np.array(image).tolist() for image in images] == [np.array(picture).tolist() for picture in PICTURES]
    assert images[0].size == (3, 2)
    assert prompt.request["mm_processor_kwargs"] == {"images_kwargs": BOUNDS}
    assert packed()[OPTIONS].dtype == torch.uint8


def test_without_options_vllm_has_its_own() -> None:
    assert set(packed({})) == {"input_ids", MARKED_IDS, "picture_0", "picture_1"}
    assert "mm_processor_kwargs" not in unpack_for_vllm(packed({})).request


def test_suffixes_follow_the_shared_tokens_in_both_lists() -> None:
    """Seven tokens are shared: up to the last picture, behind which both lists are the same."""
    for shared, marked in ((7, [1, 9, 2, 9]), (8, [1, 9, 2, 9, 3]), (9, MARKED)):
        prompt = vllm_prompts_of(packed(), shared=shared)
        first, second = prompt([7, 8]), prompt([5])
        assert (first.tokens, first.request["prompt_token_ids"]) == ([*TOKENS[:shared], 7, 8], [*marked, 7, 8])
        assert (second.tokens, second.request["prompt_token_ids"]) == ([*TOKENS[:shared], 5], [*marked, 5])
        assert first.request["multi_modal_data"] is second.request["multi_modal_data"]  # made once


def test_a_text_needs_nothing_but_its_tokens() -> None:
    inputs = {"input_ids": torch.tensor([[1, 2, 3]])}
    assert unpack_for_vllm(inputs) == ({"prompt_token_ids": [1, 2, 3]}, [1, 2, 3])
    assert vllm_prompts_of(inputs, shared=2)([4]) == ({"prompt_token_ids": [1, 2, 4]}, [1, 2, 4])

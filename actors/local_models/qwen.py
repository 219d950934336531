"""Small random checkpoints of Qwen: `local:qwen2.5-vl-tiny`, `local:qwen2.5-vl-70m`, `local:qwen3-vl-tiny`, and the
text models `local:qwen2-tiny` and `local:qwen3-tiny`.

Architecture, special tokens, preprocessing and the ChatML format are those of Qwen2.5-VL (Bai et al. 2025,
arXiv:2502.13923), Qwen3-VL and their text models, but sizes and weights are not.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from actors.local_models import tiny

VERSION = "4"
CELL = 28  # pixels: a patch of 14 merged 2 x 2 is one token
MAX_PICTURE_TOKENS = 64  # up to 16,384 in the published model; few here for speed on a CPU

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE_PAD, VIDEO_PAD = "<|image_pad|>", "<|video_pad|>"
SPECIALS = (END_OF_TEXT, TURN_START, TURN_END, VISION_START, VISION_END, "<|vision_pad|>", IMAGE_PAD, VIDEO_PAD)
VOCABULARY = tiny.MERGED + len(SPECIALS)

CHAT_TEMPLATE = """\
{%- macro body(content) -%}
{%- if content is string -%}{{- content -}}
{%- else -%}
{%- for piece in content -%}
{%- if piece.type == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>
{%- elif piece.type == 'text' -%}{{- piece.text -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- if messages[0].role != 'system' -%}
{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' -}}{{- body(message.content) -}}{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""


class TextShape(NamedTuple):
    """Sizes of the text model."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int


TINY = TextShape(hidden=256, intermediate=512, layers=4, heads=4, kv_heads=2)  # 5 M parameters
SEVENTY = TextShape(hidden=768, intermediate=2048, layers=10, heads=12, kv_heads=4)  # 70 M parameters, for benchmarks


def build(folder: Path, *, shape: TextShape = TINY) -> None:
    """Write weights (safetensors, float32), tokenizer and processor of Qwen2.5-VL into `folder`.

    Deterministic for a given version of Python, tokenizers and torch; does not change torch's random state.
    """
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    tokenizer, tokens = _tokenizer(folder)
    head = shape.hidden // shape.heads
    time = head // 8
    height = (head // 2 - time) // 2
    config = Qwen2_5_VLConfig(
        text_config=_text(shape, tokens) | tiny.rope(1e6, sections=(time, height, head // 2 - time - height)),
        vision_config=_VISION | {"out_hidden_size": shape.hidden, "fullatt_block_indexes": [1]},
        **_picture_ids(tokens),
    )
    processor = Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(min_pixels=4 * CELL * CELL, max_pixels=MAX_PICTURE_TOKENS * CELL * CELL),
        tokenizer,
        Qwen2VLVideoProcessor(),
        chat_template=CHAT_TEMPLATE,
    )
    tiny.save(folder, make=lambda: Qwen2_5_VLForConditionalGeneration(config), processor=processor)


def build_70m(folder: Path) -> None:
    """Write the checkpoint of `build` in the shape used by the benchmarks."""
    build(folder, shape=SEVENTY)


def build_qwen3(folder: Path) -> None:
    """Write Qwen3-VL, with interleaved positions and picture features added at several layers; see `build`."""
    from transformers import (
        Qwen2VLImageProcessor,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    tokenizer, tokens = _tokenizer(folder)
    head = TINY.hidden // TINY.heads
    sections = (head // 2 - 2 * (head // 6), head // 6, head // 6)
    config = Qwen3VLConfig(
        text_config=_text(TINY, tokens) | {"head_dim": head} | tiny.rope(5e6, sections=sections, interleaved=True),
        vision_config=_VISION | {"depth": 3, "out_hidden_size": TINY.hidden, "deepstack_visual_indexes": [0, 1, 2]},
        **_picture_ids(tokens),
    )
    processor = Qwen3VLProcessor(
        Qwen2VLImageProcessor(patch_size=16, min_pixels=4 * 32 * 32, max_pixels=MAX_PICTURE_TOKENS * 32 * 32),
        tokenizer,
        Qwen3VLVideoProcessor(),
        chat_template=CHAT_TEMPLATE,
    )
    tiny.save(folder, make=lambda: Qwen3VLForConditionalGeneration(config), processor=processor)


def build_text_qwen2(folder: Path) -> None:
    """Write Qwen2, the text model of Qwen2.5, into `folder`."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer, tokens = _tokenizer(folder)
    config = Qwen2Config(**_text(TINY, tokens), **tiny.rope(1e6))
    tiny.save(folder, make=lambda: Qwen2ForCausalLM(config), processor=tokenizer)


def build_text_qwen3(folder: Path) -> None:
    """Write Qwen3, a text model that normalises queries and keys, into `folder`."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer, tokens = _tokenizer(folder)
    config = Qwen3Config(**_text(TINY, tokens), head_dim=TINY.hidden // TINY.heads, **tiny.rope(1e6))
    tiny.save(folder, make=lambda: Qwen3ForCausalLM(config), processor=tokenizer)


_VISION: dict[str, Any] = {"depth": 2, "hidden_size": 128, "intermediate_size": 256, "num_heads": 4}


def _tokenizer(folder: Path) -> tuple[Any, dict[str, int]]:
    tokenizer = tiny.write_tokenizer(
        folder, specials=SPECIALS, end=TURN_END, pad=END_OF_TEXT, template=CHAT_TEMPLATE, kind="Qwen2Tokenizer"
    )
    return tokenizer, {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIALS}


def _text(shape: TextShape, tokens: Mapping[str, int]) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "max_position_embeddings": 32768,
        "bos_token_id": tokens[END_OF_TEXT],
        "eos_token_id": tokens[TURN_END],
    }


def _picture_ids(tokens: Mapping[str, int]) -> dict[str, Any]:
    return {
        "image_token_id": tokens[IMAGE_PAD],
        "video_token_id": tokens[VIDEO_PAD],
        "vision_start_token_id": tokens[VISION_START],
        "vision_end_token_id": tokens[VISION_END],
    }

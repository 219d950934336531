"""A small Qwen2.5-VL with random weights: `local:qwen2.5-vl-tiny`.

The architecture, the special tokens, the picture's preprocessing and the ChatML format are those of
Qwen2.5-VL (Bai et al. 2025, arXiv:2502.13923); the sizes are not, and its answers mean nothing.
"""

import importlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

VERSION = "1"
SEED = 20250219
VOCABULARY = 4096
# With the default initialisation of 0.02 a wrong mask or position moves the logits too little to be noticed.
WEIGHT_SCALE = 3.0
CELL = 28  # pixels: a patch of 14 merged 2 x 2 is one token
MAX_PICTURE_TOKENS = 64  # a real Qwen2.5-VL spends up to 16,384; this one serves demonstrations on a CPU

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE_PAD, VIDEO_PAD = "<|image_pad|>", "<|video_pad|>"
SPECIALS = (END_OF_TEXT, TURN_START, TURN_END, VISION_START, VISION_END, "<|vision_pad|>", IMAGE_PAD, VIDEO_PAD)

# Qwen2's split before byte-pair encoding: a digit is always a token of its own.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
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


def build(folder: Path) -> None:
    """Write weights (safetensors, float32, 5.3 M parameters), tokenizer and processor into `folder`.

    Deterministic for one Python, tokenizers and torch; leaves torch's random state as it was.
    """
    import torch
    from transformers import (
        AutoTokenizer,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    _write_tokenizer(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIALS}
    processor = Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(min_pixels=4 * CELL * CELL, max_pixels=MAX_PICTURE_TOKENS * CELL * CELL),
        tokenizer,
        Qwen2VLVideoProcessor(),
        chat_template=CHAT_TEMPLATE,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = Qwen2_5_VLForConditionalGeneration(_config(tokens))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim >= 2:
                weight.mul_(WEIGHT_SCALE)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def _write_tokenizer(folder: Path) -> None:
    """A byte-level byte-pair encoding trained on the texts of Python's own help."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_paragraphs(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIALS])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "additional_special_tokens": list(SPECIALS),
        "model_max_length": 32768,
        "chat_template": CHAT_TEMPLATE,
    }
    # The class that reads a tokenizer.json of this kind was renamed between transformers 4 and 5; the files were not.
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _paragraphs() -> Iterator[str]:
    topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    for name in sorted(topics):
        yield from topics[name].split("\n\n")


def _config(tokens: Mapping[str, Any]) -> Any:
    import transformers

    hidden, heads = 256, 4
    sections = [8, 12, 12]  # time, height, width: they sum to half of the head's 64
    if int(transformers.__version__.split(".", maxsplit=1)[0]) >= 5:
        rope: dict[str, Any] = {
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections}
        }
    else:
        rope = {"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": sections}}
    return transformers.Qwen2_5_VLConfig(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": hidden,
            "intermediate_size": 512,
            "num_hidden_layers": 4,
            "num_attention_heads": heads,
            "num_key_value_heads": 2,
            "max_position_embeddings": 32768,
            "bos_token_id": tokens[END_OF_TEXT],
            "eos_token_id": tokens[TURN_END],
            **rope,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_heads": 4,
            "out_hidden_size": hidden,
            "fullatt_block_indexes": [1],
        },
        image_token_id=tokens[IMAGE_PAD],
        video_token_id=tokens[VIDEO_PAD],
        vision_start_token_id=tokens[VISION_START],
        vision_end_token_id=tokens[VISION_END],
    )

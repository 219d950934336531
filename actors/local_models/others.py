"""Small random checkpoints of LLaVA-NeXT, mllama, Gemma 3, SmolVLM and Llama (a text model) for `local:NAME`.

Architectures, special tokens and chat formats are those of the published models (neulab/Pangea-7B-hf,
meta-llama/Llama-3.2-11B-Vision-Instruct, google/gemma-3-12b-it, HuggingFaceTB/SmolVLM2-2.2B-Instruct), but sizes,
vocabulary and weights are not.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.local_models import tiny

VERSION = "2"
HIDDEN = 128
PICTURE = 112  # pixels
_VISION: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": PICTURE,
    "patch_size": 14,
}
# The chat format: the beginning and end of a turn, and a picture's mark. `_template` replaces the `%%` words.
_TEMPLATE = """\
{%%BEGIN%%}{%- for message in messages -%}
{{- %%TURN%% -}}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for piece in message.content -%}
{%- if piece.type == 'image' -%}{{- '%%PICTURE%%' -}}
{%- elif piece.type == 'text' -%}{{- piece.text%%TRIM%% -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{- '%%END%%' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '%%ANSWER%%' -}}{%- endif -%}
"""
_CHATML: dict[str, Any] = {
    "turn": "'<|im_start|>' + message.role + '\\n'",
    "end": "<|im_end|>\\n",
    "answer": "<|im_start|>assistant\\n",
}


def build_llava_next(folder: Path) -> None:
    """Write LLaVA-NeXT with a Qwen2 text model, the architecture of Pangea, into `folder`."""
    from transformers import (
        LlavaNextConfig,
        LlavaNextForConditionalGeneration,
        LlavaNextImageProcessor,
        LlavaNextProcessor,
    )

    template = _template(**_CHATML, picture="<image>\\n")
    specials = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>")
    tokenizer = _tokenizer(folder, specials, end="<|im_end|>", template=template)
    grid = [[PICTURE, 2 * PICTURE], [2 * PICTURE, PICTURE], [2 * PICTURE, 2 * PICTURE]]
    config = LlavaNextConfig(
        text_config=_text(specials, "qwen2") | tiny.rope(1e6),
        vision_config=_VISION | {"model_type": "clip_vision_model", "projection_dim": 64, "num_hidden_layers": 3},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=grid,
        image_seq_length=64,
    )
    pictures = LlavaNextImageProcessor(
        size={"shortest_edge": PICTURE}, crop_size={"height": PICTURE, "width": PICTURE}, image_grid_pinpoints=grid
    )
    processor = LlavaNextProcessor(
        pictures,
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template,
    )
    tiny.save(folder, make=lambda: LlavaNextForConditionalGeneration(config), processor=processor)


def build_mllama(folder: Path) -> None:
    """Write Llama 3.2 Vision, which sees the picture through cross-attention, into `folder`."""
    from transformers import MllamaConfig, MllamaForConditionalGeneration, MllamaImageProcessor, MllamaProcessor

    template = _template(
        begin="<|begin_of_text|>",
        turn="'<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n'",
        end="<|eot_id|>",
        answer="<|start_header_id|>assistant<|end_header_id|>\\n\\n",
        picture="<|image|>",
    )
    specials = ("<|pad|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|image|>")
    tokenizer = _tokenizer(folder, specials, end="<|eot_id|>", template=template, start="<|begin_of_text|>")
    config = MllamaConfig(
        text_config=_text(specials, None)
        # As in the released model, the output layer lacks the picture's token, which is the last of the input
        # embedding.
        | {"vocab_size": tiny.MERGED + len(specials) - 1, "cross_attention_layers": [1, 3]}
        | tiny.rope(5e5),
        vision_config={
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 3,
            "num_global_layers": 1,
            "attention_heads": 4,
            "image_size": PICTURE,
            "patch_size": 14,
            "vision_output_dim": 128 * 3,
            "intermediate_layers_indices": [0, 2],
            "max_num_tiles": 4,
            "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<|image|>"),
    )
    pictures = MllamaImageProcessor(size={"height": PICTURE, "width": PICTURE}, max_image_tiles=4)
    processor = MllamaProcessor(pictures, tokenizer, chat_template=template)
    tiny.save(folder, make=lambda: MllamaForConditionalGeneration(config), processor=processor)


def build_gemma3(folder: Path) -> None:
    """Write Gemma 3, with windowed layers and bidirectional attention within a picture, into `folder`."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ImageProcessor, Gemma3Processor

    template = _template(
        begin="<bos>",
        turn="'<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n'",
        end="<end_of_turn>\\n",
        answer="<start_of_turn>model\\n",
        picture="<start_of_image>",
        trim=True,
    )
    named = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    }
    specials = ("<pad>", "<bos>", "<start_of_turn>", "<end_of_turn>", *named.values())
    tokenizer = _tokenizer(folder, specials, end="<end_of_turn>", template=template, start="<bos>", named=named)
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in named.items()}
    config = Gemma3Config(
        text_config=_text(specials, None)
        | {
            "num_hidden_layers": 6,  # the sixth is the first without a window
            "head_dim": 32,
            "sliding_window": 64,
            "query_pre_attn_scalar": 32,
        },
        vision_config=_VISION | {"model_type": "siglip_vision_model"},
        mm_tokens_per_image=16,
        boi_token_index=ids["boi_token"],
        eoi_token_index=ids["eoi_token"],
        image_token_index=ids["image_token"],
    )
    pictures = Gemma3ImageProcessor(size={"height": PICTURE, "width": PICTURE})
    processor = Gemma3Processor(pictures, tokenizer, image_seq_length=16, chat_template=template)
    tiny.save(folder, make=lambda: Gemma3ForConditionalGeneration(config), processor=processor)


def build_smolvlm(folder: Path) -> None:
    """Write SmolVLM2, with pictures in tiles and a space before the answer in its template, into `folder`."""
    from transformers import (
        SmolVLMConfig,
        SmolVLMForConditionalGeneration,
        SmolVLMImageProcessor,
        SmolVLMProcessor,
        SmolVLMVideoProcessor,
    )

    template = _template(
        begin="<|im_start|>",
        turn="message.role | capitalize + (':' if message.content[0].type == 'image' else ': ')",
        end="<end_of_utterance>\\n",
        answer="Assistant:",
        picture="<image>",
    )
    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    marks = ("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
    specials = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *marks, *tiles)
    tokenizer = _tokenizer(folder, specials, end="<end_of_utterance>", template=template, split=tiny.GPT2_SPLIT)
    config = SmolVLMConfig(
        text_config=_text(specials, "llama") | {"pad_token_id": tiny.MERGED, "max_position_embeddings": 8192},
        vision_config=_VISION | {"image_size": 128, "patch_size": 16},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )
    pictures = SmolVLMImageProcessor(size={"longest_edge": 256}, max_image_size={"longest_edge": 128})
    processor = SmolVLMProcessor(pictures, tokenizer, SmolVLMVideoProcessor(), image_seq_len=16, chat_template=template)
    tiny.save(folder, make=lambda: SmolVLMForConditionalGeneration(config), processor=processor)


def build_llama(folder: Path) -> None:
    """Write Llama, a text model, which judges a picture's context instead of the picture, into `folder`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    template = _template(
        begin="<|begin_of_text|>",
        turn="'<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n'",
        end="<|eot_id|>",
        answer="<|start_header_id|>assistant<|end_header_id|>\\n\\n",
        picture="",
    )
    specials = ("<|pad|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
    tokenizer = _tokenizer(folder, specials, end="<|eot_id|>", template=template, start="<|begin_of_text|>")
    config = LlamaConfig(**_text(specials, None), **tiny.rope(5e5))
    tiny.save(folder, make=lambda: LlamaForCausalLM(config), processor=tokenizer)


def _template(*, turn: str, end: str, answer: str, picture: str, begin: str = "", trim: bool = False) -> str:
    marks = {
        "{%%BEGIN%%}": "{{- '" + begin + "' -}}\n" if begin else "",
        "%%TURN%%": turn,
        "%%PICTURE%%": picture,
        "%%TRIM%%": " | trim" if trim else "",
        "%%END%%": end,
        "%%ANSWER%%": answer,
    }
    template = _TEMPLATE
    for mark, text in marks.items():
        template = template.replace(mark, text)
    return template


def _tokenizer(folder: Path, specials: Sequence[str], *, end: str, template: str, **more: Any) -> Any:
    return tiny.write_tokenizer(folder, specials=specials, end=end, pad=specials[0], template=template, **more)


def _text(specials: Sequence[str], kind: str | None) -> dict[str, Any]:
    return ({"model_type": kind} if kind else {}) | {
        "vocab_size": tiny.MERGED + len(specials),
        "hidden_size": HIDDEN,
        "intermediate_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32768,
        "pad_token_id": tiny.MERGED,
        "bos_token_id": tiny.MERGED + 1,
        "eos_token_id": tiny.MERGED + 2,
    }

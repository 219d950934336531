"""What the processors and generation configs of the published models of `conf/model.yaml` say, with where it was read.

Facts, no copies of files. Pages of https://huggingface.co, read in November 2026 from stored copies; where the model's
own page was not among them, a copy of its file in another repository is named, and what was not found is said.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Published:
    """One model.

    Attributes:
        local: the local checkpoint of its family, whose sizes the tests replace by these.
        pictures: settings of its picture processor.
        processor: settings of the processor around that.
        tokens: width and height of a picture in pixels -> tokens in the prompt that stand for it, by the arithmetic of
            the comments below.
        generation: its generation_config.json, without token ids that only fill or begin.
    """

    model: str
    local: str
    pictures: dict[str, Any]
    processor: dict[str, Any]
    tokens: dict[tuple[int, int], int]
    generation: dict[str, Any]
    positions: int  # max_position_embeddings of its text model
    vision: dict[str, Any] = field(default_factory=dict)  # of its config.json
    text: dict[str, Any] = field(default_factory=dict)


# Pictures: preprocessor_config.json of Diankun/Spatial-MLLM-v1.1-Instruct-820K and CserDu123/ARPO, trained from it.
# Generation: generation_config.json of TencentARC/GRPO-CARE, trained from it (others of its copies say 0.1, with
# top_k 1 and top_p 0.001). Positions: config.json of trl-internal-testing/tiny-Qwen2_5_VLForConditionalGeneration.
# Tokens: sides rounded to multiples of 28; beyond 12,845,056 pixels both sides are shrunk by one factor and cut down.
QWEN2_5_VL = Published(
    model="Qwen/Qwen2.5-VL-7B-Instruct",
    local="qwen2.5-vl-tiny",
    pictures={
        "min_pixels": 3136,
        "max_pixels": 12_845_056,
        "patch_size": 14,
        "merge_size": 2,
        "temporal_patch_size": 2,
    },
    processor={},
    tokens={(300, 200): 11 * 7, (640, 480): 23 * 17, (6000, 4000): 156 * 104},
    generation={"do_sample": True, "repetition_penalty": 1.05, "temperature": 1e-06, "eos_token_id": [151645, 151643]},
    positions=128_000,
)

# Pictures: preprocessor_config.json of roy-0309/Babelbit-1 and Robertp423/Aydrian (processor_class Qwen3VLProcessor).
# Generation: bryanha/Declaration-Form-Audit, trained from it; TechCarbasa/MyModels, a copy of the 4B model's.
# Positions: "native 256K context", Unsloth's page on Qwen3-VL.
# Tokens: as above with 32; fewer than 65,536 pixels (that is, 64 tokens) are enlarged, both sides rounded up.
QWEN3_VL = Published(
    model="Qwen/Qwen3-VL-8B-Instruct",
    local="qwen3-vl-tiny",
    pictures={
        "size": {"shortest_edge": 65_536, "longest_edge": 16_777_216},
        "patch_size": 16,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    },
    processor={},
    tokens={(300, 200): 10 * 7, (640, 480): 20 * 15, (6000, 4000): 156 * 104},
    generation={"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "eos_token_id": [151645, 151643]},
    positions=262_144,
)

# Processor: neulab/Pangea-7B-hf, processor_config.json at 13b8292 (all but image_token null) and the page of commit
# b53e887 (patch_size 14). Grid and tower: config.json of llava-hf/llava-v1.6-vicuna-7b-hf, as Pangea is LLaVA-NeXT
# over clip-vit-large-patch14-336 (its paper, arXiv:2410.16153); its own preprocessor_config.json: not found.
# Generation: 121 bytes (file list), which leaves no room for sampling settings; the ids are those of its
# Qwen2-7B-Instruct.
# Tokens: 24 x 24 of the whole picture, and the tiles' patches without padding, each row of them with a line end. The
# processor's count has no room for the tower's class token, and none is needed: the model drops it ("default").
PANGEA = Published(
    model="neulab/Pangea-7B-hf",
    local="llava-next-tiny",
    pictures={
        "size": {"shortest_edge": 336},
        "crop_size": {"height": 336, "width": 336},
        "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
    },
    processor={"image_token": "<image>", "patch_size": 14, "vision_feature_select_strategy": None},
    tokens={
        (300, 200): 576 + 24 * 36 + 24,
        (640, 480): 576 + 48 * 36 + 36,
        (900, 300): 576 + 72 * 24 + 24,
        (1000, 1000): 576 + 48 * 48 + 48,
    },
    generation={"eos_token_id": 151645},
    positions=32_768,
    vision={"image_size": 336, "patch_size": 14},
)

# Pictures: preprocessor_config.json of EricB/Llama-3.2-11B-Vision-Instruct-UQFF and jesusoctavioas/...-Oldtokenizer
# (copies). Generation: kadirnar/Llama-3.1-8B-Vision; the ids also in config.json of copies of the model. Positions,
# tower: config.json of copies (bababababooey/llama-3.2-11b-vision-instruct-stheno-abliterated, Aekanun/...).
# Tokens: one; the picture is seen by cross-attention, up to four tiles of 40 x 40 patches and a class token each.
LLAMA_VISION = Published(
    model="meta-llama/Llama-3.2-11B-Vision-Instruct",
    local="mllama-tiny",
    pictures={"size": {"height": 560, "width": 560}, "max_image_tiles": 4},
    processor={},
    tokens={(300, 200): 1, (640, 480): 1, (4000, 3000): 1},
    generation={"do_sample": True, "temperature": 0.6, "top_p": 0.9, "eos_token_id": [128001, 128008, 128009]},
    positions=131_072,
    vision={"image_size": 560, "patch_size": 14},
)

# Pictures: preprocessor_config.json of RedHatAI/gemma-3-12b-it-quantized.w4a16 and Synthetica-AI/gemma-3-4b-it
# (copy).
# Generation: generation_config.json of tylee4/gemma_trl and others trained from the family; its own: not found. The
# cache is also named in config.json of TensorStack/TextEncoder, a copy of the 12B model's, as are mm_tokens_per_image
# and the pattern of six layers. The window of 1,024: Gemma 3's report, arXiv:2503.19786, section 2.
GEMMA = Published(
    model="google/gemma-3-12b-it",
    local="gemma3-tiny",
    pictures={"size": {"height": 896, "width": 896}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
    processor={"image_seq_length": 256},
    tokens={(300, 200): 256, (640, 480): 256, (4000, 3000): 256},
    generation={
        "do_sample": True,
        "top_k": 64,
        "top_p": 0.95,
        "cache_implementation": "hybrid",
        "eos_token_id": [1, 106],
    },
    positions=131_072,
    vision={"image_size": 896, "patch_size": 14},
    text={"sliding_window": 1024},
)

# Processor: HuggingFaceTB/SmolVLM2-2.2B-Instruct, processor_config.json at refs/pr/11 and main. Pictures: the sizes
# that public readers of its preprocessor_config.json test with (1536 and 384); its own page: not found. Generation:
# that of HuggingFaceTB/SmolVLM-256M-Instruct, of the same tokenizer; the 2.2B model's: not found.
# Tokens: 81 a tile (27 x 27 patches merged 3 x 3); the longer side becomes 1,536 pixels, and both whole tiles of 384,
# with one more tile of the whole picture.
SMOLVLM = Published(
    model="HuggingFaceTB/SmolVLM2-2.2B-Instruct",
    local="smolvlm-tiny",
    pictures={"size": {"longest_edge": 1536}, "max_image_size": {"longest_edge": 384}},
    processor={"image_seq_len": 81},
    tokens={(300, 200): 13 * 81, (640, 480): 13 * 81, (900, 300): 9 * 81, (1000, 1000): 17 * 81},
    generation={"eos_token_id": 49279},
    positions=8192,
    vision={"image_size": 384, "patch_size": 14},
)

MODELS = {facts.local: facts for facts in (QWEN2_5_VL, QWEN3_VL, PANGEA, LLAMA_VISION, GEMMA, SMOLVLM)}

# Text alone. Generation: Qwen/Qwen2.5-Coder-14B-Instruct and copies of Qwen/Qwen2.5-7B-Instruct.
QWEN_TEXT_GENERATION = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.7,
    "top_p": 0.8,
    "top_k": 20,
    "eos_token_id": [151645, 151643],
}

# How Qwen2's template, which is all that came with Pangea's tokenizer, puts a message together: as one string.
STRING_TEMPLATE = (
    "{%- if messages[0].role != 'system' -%}{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}"
    "{%- endif -%}{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)

# How Llama 3.2 Vision's template differs by whether there is a picture: without one, it tells the day.
# (chat_template.json of bouthros/llama32_11b_vision_medical_finetune and nintwentydo/EtherealRainbow-11b-Vision.)
DATED_TEMPLATE = (
    "<|begin_of_text|>{%- set seen = namespace(picture=false) -%}"
    "{%- for message in messages if message.content is not string -%}"
    "{%- for piece in message.content if piece.type == 'image' -%}{%- set seen.picture = true -%}{%- endfor -%}"
    "{%- endfor -%}"
    "{%- if not seen.picture -%}{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: ' -}}"
    "{{- strftime_now('%d %b %Y') if strftime_now is defined else '26 Jul 2024' -}}"
    "{{- '\\n\\n<|eot_id|>' -}}{%- endif -%}"
    "{%- for message in messages -%}"
    "{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' -}}"
    "{%- if message.content is string -%}{{- message.content -}}{%- else -%}"
    "{%- for piece in message.content -%}{{- '<|image|>' if piece.type == 'image' else piece.text -}}{%- endfor -%}"
    "{%- endif -%}{{- '<|eot_id|>' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}"
)

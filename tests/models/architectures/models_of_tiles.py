"""Vision-language models that see a picture as squares of one size, as one picture or through cross-attention."""

from pathlib import Path
from typing import Any

import transformers as hf

from tests.models.architectures.chat_forms import FORMS, write_tokenizer
from tests.models.architectures.picture_parts import PIXTRAL, SIGLIP, SQUARE, TOWER, Parts, ids, writer
from tests.models.architectures.small_configs import HEADS, PICTURE, WIDTH, small_config
from tests.models.architectures.text_models import INDEXED

_GEMMA_MARKS = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}


@writer("gemma3", "Gemma 3")
def _gemma3(folder: Path) -> Parts:
    tokenizer = write_tokenizer(folder, FORMS["gemma"], picture="<start_of_image>", named=_GEMMA_MARKS)
    boi, eoi, image = ids(tokenizer, *_GEMMA_MARKS.values())
    config = hf.Gemma3Config(
        # the sixth layer is the first without a window
        text_config=small_config("gemma3_text", tokenizer, num_hidden_layers=6, query_pre_attn_scalar=16),
        vision_config=SIGLIP,
        mm_tokens_per_image=16,
        boi_token_index=boi,
        eoi_token_index=eoi,
        image_token_index=image,
    )
    pictures = hf.Gemma3ImageProcessor(size=SQUARE)
    return Parts(
        config, hf.Gemma3Processor(pictures, tokenizer, image_seq_length=16, chat_template=tokenizer.chat_template)
    )


_GEMMA4_MARKS = {
    "image_token": "<|image|>",
    "boi_token": "<|image>",
    "eoi_token": "<image|>",
    "audio_token": "<|audio|>",
    "boa_token": "<|audio>",
    "eoa_token": "<audio|>",
}


@writer("gemma4", "Gemma 4")
def _gemma4(folder: Path) -> Parts:
    tokenizer = write_tokenizer(
        folder, FORMS["gemma4"], picture="\n\n<|image|>\n\n", more=("<|video|>",), named=_GEMMA4_MARKS
    )
    marks = {f"{name}_id": tokenizer.convert_tokens_to_ids(token) for name, token in _GEMMA4_MARKS.items()}
    marks["eoa_token_index"] = marks.pop("eoa_token_id")
    config = hf.Gemma4Config(
        text_config=small_config(
            "gemma4_text",
            tokenizer,
            num_hidden_layers=6,
            global_head_dim=32,
            vocab_size_per_layer_input=len(tokenizer) + 8,
            hidden_size_per_layer_input=8,
            num_kv_shared_layers=0,
        ),
        vision_config=TOWER
        | {"num_key_value_heads": HEADS, "head_dim": 16, "patch_size": 16, "position_embedding_size": 512},
        audio_config=None,
        video_token_id=ids(tokenizer, "<|video|>")[0],
        **marks,
    )
    processor = hf.Gemma4Processor(
        hf.Gemma4AudioFeatureExtractor(),
        hf.Gemma4ImageProcessor(max_soft_tokens=70),
        tokenizer,
        hf.Gemma4VideoProcessor(),
        chat_template=tokenizer.chat_template,
        image_seq_length=70,
    )
    return Parts(config, processor)


@writer("llama4", "Llama 4 Scout, Maverick")
def _llama4(folder: Path) -> Parts:
    more = (
        "<|image|>",
        "<|image_start|>",
        "<|image_end|>",
        "<|patch|>",
        "<|tile_x_separator|>",
        "<|tile_y_separator|>",
    )
    tokenizer = write_tokenizer(folder, FORMS["llama4"], picture="<|image|>", more=more)
    boi, eoi, patch = ids(tokenizer, *more[1:4])
    config = hf.Llama4Config(
        text_config=small_config(
            "llama4_text", tokenizer, intermediate_size_mlp=96, num_local_experts=2, attention_chunk_size=64
        ),
        vision_config=TOWER
        | {"intermediate_size": 4 * WIDTH, "vision_output_dim": WIDTH}
        | {"projector_input_dim": WIDTH, "projector_output_dim": WIDTH},
        boi_token_index=boi,
        eoi_token_index=eoi,
        image_token_index=patch,
    )
    pictures = hf.Llama4ImageProcessor(size=SQUARE, max_patches=4)
    return Parts(config, hf.Llama4Processor(pictures, tokenizer, chat_template=tokenizer.chat_template))


@writer("mllama", "Llama 3.2 Vision")
def _mllama(folder: Path) -> Parts:
    tokenizer = write_tokenizer(folder, FORMS["llama3"], picture="<|image|>", more=("<|image|>",))
    image = ids(tokenizer, "<|image|>")[0]
    config = hf.MllamaConfig(
        # as in the released model, the output layer lacks the picture's token, the last of the input embedding
        text_config=small_config("mllama_text_model", tokenizer, cross_attention_layers=[1, 3], vocab_size=image),
        vision_config={
            **{"hidden_size": WIDTH, "intermediate_size": 96, "attention_heads": HEADS, "image_size": PICTURE},
            **{"num_hidden_layers": 3, "num_global_layers": 1, "patch_size": 14, "max_num_tiles": 4},
            **{"vision_output_dim": 3 * WIDTH, "intermediate_layers_indices": [0, 2]},
            "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
        },
        image_token_index=image,
    )
    pictures = hf.MllamaImageProcessor(size=SQUARE, max_image_tiles=4)
    return Parts(config, hf.MllamaProcessor(pictures, tokenizer, chat_template=tokenizer.chat_template))


def _pixtral_processor(tokenizer: Any, *, patch: int, merge: int) -> Any:
    pictures = hf.PixtralImageProcessor(
        size={"longest_edge": 8 * patch * merge}, patch_size={"height": patch * merge, "width": patch * merge}
    )
    return hf.PixtralProcessor(
        pictures, tokenizer, patch_size=patch, spatial_merge_size=merge, chat_template=tokenizer.chat_template
    )


def _mistral_tokenizer(folder: Path) -> Any:
    more = ("[IMG]", "[IMG_BREAK]", "[IMG_END]")
    return write_tokenizer(folder, FORMS["mistral"], picture="[IMG]", more=more)


@writer("mistral3", "Mistral Small 3.1, 3.2; Ministral 3")
def _mistral3(folder: Path) -> Parts:
    tokenizer = _mistral_tokenizer(folder)
    config = hf.Mistral3Config(
        text_config=small_config("mistral", tokenizer, sliding_window=None),
        vision_config=PIXTRAL,
        image_token_index=ids(tokenizer, "[IMG]")[0],
        spatial_merge_size=2,
    )
    return Parts(config, _pixtral_processor(tokenizer, patch=14, merge=2))


@writer("llava", "LLaVA 1.5, Pixtral 12B")
def _llava(folder: Path) -> Parts:
    tokenizer = _mistral_tokenizer(folder)
    config = hf.LlavaConfig(
        text_config=small_config("mistral", tokenizer, sliding_window=None),
        vision_config=PIXTRAL | {"patch_size": 16},
        image_token_index=ids(tokenizer, "[IMG]")[0],
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        image_seq_length=1,
    )
    return Parts(config, _pixtral_processor(tokenizer, patch=16, merge=1))


@writer("aya_vision", "Aya Vision")
def _aya_vision(folder: Path) -> Parts:
    more = (
        "<image>",
        "<|START_OF_IMG|>",
        "<|END_OF_IMG|>",
        "<|IMG_PATCH|>",
        "<|IMG_LINE_BREAK|>",
        "TILE",
        "TILE_GLOBAL",
    )
    tokenizer = write_tokenizer(folder, FORMS["cohere"], picture="<image>", more=more)
    config = hf.AyaVisionConfig(
        text_config=small_config("cohere2", tokenizer),
        vision_config=SIGLIP,
        image_token_index=ids(tokenizer, "<|IMG_PATCH|>")[0],
        downsample_factor=2,
    )
    processor = hf.AyaVisionProcessor(
        hf.GotOcr2ImageProcessor(size=SQUARE, crop_to_patches=True, max_patches=4),
        tokenizer,
        patch_size=14,
        img_size=PICTURE,
        downsample_factor=2,
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)


@writer("cohere2_vision", "Command A Vision")
def _cohere2_vision(folder: Path) -> Parts:
    named = {
        "image_token": "<|IMG_PATCH|>",
        "boi_token": "<|START_OF_IMG|>",
        "eoi_token": "<|END_OF_IMG|>",
        "img_line_break_token": "<|IMG_LINE_BREAK|>",
    }
    tokenizer = write_tokenizer(folder, FORMS["cohere"], picture="<|IMG_PATCH|>", named=named)
    config = hf.Cohere2VisionConfig(
        text_config=small_config("cohere2", tokenizer),
        vision_config=SIGLIP | {"patch_size": 16, "image_size": 128},
        image_token_id=ids(tokenizer, "<|IMG_PATCH|>")[0],
        alignment_intermediate_size=128,
    )
    pictures = hf.Cohere2VisionImageProcessor(size={"height": 128, "width": 128}, patch_size=4, max_patches=4)
    return Parts(config, hf.Cohere2VisionProcessor(pictures, tokenizer, chat_template=tokenizer.chat_template))


_LFM_MARKS = {
    "image_token": "<image>",
    "image_start_token": "<|image_start|>",
    "image_end_token": "<|image_end|>",
    "image_thumbnail_token": "<|img_thumbnail|>",
}


_LFM_LAYERS = ["conv", "full_attention", "conv", "full_attention"]


@writer("lfm2_vl", "LFM2-VL, LFM2.5-VL")
def _lfm2_vl(folder: Path) -> Parts:
    rows = tuple(f"<|img_row_{row}_col_{column}|>" for row in range(1, 5) for column in range(1, 5))
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<image>", more=rows, named=_LFM_MARKS)
    config = hf.Lfm2VlConfig(
        text_config=small_config("lfm2", tokenizer, layer_types=_LFM_LAYERS, block_ff_dim=96),
        vision_config=TOWER | {"model_type": "siglip2_vision_model", "patch_size": 16, "num_patches": 64},
        image_token_id=ids(tokenizer, "<image>")[0],
        projector_hidden_size=WIDTH,
    )
    pictures = hf.Lfm2VlImageProcessor(tile_size=128, min_image_tokens=8, max_image_tokens=32, do_image_splitting=False)
    return Parts(config, hf.Lfm2VlProcessor(pictures, tokenizer, chat_template=tokenizer.chat_template))


@writer("molmo2", "Molmo 2")
def _molmo2(folder: Path) -> Parts:
    names = (
        "image_start_token",
        "low_res_image_start_token",
        "image_end_token",
        "image_patch",
        "frame_start_token",
        "frame_end_token",
    )
    marks = ("<im_start>", "<low_res_im_start>", "<im_end>", "<im_patch>", "<frame_start>", "<frame_end>")
    more = ("<|image|>", "<|video|>", "<im_col>", "<im_low>", *marks)
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<|image|>", more=more)
    heads = TOWER | {"num_key_value_heads": HEADS, "head_dim": 16}
    config = hf.Molmo2Config(
        text_config=small_config("molmo2_text", tokenizer, additional_vocab_size=16),
        vision_config=heads | {"num_hidden_layers": 3, "image_size": [PICTURE] * 2, "num_position_embeddings": 64},
        adapter_config={
            name: heads[name] for name in heads if name not in ("image_size", "patch_size", "num_hidden_layers")
        }
        | {"vision_feature_layer": [-1, -2], "text_hidden_size": WIDTH},
        **{f"{name}_id": number for name, number in zip(names, ids(tokenizer, *marks), strict=True)},
    )
    processor = hf.Molmo2Processor(
        hf.Molmo2ImageProcessor(size=SQUARE, patch_size=14, max_crops=4, overlap_margins=[1, 1]),
        hf.Molmo2VideoProcessor(size=SQUARE),
        tokenizer,
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)


@writer("idefics2", "Idefics2")
def _idefics2(folder: Path) -> Parts:
    more = ("<image>", "<fake_token_around_image>", "<end_of_utterance>")
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<image>", more=more)
    config = hf.Idefics2Config(
        text_config=small_config("mistral", tokenizer),
        vision_config=TOWER,
        perceiver_config={
            **{"hidden_size": WIDTH, "resampler_n_latents": 8, "resampler_depth": 2, "resampler_n_heads": HEADS},
            **{"resampler_head_dim": 16, "num_key_value_heads": 2},
        },
        image_token_id=ids(tokenizer, "<image>")[0],
    )
    pictures = hf.Idefics2ImageProcessor(size={"shortest_edge": 56, "longest_edge": PICTURE}, do_image_splitting=False)
    return Parts(
        config, hf.Idefics2Processor(pictures, tokenizer, image_seq_len=8, chat_template=tokenizer.chat_template)
    )


def _idefics3_tokenizer(folder: Path) -> Any:
    rows = tuple(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7))
    more = ("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *rows)
    return write_tokenizer(folder, FORMS["chatml"], picture="<image>", more=more)


def _idefics3(folder: Path, version: str) -> Parts:
    tokenizer = _idefics3_tokenizer(folder)
    config = getattr(hf, f"{version}Config")(
        text_config=small_config("llama", tokenizer),
        vision_config=TOWER | {"patch_size": 16, "image_size": 128},
        image_token_id=ids(tokenizer, "<image>")[0],
        scale_factor=2,
    )
    sizes = {"size": {"longest_edge": 256}, "max_image_size": {"longest_edge": 128}}
    more = (hf.SmolVLMVideoProcessor(),) if version == "SmolVLM" else ()
    processor = getattr(hf, f"{version}Processor")(
        getattr(hf, f"{version}ImageProcessor")(**sizes),
        tokenizer,
        *more,
        image_seq_len=16,
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)


@writer("idefics3", "Idefics3")
def _idefics3_itself(folder: Path) -> Parts:
    return _idefics3(folder, "Idefics3")


@writer("smolvlm", "SmolVLM, SmolVLM2")
def _smolvlm(folder: Path) -> Parts:
    return _idefics3(folder, "SmolVLM")


@writer("lighton_ocr", "LightOnOCR")
def _lighton_ocr(folder: Path) -> Parts:
    named = {"image_token": "<|image_pad|>", "image_break_token": "<|vision_pad|>", "image_end_token": "<|vision_end|>"}
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<|image_pad|>", named=named)
    config = hf.LightOnOcrConfig(
        text_config=small_config("qwen3", tokenizer),
        vision_config=PIXTRAL,
        image_token_id=ids(tokenizer, "<|image_pad|>")[0],
        spatial_merge_size=2,
    )
    pictures = hf.PixtralImageProcessor(size={"longest_edge": 224}, patch_size={"height": 28, "width": 28})
    processor = hf.LightOnOcrProcessor(
        pictures, tokenizer, patch_size=14, spatial_merge_size=2, chat_template=tokenizer.chat_template
    )
    return Parts(config, processor)


@writer("mistral_large4", "Mistral Large 4")
def _mistral_large4(folder: Path) -> Parts:
    tokenizer = _mistral_tokenizer(folder)
    config = hf.MistralLarge4Config(
        text_config=small_config(
            "mistral_large4_text",
            tokenizer,
            **INDEXED,
        ),
        vision_config=PIXTRAL,
        image_token_index=ids(tokenizer, "[IMG]")[0],
    )
    return Parts(config, _pixtral_processor(tokenizer, patch=14, merge=2))


@writer("step3p7", "Step-3.7")
def _step3p7(folder: Path) -> Parts:
    more = ("<im_patch>", "<im_start>", "<im_end>", "<patch_start>", "<patch_end>", "<patch_newline>")
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<im_patch>", more=more)
    config = hf.Step3p7Config(
        text_config=small_config(
            "step3p5", tokenizer, num_attention_heads=HEADS, num_sliding_attention_heads=HEADS, share_expert_dim=32
        ),
        vision_config=TOWER | {"mlp_ratio": 2.0, "max_position_embeddings": 64},
        image_token_id=ids(tokenizer, "<im_patch>")[0],
    )
    pictures = hf.Step3p7ImageProcessor(size=SQUARE, patch_size=56, vision_patch_size=14, max_image_size=2 * PICTURE)
    return Parts(config, hf.Step3p7Processor(pictures, tokenizer, chat_template=tokenizer.chat_template))


@writer("gemma4_unified", "Gemma 4 unified")
def _gemma4_unified(folder: Path) -> Parts:
    tokenizer = write_tokenizer(
        folder, FORMS["gemma4"], picture="\n\n<|image|>\n\n", more=("<|video|>",), named=_GEMMA4_MARKS
    )
    marks = {f"{name}_id": tokenizer.convert_tokens_to_ids(token) for name, token in _GEMMA4_MARKS.items()}
    marks["eoa_token_index"] = marks.pop("eoa_token_id")
    config = hf.Gemma4UnifiedConfig(
        text_config=small_config("gemma4_unified_text", tokenizer, num_hidden_layers=6, global_head_dim=32),
        vision_config={"mm_embed_dim": WIDTH, "mm_posemb_size": 64, "output_proj_dims": WIDTH},
        audio_config=None,
        video_token_id=ids(tokenizer, "<|video|>")[0],
        **marks,
    )
    processor = hf.Gemma4UnifiedProcessor(
        hf.Gemma4UnifiedAudioFeatureExtractor(),
        hf.Gemma4UnifiedImageProcessor(max_soft_tokens=70),
        tokenizer,
        hf.Gemma4UnifiedVideoProcessor(),
        chat_template=tokenizer.chat_template,
        image_seq_length=70,
    )
    return Parts(config, processor)


@writer("inkling2", "Inkling 2")
def _inkling2(folder: Path) -> Parts:
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<|image|>", named={"image_token": "<|image|>"})
    config = hf.Inkling2Config(
        text_config=small_config(
            "inkling2_text",
            tokenizer,
            **{"swa_num_attention_heads": HEADS, "swa_num_key_value_heads": 2, "swa_head_dim": 16},
            **{"unpadded_vocab_size": len(tokenizer), "sliding_window_size": 32, "rel_extent": 64},
        ),
        vision_config=TOWER
        | {"patch_size": 20, "posemb_grid_size": 8, "projection_hidden_dim": WIDTH, "text_hidden_size": WIDTH},
        image_token_id=ids(tokenizer, "<|image|>")[0],
    )
    pictures = hf.Inkling2ImageProcessor()
    return Parts(config, hf.Inkling2Processor(pictures, tokenizer, chat_template=tokenizer.chat_template))


_GRANITE = {
    "embedding_multiplier": 1.0,
    "logits_scaling": 1.0,
    "residual_multiplier": 1.0,
    "attention_multiplier": 0.25,
}


@writer("granite_docling", "Granite Docling")
def _granite_docling(folder: Path) -> Parts:
    tokenizer = _idefics3_tokenizer(folder)
    config = hf.GraniteDoclingConfig(
        text_config=small_config("granite_docling_text", tokenizer, **_GRANITE),
        vision_config=TOWER
        | {"patch_size": 16, "image_size": 128, "out_hidden_size": WIDTH, "scale_factor": 2, "use_fine_route": False},
        image_token_id=ids(tokenizer, "<image>")[0],
    )
    pictures = hf.GraniteDoclingImageProcessor(size={"height": 128, "width": 128}, max_patches=4)
    processor = hf.GraniteDoclingProcessor(pictures, tokenizer, image_seq_len=16, chat_template=tokenizer.chat_template)
    return Parts(config, processor)

"""Vision-language models like LLaVA: the patches of one tower, projected, of a picture or of its tiles."""

from pathlib import Path

import transformers as hf

from tests.models.architectures.chat_forms import FORMS, write_tokenizer
from tests.models.architectures.picture_parts import SIGLIP, SQUARE, TOWER, Parts, ids, writer
from tests.models.architectures.small_configs import PICTURE, WIDTH, small_config

GRID = [[PICTURE, 2 * PICTURE], [2 * PICTURE, PICTURE], [2 * PICTURE, 2 * PICTURE]]


_INTERN_MARKS = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<IMG_CONTEXT>",
    "video_token": "<video>",
}


@writer("internvl", "InternVL3, InternVL3.5")
def _internvl(folder: Path) -> Parts:
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<IMG_CONTEXT>\n", named=_INTERN_MARKS)
    config = hf.InternVLConfig(
        text_config=small_config("qwen2", tokenizer),
        vision_config=TOWER | {"image_size": [PICTURE] * 2, "patch_size": [14, 14]},
        image_token_id=ids(tokenizer, "<IMG_CONTEXT>")[0],
        image_seq_length=16,
    )
    processor = hf.InternVLProcessor(
        hf.GotOcr2ImageProcessor(size=SQUARE, crop_to_patches=True, max_patches=4),
        tokenizer,
        hf.InternVLVideoProcessor(size=SQUARE),
        image_seq_length=16,
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)


@writer("llava_next", "LLaVA 1.6, Pangea")
def _llava_next(folder: Path) -> Parts:
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<image>\n", more=("<image>",))
    config = hf.LlavaNextConfig(
        text_config=small_config("qwen2", tokenizer),
        vision_config=TOWER | {"model_type": "clip_vision_model", "projection_dim": WIDTH, "num_hidden_layers": 3},
        image_token_index=ids(tokenizer, "<image>")[0],
        image_grid_pinpoints=GRID,
        image_seq_length=64,
    )
    pictures = hf.LlavaNextImageProcessor(size={"shortest_edge": PICTURE}, crop_size=SQUARE, image_grid_pinpoints=GRID)
    processor = hf.LlavaNextProcessor(
        pictures,
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)


@writer("llava_onevision", "LLaVA-OneVision")
def _llava_onevision(folder: Path) -> Parts:
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<image>\n", more=("<image>", "<video>"))
    grid = [[PICTURE, PICTURE], *GRID]
    image, video = ids(tokenizer, "<image>", "<video>")
    config = hf.LlavaOnevisionConfig(
        text_config=small_config("qwen2", tokenizer),
        vision_config=SIGLIP,
        image_token_index=image,
        video_token_index=video,
        image_grid_pinpoints=grid,
    )
    processor = hf.LlavaOnevisionProcessor(
        hf.LlavaOnevisionImageProcessor(size=SQUARE, image_grid_pinpoints=grid),
        tokenizer,
        hf.LlavaOnevisionVideoProcessor(size=SQUARE),
        num_image_tokens=64,
        vision_feature_select_strategy="full",
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)


@writer("ovis2", "Ovis 2")
def _ovis2(folder: Path) -> Parts:
    marks = ("<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>")
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<image>\n", more=("<image>", "<IMG_ATOM>", *marks))
    config = hf.Ovis2Config(
        text_config=small_config("qwen2", tokenizer),
        vision_config=TOWER | {"vocab_size": 64, "hidden_stride": 2},
        image_token_id=ids(tokenizer, "<IMG_ATOM>")[0],
        visual_indicator_token_ids=ids(tokenizer, *marks),
        vocab_size=len(tokenizer) + 8,
        hidden_size=WIDTH,
    )
    pictures = hf.Ovis2ImageProcessor(size=SQUARE, crop_to_patches=True, max_patches=4)
    return Parts(
        config, hf.Ovis2Processor(pictures, tokenizer, chat_template=tokenizer.chat_template, image_seq_length=16)
    )


@writer("vipllava", "ViP-LLaVA")
def _vipllava(folder: Path) -> Parts:
    tokenizer = write_tokenizer(folder, FORMS["vicuna"], picture="<image>\n", more=("<image>",))
    config = hf.VipLlavaConfig(
        text_config=small_config("llama", tokenizer),
        vision_config=TOWER | {"model_type": "clip_vision_model", "projection_dim": WIDTH, "num_hidden_layers": 3},
        image_token_index=ids(tokenizer, "<image>")[0],
        vision_feature_layer=[-2, -3, 1],
        image_seq_length=64,
    )
    pictures = hf.CLIPImageProcessor(size={"shortest_edge": PICTURE}, crop_size=SQUARE)
    processor = hf.LlavaProcessor(
        pictures,
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)


@writer("video_llava", "Video-LLaVA")
def _video_llava(folder: Path) -> Parts:
    tokenizer = write_tokenizer(folder, FORMS["vicuna"], picture="<image>\n", more=("<image>", "<video>"))
    image, video = ids(tokenizer, "<image>", "<video>")
    config = hf.VideoLlavaConfig(
        text_config=small_config("llama", tokenizer),
        vision_config=TOWER | {"model_type": "clip_vision_model", "projection_dim": WIDTH, "num_hidden_layers": 3},
        image_token_index=image,
        video_token_index=video,
        image_seq_length=64,
    )
    processor = hf.VideoLlavaProcessor(
        hf.VideoLlavaImageProcessor(size={"shortest_edge": PICTURE}, crop_size=SQUARE),
        hf.VideoLlavaVideoProcessor(size={"shortest_edge": PICTURE}, crop_size=SQUARE),
        tokenizer,
        patch_size=14,
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)


@writer("llava_next_video", "LLaVA-NeXT-Video")
def _llava_next_video(folder: Path) -> Parts:
    tokenizer = write_tokenizer(folder, FORMS["vicuna"], picture="<image>\n", more=("<image>", "<video>"))
    image, video = ids(tokenizer, "<image>", "<video>")
    config = hf.LlavaNextVideoConfig(
        text_config=small_config("llama", tokenizer),
        vision_config=TOWER | {"model_type": "clip_vision_model", "projection_dim": WIDTH, "num_hidden_layers": 3},
        image_token_index=image,
        video_token_index=video,
        image_grid_pinpoints=GRID,
        image_seq_length=64,
    )
    pictures = hf.LlavaNextImageProcessor(size={"shortest_edge": PICTURE}, crop_size=SQUARE, image_grid_pinpoints=GRID)
    processor = hf.LlavaNextVideoProcessor(
        hf.LlavaNextVideoVideoProcessor(size={"shortest_edge": PICTURE}, crop_size=SQUARE),
        pictures,
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)


@writer("deepseek_vl", "DeepSeek-VL")
def _deepseek_vl(folder: Path) -> Parts:
    tokenizer = write_tokenizer(
        folder, FORMS["vicuna"], picture="<image_placeholder>", named={"image_token": "<image_placeholder>"}
    )
    config = hf.DeepseekVLConfig(
        text_config=small_config("llama", tokenizer),
        vision_config=SIGLIP,
        image_token_id=ids(tokenizer, "<image_placeholder>")[0],
    )
    pictures = hf.DeepseekVLImageProcessor(size=SQUARE, min_size=14)
    processor = hf.DeepseekVLProcessor(pictures, tokenizer, chat_template=tokenizer.chat_template, num_image_tokens=64)
    return Parts(config, processor)


@writer("janus", "Janus, Janus-Pro")
def _janus(folder: Path) -> Parts:
    named = {"image_token": "<image_placeholder>", "boi_token": "<begin_of_image>", "eoi_token": "<end_of_image>"}
    tokenizer = write_tokenizer(folder, FORMS["vicuna"], picture="<image_placeholder>\n", named=named)
    config = hf.JanusConfig(
        text_config=small_config("llama", tokenizer),
        vision_config=TOWER | {"projection_dim": WIDTH, "num_image_tokens": 64, "mlp_ratio": 2.0},
        vq_config={
            **{"embed_dim": 8, "num_embeddings": 64, "latent_channels": 32, "base_channels": 32, "num_patches": 8},
            **{
                "channel_multiplier": [1, 1],
                "num_res_blocks": 1,
                "projection_dim": WIDTH,
                "image_token_embed_dim": WIDTH,
            },
        },
        image_token_id=ids(tokenizer, "<image_placeholder>")[0],
    )
    pictures = hf.JanusImageProcessor(size=SQUARE)
    return Parts(
        config, hf.JanusProcessor(pictures, tokenizer, chat_template=tokenizer.chat_template, num_image_tokens=64)
    )


@writer("qianfan_ocr", "Qianfan-OCR")
def _qianfan_ocr(folder: Path) -> Parts:
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<image>\n", more=("<image>",), named=_INTERN_MARKS)
    config = hf.QianfanOCRConfig(
        text_config=small_config("qwen3", tokenizer),
        vision_config=TOWER | {"image_size": [PICTURE] * 2, "patch_size": [14, 14]},
        image_token_id=ids(tokenizer, "<IMG_CONTEXT>")[0],
        image_seq_length=16,
    )
    pictures = hf.GotOcr2ImageProcessor(size=SQUARE, crop_to_patches=True, max_patches=4)
    processor = hf.QianfanOCRProcessor(pictures, tokenizer, image_seq_length=16, chat_template=tokenizer.chat_template)
    return Parts(config, processor)

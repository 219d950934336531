"""Vision-language models that see a picture as a grid of patches of any size, mostly with positions on axes."""

from pathlib import Path
from typing import Any

import transformers as hf

from tests.models.architectures.chat_forms import FORMS, write_tokenizer
from tests.models.architectures.picture_parts import TOWER, Parts, ids, writer
from tests.models.architectures.small_configs import HEADS, PICTURE, WIDTH, small_config
from tests.models.architectures.text_models import CHANGES, INDEXED

QWEN_TOWER = {"depth": 2, "hidden_size": WIDTH, "intermediate_size": 96, "num_heads": HEADS, "out_hidden_size": WIDTH}
QWEN_MARKS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
QWEN_PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"


def _qwen_ids(tokenizer: Any) -> dict[str, int]:
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    return dict(zip(names, ids(tokenizer, *QWEN_MARKS), strict=True))


def _qwen_tokenizer(folder: Path, more: tuple[str, ...] = ()) -> Any:
    return write_tokenizer(folder, FORMS["chatml"], picture=QWEN_PICTURE, more=(*QWEN_MARKS, *more))


def _qwen3_processor(tokenizer: Any) -> Any:
    pictures = hf.Qwen2VLImageProcessor(patch_size=16, min_pixels=4 * 32 * 32, max_pixels=64 * 32 * 32)
    return hf.Qwen3VLProcessor(pictures, tokenizer, hf.Qwen3VLVideoProcessor(), chat_template=tokenizer.chat_template)


def axes(**more: Any) -> dict[str, Any]:
    """Return rotary positions on three axes for heads of 16."""
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]} | more}


@writer("qwen2_vl", "Qwen2-VL")
def _qwen2_vl(folder: Path) -> Parts:
    tokenizer = _qwen_tokenizer(folder)
    config = hf.Qwen2VLConfig(
        text_config=small_config("qwen2_vl_text", tokenizer, **axes()),
        vision_config={"depth": 2, "embed_dim": WIDTH, "hidden_size": WIDTH, "num_heads": HEADS, "mlp_ratio": 2},
        **_qwen_ids(tokenizer),
    )
    pictures = hf.Qwen2VLImageProcessor(min_pixels=4 * 28 * 28, max_pixels=64 * 28 * 28)
    videos = hf.Qwen2VLVideoProcessor()
    return Parts(config, hf.Qwen2VLProcessor(pictures, tokenizer, videos, chat_template=tokenizer.chat_template))


@writer("qwen2_5_vl", "Qwen2.5-VL")
def _qwen2_5_vl(folder: Path) -> Parts:
    tokenizer = _qwen_tokenizer(folder)
    config = hf.Qwen2_5_VLConfig(
        text_config=small_config("qwen2_5_vl_text", tokenizer, **axes()),
        vision_config=QWEN_TOWER | {"fullatt_block_indexes": [1]},
        **_qwen_ids(tokenizer),
    )
    pictures = hf.Qwen2VLImageProcessor(min_pixels=4 * 28 * 28, max_pixels=64 * 28 * 28)
    videos = hf.Qwen2VLVideoProcessor()
    return Parts(config, hf.Qwen2_5_VLProcessor(pictures, tokenizer, videos, chat_template=tokenizer.chat_template))


@writer("qwen3_vl", "Qwen3-VL")
def _qwen3_vl(folder: Path) -> Parts:
    tokenizer = _qwen_tokenizer(folder)
    config = hf.Qwen3VLConfig(
        text_config=small_config("qwen3_vl_text", tokenizer, **axes(mrope_interleaved=True)),
        vision_config=QWEN_TOWER | {"deepstack_visual_indexes": [0, 1], "num_position_embeddings": 256},
        **_qwen_ids(tokenizer),
    )
    return Parts(config, _qwen3_processor(tokenizer))


@writer("qwen3_vl_moe", "Qwen3-VL-30B-A3B")
def _qwen3_vl_moe(folder: Path) -> Parts:
    tokenizer = _qwen_tokenizer(folder)
    config = hf.Qwen3VLMoeConfig(
        text_config=small_config("qwen3_vl_moe_text", tokenizer, **axes(mrope_interleaved=True)),
        vision_config=QWEN_TOWER | {"deepstack_visual_indexes": [0, 1], "num_position_embeddings": 256},
        **_qwen_ids(tokenizer),
    )
    return Parts(config, _qwen3_processor(tokenizer))


_PARTIAL = {"mrope_section": [1, 2, 1], "mrope_interleaved": True, "partial_rotary_factor": 0.5}


@writer("qwen3_5", "Qwen3.5, Qwen3.6")
def _qwen3_5(folder: Path) -> Parts:
    tokenizer = _qwen_tokenizer(folder, ("<think>", "</think>"))
    config = hf.Qwen3_5Config(
        text_config=small_config("qwen3_5_text", tokenizer, **axes(**_PARTIAL)),
        vision_config=QWEN_TOWER | {"num_position_embeddings": 256},
        **_qwen_ids(tokenizer),
    )
    return Parts(config, _qwen3_processor(tokenizer))


@writer("qwen3_5_moe", "Qwen3.5-35B-A3B, Qwen3.5-397B-A17B")
def _qwen3_5_moe(folder: Path) -> Parts:
    tokenizer = _qwen_tokenizer(folder, ("<think>", "</think>"))
    config = hf.Qwen3_5MoeConfig(
        text_config=small_config("qwen3_5_moe_text", tokenizer, **axes(**_PARTIAL)),
        vision_config=QWEN_TOWER | {"num_position_embeddings": 256},
        **_qwen_ids(tokenizer),
    )
    return Parts(config, _qwen3_processor(tokenizer))


_GLM_MARKS = (
    "<|begin_of_image|>",
    "<|end_of_image|>",
    "<|image|>",
    "<|begin_of_video|>",
    "<|end_of_video|>",
    "<|video|>",
)


_GLM_SIZE = {"shortest_edge": 4 * 28 * 28, "longest_edge": 128 * 28 * 28}


def _glm(folder: Path, kind: str, text: str, version: str, **changes: Any) -> Parts:
    tokenizer = write_tokenizer(
        folder, FORMS["glm"], picture="<|begin_of_image|><|image|><|end_of_image|>", more=_GLM_MARKS
    )
    names = ("image_start", "image_end", "image", "video_start", "video_end", "video")
    config = hf.AutoConfig.for_model(
        kind,
        text_config=small_config(
            text, tokenizer, **axes(mrope_section=[2, 1, 1], partial_rotary_factor=0.5), **changes
        ),
        vision_config=QWEN_TOWER | {"image_size": PICTURE, "patch_size": 14},
        **{f"{name}_token_id": number for name, number in zip(names, ids(tokenizer, *_GLM_MARKS), strict=True)},
    )
    pictures = getattr(hf, f"{version}ImageProcessor")(size=_GLM_SIZE)
    videos = getattr(hf, f"{version}VideoProcessor")()
    return Parts(
        config, getattr(hf, f"{version}Processor")(pictures, tokenizer, videos, chat_template=tokenizer.chat_template)
    )


@writer("glm4v", "GLM-4.1V")
def _glm4v(folder: Path) -> Parts:
    return _glm(folder, "glm4v", "glm4v_text", "Glm4v")


@writer("glm4v_moe", "GLM-4.5V")
def _glm4v_moe(folder: Path) -> Parts:
    return _glm(folder, "glm4v_moe", "glm4v_moe_text", "Glm4v")


@writer("glm46v", "GLM-4.6V")
def _glm46v(folder: Path) -> Parts:
    return _glm(folder, "glm46v", "glm4v_text", "Glm46V")


@writer("glm_ocr", "GLM-OCR")
def _glm_ocr(folder: Path) -> Parts:
    return _glm(folder, "glm_ocr", "glm_ocr_text", "Glm46V")


@writer("glmga", "GLM-4.6V as GA")
def _glmga(folder: Path) -> Parts:
    return _glm(folder, "glmga", "glm4v_text", "Glm46V")


_GLM5 = INDEXED | {"linear_head_dim": 16, "linear_num_heads": HEADS, "index_kpool": 4, "hc_mult": 2}


_GLM5 |= {"qk_rope_head_dim": 0, "head_dim": 0}


@writer("glm5_next", "GLM-5 with pictures")
def _glm5_next(folder: Path) -> Parts:
    return _glm(folder, "glm5_next", "glm5_next_text", "Glm5Next", **_GLM5)


@writer("exaone4_5", "EXAONE 4.5")
def _exaone4_5(folder: Path) -> Parts:
    tokenizer = write_tokenizer(
        folder, FORMS["exaone"], picture="<vision><|image_pad|></vision>", more=("<vision>", "</vision>", *QWEN_MARKS)
    )
    image, video = ids(tokenizer, "<|image_pad|>", "<|video_pad|>")
    config = hf.Exaone4_5_Config(
        text_config=small_config("exaone4", tokenizer),
        vision_config=QWEN_TOWER | {"num_key_value_heads": 2, "fullatt_block_indexes": [1]},
        image_token_id=image,
        video_token_id=video,
    )
    pictures, videos = (
        hf.Qwen2VLImageProcessor(min_pixels=4 * 28 * 28, max_pixels=64 * 28 * 28),
        hf.Qwen2VLVideoProcessor(),
    )
    return Parts(config, hf.Exaone4_5_Processor(pictures, tokenizer, videos, chat_template=tokenizer.chat_template))


@writer("hyperclovax_vision_v2", "HyperCLOVA X SEED Vision")
def _hyperclovax(folder: Path) -> Parts:
    tokenizer = _qwen_tokenizer(folder)
    image, video = ids(tokenizer, "<|image_pad|>", "<|video_pad|>")
    config = hf.HyperCLOVAXVisionV2Config(
        text_config=small_config("hyperclovax", tokenizer),
        vision_config=QWEN_TOWER | {"model_type": "qwen2_5_vl_vision", "fullatt_block_indexes": [1]},
        image_token_id=image,
        video_token_id=video,
    )
    pictures, videos = (
        hf.Qwen2VLImageProcessor(min_pixels=4 * 28 * 28, max_pixels=64 * 28 * 28),
        hf.Qwen2VLVideoProcessor(),
    )
    processor = hf.HyperCLOVAXVisionV2Processor(pictures, tokenizer, videos, chat_template=tokenizer.chat_template)
    return Parts(config, processor)


@writer("ernie4_5_vl_moe", "ERNIE 4.5 VL")
def _ernie4_5_vl(folder: Path) -> Parts:
    named = {
        "image_token": "<|IMAGE_PLACEHOLDER|>",
        "image_start_token": "<|IMAGE_START|>",
        "image_end_token": "<|IMAGE_END|>",
        "video_token": "<|VIDEO_PLACEHOLDER|>",
        "video_start_token": "<|VIDEO_START|>",
        "video_end_token": "<|VIDEO_END|>",
    }
    tokenizer = write_tokenizer(
        folder, FORMS["deepseek"], picture="<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>", named=named
    )
    config = hf.Ernie4_5_VLMoeConfig(
        text_config=small_config(
            "ernie4_5_vl_moe_text",
            tokenizer,
            moe_intermediate_size=[32, 16],
            moe_k=2,
            **axes(mrope_section=[3, 3, 2]),
        ),
        vision_config={"depth": 2, "hidden_size": WIDTH, "num_heads": HEADS, "intermediate_size": 96},
        **{f"{name}_id": tokenizer.convert_tokens_to_ids(token) for name, token in named.items()},
    )
    size = {"shortest_edge": 4 * 28 * 28, "longest_edge": 64 * 28 * 28}
    pictures, videos = hf.Ernie4_5_VLMoeImageProcessor(size=size), hf.Ernie4_5_VLMoeVideoProcessor(draw_on_frames=False)
    processor = hf.Ernie4_5_VLMoeProcessor(pictures, tokenizer, videos, chat_template=tokenizer.chat_template)
    return Parts(config, processor)


@writer("cohere_compass", "Cohere Compass")
def _cohere_compass(folder: Path) -> Parts:
    marks = ("<|VISION_START|>", "<|VISION_END|>", "<|IMAGE_PAD|>", "<|VIDEO_PAD|>")
    tokenizer = write_tokenizer(
        folder, FORMS["cohere"], picture="<|VISION_START|><|IMAGE_PAD|><|VISION_END|>", more=marks
    )
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    config = hf.CohereCompassConfig(
        text_config=small_config("cohere_compass_text", tokenizer, **CHANGES["cohere_compass_text"]),
        vision_config=QWEN_TOWER | {"deepstack_visual_indexes": [0, 1], "num_position_embeddings": 256},
        **dict(zip(names, ids(tokenizer, *marks), strict=True)),
    )
    pictures, videos = hf.CohereCompassImageProcessor(patch_size=16), hf.CohereCompassVideoProcessor()
    return Parts(config, hf.CohereCompassProcessor(pictures, tokenizer, videos, chat_template=tokenizer.chat_template))


@writer("hunyuan_vl", "HunyuanOCR")
def _hunyuan_vl(folder: Path) -> Parts:
    named = {"image_token": "<image>", "image_start_token": "<im_start>", "image_end_token": "<im_end>"}
    tokenizer = write_tokenizer(
        folder, FORMS["chatml"], picture="<im_start><image><im_end>", more=("<im_newline>",), named=named
    )
    image, start, end, newline = ids(tokenizer, "<image>", "<im_start>", "<im_end>", "<im_newline>")
    config = hf.HunYuanVLConfig(
        text_config=small_config("hunyuan_vl_text", tokenizer, **axes(mrope_section=[2, 2, 2, 2])),
        vision_config=TOWER
        | {"patch_size": 16, "out_hidden_size": WIDTH, "text_hidden_size": WIDTH, "max_image_size": 128},
        image_token_id=image,
        im_start_id=start,
        im_end_id=end,
        im_newline_id=newline,
    )
    pictures = hf.HunYuanVLImageProcessor(min_pixels=64 * 64, max_pixels=192 * 192)
    return Parts(config, hf.HunYuanVLProcessor(pictures, tokenizer, chat_template=tokenizer.chat_template))


@writer("paddleocr_vl", "PaddleOCR-VL")
def _paddleocr_vl(folder: Path) -> Parts:
    named = {"image_token": "<|IMAGE_PLACEHOLDER|>"}
    more = ("<|IMAGE_START|>", "<|IMAGE_END|>", "<|VIDEO_PLACEHOLDER|>")
    tokenizer = write_tokenizer(
        folder, FORMS["deepseek"], picture="<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>", more=more, named=named
    )
    start, end, video, image = ids(tokenizer, *more, "<|IMAGE_PLACEHOLDER|>")
    config = hf.PaddleOCRVLConfig(
        text_config=small_config("paddleocr_vl_text", tokenizer, **axes()),
        vision_config=TOWER,
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    pictures = hf.PaddleOCRVLImageProcessor(min_pixels=4 * 28 * 28, max_pixels=64 * 28 * 28)
    return Parts(config, hf.PaddleOCRVLProcessor(pictures, tokenizer, chat_template=tokenizer.chat_template))


@writer("video_llama_3", "VideoLLaMA 3")
def _video_llama_3(folder: Path) -> Parts:
    tokenizer = write_tokenizer(
        folder, FORMS["chatml"], picture="<|image_pad|>\n", more=("<|image_pad|>", "<|video_pad|>")
    )
    image, video = ids(tokenizer, "<|image_pad|>", "<|video_pad|>")
    config = hf.VideoLlama3Config(
        text_config=small_config("qwen2", tokenizer), vision_config=TOWER, image_token_id=image, video_token_id=video
    )
    processor = hf.VideoLlama3Processor(
        hf.VideoLlama3ImageProcessor(min_pixels=4 * 28 * 28, max_pixels=64 * 28 * 28),
        tokenizer,
        hf.VideoLlama3VideoProcessor(),
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)


@writer("qwen4_exp", "Qwen4 (experimental)")
def _qwen4_exp(folder: Path) -> Parts:
    tokenizer = _qwen_tokenizer(folder, ("<think>", "</think>"))
    config = hf.Qwen4ExpConfig(
        text_config=small_config("qwen4_exp_text", tokenizer, **axes(**_PARTIAL), **CHANGES["qwen4_exp_text"]),
        vision_config=QWEN_TOWER | {"num_position_embeddings": 256},
        **_qwen_ids(tokenizer),
    )
    return Parts(config, _qwen3_processor(tokenizer))


@writer("lfm3_vl", "LFM3-VL")
def _lfm3_vl(folder: Path) -> Parts:
    tokenizer = _qwen_tokenizer(folder)
    config = hf.Lfm3VlConfig(
        text_config=small_config("lfm3", tokenizer),
        vision_config=TOWER | {"num_key_value_heads": 2, "patch_size": 16, "layer_types": ["conv", "full_attention"]},
        projector_hidden_size=WIDTH,
        **_qwen_ids(tokenizer),
    )
    pictures = hf.Qwen2VLImageProcessor(patch_size=16, min_pixels=4 * 32 * 32, max_pixels=64 * 32 * 32)
    videos = hf.Qwen2VLVideoProcessor(patch_size=16)
    return Parts(config, hf.Lfm3VlProcessor(pictures, tokenizer, videos, chat_template=tokenizer.chat_template))


@writer("minimax_m3_vl", "MiniMax-M3-VL")
def _minimax_m3_vl(folder: Path) -> Parts:
    marks = (hf.MiniMaxM3VLProcessor.IMAGE_TOKEN, hf.MiniMaxM3VLProcessor.VIDEO_TOKEN)
    more = (*marks, "]<]start of image[>[", "]<]end of image[>[")
    tokenizer = write_tokenizer(folder, FORMS["minimax"], picture=marks[0], more=more)
    image, video = ids(tokenizer, *marks)
    config = hf.MiniMaxM3VLConfig(
        text_config=small_config(
            "minimax_m3_vl_text",
            tokenizer,
            **{"dense_intermediate_size": 96, "shared_intermediate_size": 32, "index_n_heads": 2},
            **{"index_head_dim": 16, "index_block_size": 16, "index_topk_blocks": 2},
        ),
        vision_config=TOWER,
        image_token_index=image,
        video_token_index=video,
        projector_hidden_size=WIDTH,
    )
    pictures, videos = hf.MiniMaxM3VLImageProcessor(), hf.MiniMaxM3VLVideoProcessor()
    return Parts(config, hf.MiniMaxM3VLProcessor(pictures, tokenizer, videos, chat_template=tokenizer.chat_template))


@writer("muse_glimmer", "Muse Glimmer")
def _muse_glimmer(folder: Path) -> Parts:
    more = (
        *("<|image|>", "<|patch|>", "<|image_start|>", "<|image_end|>", "<|video|>"),
        *("<|vid_frame_separator|>", "<|vid_start|>", "<|vid_end|>"),
    )
    tokenizer = write_tokenizer(folder, FORMS["llama4"], picture="<|patch|>", more=more)
    image, video = ids(tokenizer, "<|patch|>", "<|video|>")
    config = hf.MuseGlimmerConfig(
        text_config=small_config("muse_glimmer_text", tokenizer),
        vision_config=TOWER | {"pos_emb_height": 16, "pos_emb_width": 16},
        image_token_id=image,
        video_token_id=video,
        out_hidden_size=4 * WIDTH,
        projector_hidden_size=WIDTH,
    )
    processor = hf.MuseGlimmerProcessor(
        hf.MuseGlimmerImageProcessor(), hf.MuseGlimmerVideoProcessor(), tokenizer, chat_template=tokenizer.chat_template
    )
    return Parts(config, processor)


_MINICPM_MARKS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "image_start_token": "<image>",
    "image_end_token": "</image>",
    "slice_start_token": "<slice>",
    "slice_end_token": "</slice>",
    "image_id_start_token": "<image_id>",
    "image_id_end_token": "</image_id>",
}


def _minicpm(folder: Path, version: str, pictures: str, videos: str, **changes: Any) -> Parts:
    tokenizer = write_tokenizer(
        folder, FORMS["chatml"], picture="<|image_pad|>\n", more=("<unk>",), named=_MINICPM_MARKS
    )
    image, video = ids(tokenizer, "<|image_pad|>", "<|video_pad|>")
    config = getattr(hf, f"{version}Config")(
        text_config=small_config("qwen3_5_text", tokenizer, **axes(**_PARTIAL)),
        vision_config=TOWER | {"num_hidden_layers": 3, "insert_layer_id": 1},
        insert_layer_id=1,
        image_token_id=image,
        video_token_id=video,
        **changes,
    )
    processor = getattr(hf, f"{version}Processor")(
        getattr(hf, f"{pictures}ImageProcessor")(scale_resolution=PICTURE, patch_size=14),
        getattr(hf, f"{videos}VideoProcessor")(),
        tokenizer,
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)


@writer("minicpmv4_6", "MiniCPM-V 4.6")
def _minicpmv4_6(folder: Path) -> Parts:
    return _minicpm(folder, "MiniCPMV4_6", "MiniCPMV4_6", "MiniCPMV4_6", image_size=PICTURE)


@writer("minicpmv4_7", "MiniCPM-V 4.7")
def _minicpmv4_7(folder: Path) -> Parts:
    return _minicpm(folder, "MiniCPMV4_7", "MiniCPMV4_6", "MiniCPMV4_6", image_size=PICTURE)


@writer("minicpm_ocr", "MiniCPM-OCR")
def _minicpm_ocr(folder: Path) -> Parts:
    return _minicpm(folder, "MiniCPMOcr", "MiniCPMOcr", "MiniCPMOcr")


@writer("kimi_k25", "Kimi K2.5")
def _kimi_k25(folder: Path) -> Parts:
    named = {"image_token": "<|media_pad|>", "video_token": "<|video|>"}
    more = ("<|media_begin|>", "<|media_end|>", "<|media_content|>")
    tokenizer = write_tokenizer(folder, FORMS["kimi"], picture="<|media_pad|>", more=more, named=named)
    image, video, start, end = ids(tokenizer, "<|media_pad|>", "<|video|>", "<|media_begin|>", "<|media_end|>")
    config = hf.Kimi_K25Config(
        text_config=small_config("deepseek_v3", tokenizer, n_shared_experts=1, num_key_value_heads=HEADS),
        vision_config=TOWER | {"pos_emb_height": 16, "pos_emb_width": 16},
        projection_hidden_size=WIDTH,
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    pictures, videos = hf.Kimi_K25ImageProcessor(), hf.Kimi_K25VideoProcessor()
    return Parts(config, hf.Kimi_K25Processor(pictures, tokenizer, videos, chat_template=tokenizer.chat_template))


@writer("dots3_note", "dots3.note")
def _dots3_note(folder: Path) -> Parts:
    more = ("<|img|>", "<|imgpad|>", "<|endofimg|>", "<|video_pad|>", "<|audio_comp_pad|>")
    tokenizer = write_tokenizer(folder, FORMS["chatml"], picture="<|img|><|imgpad|><|endofimg|>", more=more)
    image, video, audio = ids(tokenizer, "<|imgpad|>", "<|video_pad|>", "<|audio_comp_pad|>")
    config = hf.Dots3NoteConfig(
        text_config=small_config("dots3_note_text", tokenizer, **CHANGES["dots3_note_text"]),
        vision_config=TOWER | {"mlp_layer_types": ["dense"] * 2, "adapter_in_dim": WIDTH, "adapter_out_dim": WIDTH},
        audio_config={
            **{"hidden_size": WIDTH, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": HEADS},
            **{"downsample_hidden_size": 16, "adapter_input_size": WIDTH, "adapter_out_dim": WIDTH},
        },
        image_token_id=image,
        video_token_id=video,
        audio_token_id=audio,
    )
    processor = hf.Dots3NoteProcessor(
        hf.Qwen2VLImageProcessor(temporal_patch_size=1, min_pixels=4 * 28 * 28, max_pixels=64 * 28 * 28),
        tokenizer,
        hf.Qwen2VLVideoProcessor(),
        hf.Dots3NoteFeatureExtractor(),
        chat_template=tokenizer.chat_template,
    )
    return Parts(config, processor)

"""Vision-language models: a small checkpoint of each architecture for pictures and text, with its own processor."""

import importlib
from pathlib import Path

from actors.local_models import tiny
from tests.models.architectures.picture_parts import WRITERS
from tests.models.architectures.small_configs import SCALE, SCALES

for _module in ("models_like_llava", "models_of_patches", "models_of_tiles"):  # which register their writers
    importlib.import_module(f"tests.models.architectures.{_module}")

_CAPTIONS = "writes captions or answers without turns: no chat template is published"
_PAIRS = "an encoder-decoder model without a chat template"
_OTHER = "another task than chats about pictures"
UNBUILT: dict[str, str] = {
    kind: reason
    for reason, kinds in {
        _CAPTIONS: "blip blip-2 deepseek_ocr2 fuyu git got_ocr2 idefics instructblip instructblipvideo kosmos-2 "
        "kosmos-2.5 paligemma pp_chart2table unlimited_ocr",
        _PAIRS: "florence2 pix2struct pp_formulanet t5gemma2 udop vision-encoder-decoder",
        _OTHER: "cosmos3_omni evolla pi0 shieldgemma2",
        "writes blocks by diffusion: the next token has no likelihood": "diffusion_gemma",
        "turns pictures into tokens by a model that has no small form": "chameleon emu3",
        "its tower is one of timm, whose published form has no small one": "fast_vlm gemma3n perception_lm",
        "hears as well as sees: only its whole is published": "inkling_mm_model muse_spark nemotron_h_omni "
        "qwen2_5_omni_thinker qwen3_omni_moe_thinker",
        "two towers, one of them SAM, which is never small": "deepseek_vl_hybrid",
        "takes pictures of no fewer than 4,900 patches": "aria",
        "its processor leaves out the kinds of tokens, without which its model fails": "cosmos3_edge",
        "a text model that transformers lists here: pictures come with `mistral3`": "mistral4",
        "no small checkpoint yet": "granite4_vision",
    }.items()
    for kind in kinds.split()
}


def write(kind: str, folder: Path) -> None:
    """Write a checkpoint of `kind` (`config.model_type`) with random weights into `folder`."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    config, processor = WRITERS[kind](folder)
    model = getattr(transformers, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES[kind])
    tiny.save(folder, make=lambda: model(config), processor=processor, scale=SCALES.get(kind, SCALE))

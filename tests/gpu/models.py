"""Models of real size with random weights, built on the device, with the processors of the small local ones.

Sizes are those of the published configs: Qwen/Qwen2.5-VL-3B-Instruct and -7B-Instruct, meta-llama/Llama-3.1-8B.
"""

from typing import Any, NamedTuple


class Size(NamedTuple):
    """The text model of one architecture; `parameters` in 10^9, of the whole model."""

    local: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    parameters: float


SIZES = {
    "Qwen2.5-VL-3B": Size("local:qwen2.5-vl-tiny", 2048, 11008, 36, 16, 2, 151_936, 3.75),
    "Qwen2.5-VL-7B": Size("local:qwen2.5-vl-tiny", 3584, 18944, 28, 28, 4, 152_064, 8.29),
    "Llama-3.1-8B": Size("local:llama-tiny", 4096, 14336, 32, 32, 8, 128_256, 8.03),
}
TIED = ("Qwen2.5-VL-3B",)  # the output layer is the embedding
VISION = {
    "depth": 32,
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "fullatt_block_indexes": [7, 15, 23, 31],
    "window_size": 112,
}


def load(name: str, *, device: Any, dtype: Any, tiny: bool) -> tuple[Any, Any]:
    """Return (model, processor) of one of `SIZES`; with `tiny` those of its small local checkpoint."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    from actors.vlm.attention import use_for_pictures
    from actors.vlm.fused import fuse
    from actors.vlm.loading import load_processor, load_vlm

    size = SIZES[name]
    if tiny:
        model, processor = load_vlm(size.local, dtype=str(dtype).removeprefix("torch."), device_map="cpu")
        return model.to(device), processor
    config = full_size(name)
    loader: Any = AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM
    torch.manual_seed(0)
    with torch.device(device):
        model = loader.from_config(config, dtype=dtype)
    use_for_pictures(model)
    fuse(model)
    return model.eval(), load_processor(size.local)


def full_size(name: str) -> Any:
    """Return the small checkpoint's config with the sizes of the published model; its token ids stay."""
    from transformers import AutoConfig

    from actors.local_models import resolve
    from actors.local_models.tiny import rope

    size = SIZES[name]
    config = AutoConfig.from_pretrained(resolve(size.local))
    text = config.get_text_config()
    sections = (16, 24, 24) if hasattr(config, "vision_config") else ()
    values = {
        "hidden_size": size.hidden,
        "intermediate_size": size.intermediate,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "vocab_size": size.vocabulary,
        "head_dim": 128,
        "layer_types": ["full_attention"] * size.layers,
        "tie_word_embeddings": name in TIED,
        **rope(1e6, sections=sections),
    }
    for key, value in values.items():
        if key not in ("layer_types", "head_dim") or hasattr(text, key):
            setattr(text, key, value)
    config.tie_word_embeddings = name in TIED
    if hasattr(config, "vision_config"):
        for key, value in {**VISION, "out_hidden_size": size.hidden}.items():
            setattr(config.vision_config, key, value)
    return config

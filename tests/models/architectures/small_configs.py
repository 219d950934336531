"""Configs of transformers with small sizes: every attribute that has a known name, and what an architecture needs."""

import dataclasses
from typing import Any

WIDTH, HEADS, LAYERS = 64, 4, 4
PICTURE = 112  # pixels
# Of the weights, by which a wrong mask, position or picture changes log-likelihoods visibly (`comparison.VISIBLE`).
SCALE = 8.0
SCALES = dict.fromkeys("cohere ctrl granite hy_v3 hy_v4 inkling_text llama4 nanochat".split(), 14.0)
SCALES["minicpm3"] = 2.0  # at 8, log-likelihoods of transformers in float32 are 3e-4 from those in float64
SCALES |= dict.fromkeys(("mamba", "mamba2", "falcon_mamba"), 2.0)  # the same, of states that rounding accumulates in
# Sizes by attribute. A mixture routes to two of four experts; windows are shorter than the prompts.
SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "embed_dim", "dim", "embedding_size"), WIDTH),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "d_ff", "decoder_ffn_dim", "encoder_ffn_dim"), 96),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers"), LAYERS
    ),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"), HEADS),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), 4096),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "linear_key_head_dim"), 32),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "v_head_dim", "head_dim", "linear_value_head_dim"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "mamba_d_state", "state_size", "rotary_dim"), 8),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace", "mamba_n_groups"), 1),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok", "linear_num_key_heads"), 2),
    "linear_num_value_heads": HEADS,
    "encoder_attention_heads": HEADS,
    "mamba_n_heads": HEADS,
    "mamba_d_head": 32,
    "sliding_window": 32,
}


def fields_of(kind: str) -> set[str]:
    """Return the names of the attributes of a config."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[kind]
    return {field.name for field in dataclasses.fields(config)} if dataclasses.is_dataclass(config) else set()


def small_config(kind: str, tokenizer: Any, **changes: Any) -> Any:
    """Return the config of `kind` (`config.model_type`) with the vocabulary of `tokenizer`, `SIZES` and `changes`."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    names = fields_of(kind)
    values = SIZES | {
        "vocab_size": len(tokenizer) + 8,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    return CONFIG_MAPPING[kind](**{name: value for name, value in values.items() if name in names} | changes)

"""Text models: a small checkpoint of each causal architecture of transformers, by its config and what sets it apart."""

from pathlib import Path
from typing import Any

from actors.local_models import tiny
from tests.models.architectures.chat_forms import FORMS, write_tokenizer
from tests.models.architectures.small_configs import HEADS, LAYERS, SCALE, SCALES, small_config

_LATENT = {"num_key_value_heads": HEADS}  # keys and values from one latent vector
# Each token sees the 16 best of the earlier ones. With few heads many would have a score of exactly 0, and it would
# depend on their number which of them are seen.
INDEXED = _LATENT | {"index_topk": 16, "index_head_dim": 16, "index_n_heads": 16}
_MAMBA = ["linear_attention", "full_attention"] * (LAYERS // 2)
_SHARED = {"num_hidden_layers": 6, "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 8}
# What an architecture needs besides `small_configs.SIZES`.
CHANGES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3", "youtu"), _LATENT),
    **dict.fromkeys(("axk2", "deepseek_v32", "dots3_note_text", "glm_moe_dsa"), INDEXED),
    "bailing_hybrid": _LATENT | {"layer_group_size": 2},
    "bamba": {"attn_layer_indices": [1, 3]},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"] * (LAYERS // 2),
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
            for kind in ("sliding_attention", "full_attention")
        },
    },
    "dots1": {"n_shared_experts": 1},
    "ernie4_5_moe": {"moe_k": 2},
    "falcon_h1": {"mamba_d_ssm": 128},
    "gemma3n_text": _SHARED
    | {"laurel_rank": 8, "vocab_size_per_layer_input": 4016, "activation_sparsity_pattern": [0.0] * 6},
    "gemma4_text": _SHARED | {"vocab_size_per_layer_input": 4016, "global_head_dim": 32},
    "gpt_neo": {"attention_types": [[["global", "local"], LAYERS // 2]], "window_size": 32},
    "granitemoehybrid": {"layer_types": _MAMBA},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": _LATENT | {"layer_types": _MAMBA, "linear_head_dim": 16, "linear_num_heads": HEADS},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * (LAYERS // 2)},
    "longcat_flash": _LATENT | {"head_dim": 8},
    "mamba2": {"num_heads": 8, "n_groups": 1},
    "nemotron_h": {
        **{"mamba_num_heads": HEADS, "mamba_head_dim": 32, "n_groups": 1, "ssm_state_size": 8},
        **{"layers_block_type": ["linear_attention", "full_attention", "moe", "full_attention"]},
        "rescale_prenorm_residual": False,
    },
    "qwen4_exp_text": {
        **{"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 32},
        **{"indexer_compress_ratio": 4, "ngram_vocab_size_base": 1000, "split_ngram_parts": 4, "hc_lowrank": 16},
    },
    "xlstm": {"qk_dim_factor": 1.0},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"] * (LAYERS // 2), "num_key_value_heads": HEADS},
    "zaya": {"num_experts_per_tok": 1, "router_hidden_size": 16},
}
# The form of the chat, where it is not that of ChatML.
FORMS_OF: dict[str, str] = {
    kind: form
    for form, kinds in {
        "llama3": "llama iquestcoder cwm jais2 arcee minicpm3 modernbert-decoder",
        "llama4": "llama4_text",
        "gemma": "gemma gemma2 gemma3_text gemma3n_text vaultgemma recurrent_gemma",
        "gemma4": "gemma4_text gemma4_unified_text",
        "mistral": "mistral mixtral ministral ministral3 zaya",
        "cohere": "cohere cohere2 cohere2_moe cohere_compass_text",
        "glm": "glm glm4 glm4_moe glm4_moe_lite glm_moe_dsa",
        "phi": "phi phi3 phimoe falcon",
        "granite": "granite granite_swa granitemoe granitemoe_swa granitemoehybrid granitemoeshared",
        "deepseek": "deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 ernie4_5 ernie4_5_moe",
        "harmony": "gpt_oss",
        "exaone": "exaone4 exaone_moe",
        "kimi": "kimi_linear",
        "minimax": "minimax minimax_m2 minimax_m3_vl_text",
        "words": "bloom codegen ctrl gpt-sw3 gpt2 gpt_bigcode gpt_neo gpt_neox gpt_neox_japanese gptj mpt opt "
        "openai-gpt rwkv xglm",
    }.items()
    for kind in kinds.split()
}
_ENCODER = "an encoder of texts, run as a decoder; no chat model has it"
_SEQUENCES = "the decoder of an encoder-decoder model; alone, no chat model has it"
UNBUILT: dict[str, str] = {
    kind: reason
    for reason, kinds in {
        _ENCODER: "bert bert-generation big_bird camembert data2vec-text electra ernie megatron-bert "
        "rembert roberta roberta-prelayernorm roc_bert roformer xlm xlm-roberta xlm-roberta-xl xlnet xmod reformer",
        _SEQUENCES: "bart bigbird_pegasus blenderbot blenderbot-small marian mbart mvp pegasus plbart prophetnet trocr",
        "continues sound": "moshi moss_transcribe_diarize musicgen musicgen_melody whisper",
        "drafts tokens for another model, whose states it reads": "gemma4_assistant gemma4_unified_assistant",
        "sees and hears by adapters of its own, outside the classes for pictures and text": "phi4_multimodal",
        "reads bytes, with a second model that cuts them into patches": "blt",
        "its prompts are segments of its own tokenizer": "cpmant",
        "its config cannot be created in transformers 5.23": "dbrx zamba",
    }.items()
    for kind in kinds.split()
}


def write(kind: str, folder: Path) -> None:
    """Write a checkpoint of `kind` (`config.model_type`) with random weights into `folder`."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    tokenizer = write_tokenizer(folder, FORMS[FORMS_OF.get(kind, "chatml")])
    config = small_config(kind, tokenizer, **CHANGES.get(kind, {}))
    model = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind])
    tiny.save(folder, make=lambda: model(config), processor=tokenizer, scale=SCALES.get(kind, SCALE))

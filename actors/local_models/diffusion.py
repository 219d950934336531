"""A small random Stable Diffusion 3 in the format of diffusers: `local:sd3-tiny`.

It has all parts of stabilityai/stable-diffusion-3-medium-diffusers: the MMDiT, a VAE, two CLIP text encoders, a T5
encoder and the flow-matching scheduler, but with other sizes, vocabularies (single letters) and weights. A picture is
32 x 32 pixels of coloured noise that depends on the prompt and the seed.
"""

import string
from pathlib import Path
from typing import Any

VERSION = "1"
SEED = 20250219
HIDDEN = 32
SIDE = 32  # pixels
LATENT = SIDE // 2  # the VAE halves each side once
_T5_WIDTH = 2 * HIDDEN  # the features of both CLIP encoders side by side
_START, _END = "<|startoftext|>", "<|endoftext|>"


def build(folder: Path) -> None:
    """Write the checkpoint into the existing `folder`; does not change torch's random state."""
    import torch
    from diffusers import FlowMatchEulerDiscreteScheduler, StableDiffusion3Pipeline
    from transformers.utils import logging

    has_progress_bar = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            clip_tokenizer, t5_tokenizer = _clip_tokenizer(), _t5_tokenizer()
            pipeline: Any = StableDiffusion3Pipeline(
                transformer=_transformer(),
                vae=_vae(),
                scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
                text_encoder=_clip(clip_tokenizer),
                tokenizer=clip_tokenizer,
                text_encoder_2=_clip(clip_tokenizer),
                tokenizer_2=clip_tokenizer,
                text_encoder_3=_t5(t5_tokenizer),
                tokenizer_3=t5_tokenizer,
            )
            pipeline.save_pretrained(folder, safe_serialization=True)
    finally:
        if has_progress_bar:
            logging.enable_progress_bar()


def _transformer() -> Any:
    from diffusers import SD3Transformer2DModel

    return SD3Transformer2DModel(
        sample_size=LATENT,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=2,
        attention_head_dim=HIDDEN // 2,
        num_attention_heads=2,
        caption_projection_dim=HIDDEN,
        joint_attention_dim=_T5_WIDTH,
        pooled_projection_dim=2 * HIDDEN,
        pos_embed_max_size=LATENT,
    )


def _vae() -> Any:
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        sample_size=SIDE,
        block_out_channels=(16, 32),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        use_quant_conv=False,
        use_post_quant_conv=False,
        scaling_factor=1.5305,
        shift_factor=0.0609,
    )


def _clip_tokenizer() -> Any:
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTokenizer

    letters = sorted(ByteLevel.alphabet())
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), _START, _END]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77)


def _clip(tokenizer: Any) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection

    return CLIPTextModelWithProjection(
        CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=HIDDEN,
            intermediate_size=2 * HIDDEN,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=77,
            projection_dim=HIDDEN,
            bos_token_id=tokenizer.convert_tokens_to_ids(_START),
            eos_token_id=tokenizer.convert_tokens_to_ids(_END),
            pad_token_id=tokenizer.convert_tokens_to_ids(_END),
        )
    )


def _t5_tokenizer() -> Any:
    from transformers import T5Tokenizer

    letters = [(letter, -2.0) for letter in string.digits + string.ascii_letters + string.punctuation]
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -100.0), ("▁", -1.0), *letters]
    return T5Tokenizer(vocab=vocabulary, extra_ids=0, model_max_length=64)


def _t5(tokenizer: Any) -> Any:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=len(tokenizer), d_model=_T5_WIDTH, d_kv=16, d_ff=_T5_WIDTH, num_layers=1, num_heads=2)
    return T5EncoderModel(config)

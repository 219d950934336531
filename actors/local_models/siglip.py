"""A small random checkpoint of SigLIP in open_clip: `local:siglip-tiny`.

It has the parts of open_clip's `ViT-B-16-SigLIP-i18n-256`: a timm ViT with attention ("map") pooling and no projection,
a text tower without causal mask that pools the last token, a logit bias, SigLIP's preprocessing, and canonicalised
texts of 64 tokens padded with the end token. Apart from the size, two things differ: timm's smallest ViT has a class
token, which the pooling ignores, and the tokenizer is byte-level BPE instead of SentencePiece, so that it can be
trained on the spot and accepts any script. The ViT interpolates its 14 x 14 positions to a picture's 16 x 16 patches.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERSION = "1"

_CONTEXT = 64
_VOCABULARY = 2048
_PAD_AND_END = "</s>"
_GAIN = 3.0  # with timm's initialisation all pictures get nearly the same vector (cosine above 0.99)
_MODEL: dict[str, Any] = {
    "embed_dim": 64,
    "init_logit_bias": -10,
    "custom_text": True,
    "vision_cfg": {
        "image_size": 256,
        "timm_model_name": "test_vit",
        "timm_model_pretrained": False,
        "timm_pool": "map",
        "timm_proj": "none",
    },
    "text_cfg": {
        "context_length": _CONTEXT,
        "vocab_size": _VOCABULARY,
        "hf_tokenizer_name": "siglip-tiny",
        "tokenizer_kwargs": {"clean": "canonicalize"},
        "width": 64,
        "heads": 2,
        "layers": 2,
        "no_causal_mask": True,
        "proj_bias": True,
        "pool_type": "last",
        "norm_kwargs": {"eps": 1e-6},
    },
}
_PREPROCESSING: dict[str, Any] = {
    "size": [256, 256],
    "mode": "RGB",
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
    "interpolation": "bicubic",
    "resize_mode": "squash",
    "fill_color": 0,
}


def build(folder: Path) -> None:
    """Write the checkpoint into the existing `folder`, always with the same bytes.

    The files are `open_clip_config.json`, `open_clip_model.safetensors` (float32), `tokenizer.json` and
    `tokenizer_config.json`; `open_clip.create_model_and_transforms` and `open_clip.get_tokenizer` load them offline as
    `local-dir:FOLDER`.
    """
    config = {"model_cfg": _MODEL, "preprocess_cfg": _PREPROCESSING}
    (folder / "open_clip_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    _write_tokenizer(folder)
    _write_weights(folder)


def _write_weights(folder: Path) -> None:
    import numpy as np
    import torch
    from open_clip import CustomTextCLIP
    from safetensors.torch import save_file

    model = CustomTextCLIP(**{name: value for name, value in _MODEL.items() if name != "custom_text"})
    # NumPy guarantees the stream of RandomState, so the bytes do not depend on how a release of torch, timm or
    # open_clip initialises its layers.
    draw = np.random.RandomState(0)
    weights = {}
    for name, tensor in sorted(model.state_dict().items()):
        if tensor.ndim == 0:  # logit scale and bias
            values = tensor.numpy()
        elif tensor.ndim == 1:
            values = np.ones(tensor.shape) if name.endswith("weight") else 0.1 * draw.standard_normal(tensor.shape)
        else:
            fan_in = tensor[0].numel() if len(tensor) > 1 else tensor.shape[-1]
            values = draw.standard_normal(tensor.shape) * (_GAIN / fan_in**0.5)
        weights[name] = torch.from_numpy(np.ascontiguousarray(values, np.float32))
    save_file(weights, folder / "open_clip_model.safetensors")


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=["<unk>", _PAD_AND_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    end = tokenizer.token_to_id(_PAD_AND_END)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {_PAD_AND_END}", special_tokens=[(_PAD_AND_END, end)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": _CONTEXT,
        "eos_token": _PAD_AND_END,
        "pad_token": _PAD_AND_END,
        "unk_token": "<unk>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _texts() -> Iterator[str]:
    """Yield paragraphs of Python's manual, canonicalised like the tokenizer's input."""
    from pydoc_data.topics import topics

    from open_clip.tokenizer import canonicalize_text

    for name in sorted(topics):
        for paragraph in topics[name].split("\n\n"):
            yield canonicalize_text(paragraph)

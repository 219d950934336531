"""Code shared by the small random checkpoints: training a tokenizer, initialising weights, saving."""

import functools
import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SEED = 20250219
MERGED = 4000  # tokens before the special ones
# With the default initialisation of 0.02 a wrong mask or position changes the logits too little for tests to notice.
WEIGHT_SCALE = 3.0

# Qwen2's pre-tokenisation; each digit is a token.
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# GPT-2's (SmolLM, Idefics); it splits the last of several newlines from the others, so the tokens of a text cut there
# differ from those of the whole text.
GPT2_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def write_tokenizer(
    folder: Path,
    *,
    specials: Sequence[str],
    end: str,
    pad: str,
    template: str,
    split: str = QWEN_SPLIT,
    start: str | None = None,
    kind: str = "PreTrainedTokenizerFast",
    named: dict[str, str] | None = None,
) -> Any:
    """Write tokenizer.json and its settings into `folder`; return the tokenizer as AutoTokenizer loads it.

    Args:
        specials: special tokens, in the order of their ids, after `MERGED` others.
        end, pad, start: the tokens that end a turn, pad, and begin a text (the template writes `start`).
        template: the chat template.
        split: regular expression of the pre-tokenisation.
        kind: class name in the settings; Qwen's class was renamed between transformers 4 and 5, its files were not.
        named: other special tokens, by the attribute under which a processor looks them up.
    """
    from tokenizers import AddedToken
    from transformers import AutoTokenizer

    tokenizer = byte_pairs(split)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": kind,
        "eos_token": end,
        "pad_token": pad,
        "additional_special_tokens": list(specials),
        "model_max_length": 32768,
        "chat_template": template,
        "clean_up_tokenization_spaces": False,
    }
    if start:
        settings["bos_token"] = start
    if named:
        settings |= {"extra_special_tokens": named, **named}
        del settings["additional_special_tokens"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
    return AutoTokenizer.from_pretrained(folder)


def byte_pairs(split: str) -> Any:
    """Return a byte-level byte-pair encoding of `MERGED` tokens, trained on the texts of Python's help."""
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers

    tokenizer = Tokenizer.from_str(_train())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@functools.lru_cache(maxsize=1)
def _train() -> str:
    """Return the trained tokenizer as JSON; cached, because training takes a second per checkpoint."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=MERGED, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    text: str = tokenizer.to_str()
    return text


def _texts() -> Iterator[str]:
    topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    for name in sorted(topics):
        yield topics[name]


def rope(theta: float, *, sections: Sequence[int] = (), interleaved: bool = False) -> dict[str, Any]:
    """Return the settings of rotary positions for the installed version of transformers.

    Args:
        theta: base.
        sections: the sections of time, height and width; empty for one-dimensional positions.
    """
    import transformers

    if int(transformers.__version__.split(".", maxsplit=1)[0]) >= 5:
        parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": theta}
        if sections:
            parameters["mrope_section"] = list(sections)
        if interleaved:
            parameters["mrope_interleaved"] = True
        return {"rope_parameters": parameters}
    if not sections:
        return {"rope_theta": theta, "rope_scaling": {"rope_type": "default"}}
    scaling: dict[str, Any] = {"type": "mrope", "rope_type": "default", "mrope_section": list(sections)}
    if interleaved:
        scaling = {"rope_type": "default", "mrope_section": list(sections), "mrope_interleaved": True}
    return {"rope_theta": theta, "rope_scaling": scaling}


def save(folder: Path, *, make: Callable[[], Any], processor: Any, scale: float = WEIGHT_SCALE) -> None:
    """Write a model with random weights (safetensors, float32) and its processor; keep torch's random state.

    Matrices are scaled up. Gates and projections that start at zero, which would hide the picture, are set.

    Args:
        make: returns the model with its default initialisation.
        scale: by which matrices are multiplied.
    """
    import torch
    from transformers.utils import logging

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = make()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name.endswith(("attn_gate", "mlp_gate", "gate_attn", "gate_ffn")) or name.endswith(".gate"):
                    weight.fill_(0.7)  # those of mllama's cross-attention start at zero
                elif name.endswith("mm_input_projection_weight"):
                    weight.normal_(std=0.02 * scale)  # Gemma 3's starts at zero
                elif weight.ndim >= 2:
                    weight.mul_(scale)
    has_progress_bar = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model.save_pretrained(folder)
    finally:
        if has_progress_bar:
            logging.enable_progress_bar()
    processor.save_pretrained(folder)

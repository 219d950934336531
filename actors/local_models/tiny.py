"""What the small random checkpoints share: a tokenizer trained here, weights that show mistakes, saving."""

import functools
import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SEED = 20250219
MERGED = 4000  # tokens before the special ones
# With the default initialisation of 0.02 a wrong mask or position moves the logits too little to be noticed.
WEIGHT_SCALE = 3.0

# Qwen2's split before byte-pair encoding: a digit is always a token of its own.
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# GPT-2's (SmolLM, Idefics): the last of several line ends before a word is split off from the others, so that a
# text cut there has other tokens than the whole.
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
    """Write tokenizer.json and its settings into `folder`; the tokenizer as AutoTokenizer loads it.

    Args:
        specials: special tokens, in the order of their ids, after `MERGED` others.
        end, pad, start: the tokens that end a turn, fill, and begin a text (`start` is left to the template).
        kind: the class to be named; Qwen's own was renamed between transformers 4 and 5, the files were not.
        named: further special tokens by the attribute under which a processor looks for them.
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
    """A byte-level byte-pair encoding of `MERGED` tokens, trained on the texts of Python's own help."""
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers

    made = Tokenizer.from_str(_trained())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    return made


@functools.lru_cache(maxsize=1)
def _trained() -> str:
    """The merges, learned once a process: a second, which eight checkpoints need not pay eight times."""
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
    """Rotary positions as the configuration of this transformers spells them; `sections` of time, height, width."""
    import transformers

    if int(transformers.__version__.split(".", maxsplit=1)[0]) >= 5:
        found: dict[str, Any] = {"rope_type": "default", "rope_theta": theta}
        if sections:
            found["mrope_section"] = list(sections)
        if interleaved:
            found["mrope_interleaved"] = True
        return {"rope_parameters": found}
    if not sections:
        return {"rope_theta": theta, "rope_scaling": {"rope_type": "default"}}
    scaling: dict[str, Any] = {"type": "mrope", "rope_type": "default", "mrope_section": list(sections)}
    if interleaved:
        scaling = {"rope_type": "default", "mrope_section": list(sections), "mrope_interleaved": True}
    return {"rope_theta": theta, "rope_scaling": scaling}


def save(folder: Path, *, make: Callable[[], Any], processor: Any) -> None:
    """Write a model of random weights (safetensors, float32) and its processor; torch's random state stays as it was.

    Matrices are scaled up. Gates and projections that start at zero, and would keep the picture out, are set.
    """
    import torch
    from transformers.utils import logging

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = make()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name.endswith(("attn_gate", "mlp_gate", "gate_attn", "gate_ffn")) or name.endswith(".gate"):
                    weight.fill_(0.7)  # mllama's cross-attention starts shut
                elif name.endswith("mm_input_projection_weight"):
                    weight.normal_(std=0.02 * WEIGHT_SCALE)  # Gemma 3's starts at zero
                elif weight.ndim >= 2:
                    weight.mul_(WEIGHT_SCALE)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model.save_pretrained(folder)
    finally:
        if shown:
            logging.enable_progress_bar()
    processor.save_pretrained(folder)

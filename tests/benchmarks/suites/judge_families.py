"""Fifty labels with suffixes of 20 tokens behind 1,200, on other architectures than Qwen2.5-VL: shared against naive.

Text models of each architecture with random weights, four layers wide enough that products dominate: linear attention
(Qwen3.5), windows and layers with a head size of their own (Gemma 4), chunks and experts (Llama 4), experts (Qwen3),
convolutions (LFM2), and plain attention with norms of heads (Qwen3, of Qwen3-VL too).
"""

from functools import partial
from pathlib import Path
from unittest.mock import patch

from tests.benchmarks import judging
from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target
from tests.models.architectures import small_configs, text_models
from tests.models.architectures.chat_forms import FORMS, write_tokenizer

SHAPE, SMOKE = judging.Shape(labels=50, suffix=20), judging.Shape(labels=4, suffix=20)
WHOLE = {"smoke": 1, "default": 4, "full": 50}  # labels that are passed whole; the seconds are scaled to all
KINDS = ("qwen3", "qwen3_5_text", "gemma4_text", "llama4_text", "qwen3_moe", "lfm2")
TOKENS = 50 * (judging.PREFIX + SHAPE.suffix) / (judging.PREFIX + 50 * SHAPE.suffix)  # ratio of tokens, 27.7
WIDTH = 768
SIZES = {
    **dict.fromkeys(("hidden_size", "intermediate_size_mlp"), WIDTH),
    "intermediate_size": 4 * WIDTH,
    "moe_intermediate_size": WIDTH,
    **dict.fromkeys(("head_dim", "linear_key_head_dim", "linear_value_head_dim"), 64),
    **dict.fromkeys(("num_attention_heads", "linear_num_value_heads"), 12),
    **dict.fromkeys(("num_key_value_heads", "linear_num_key_heads"), 4),
    "sliding_window": 512,
}


def prepare(workdir: Path, size: Size) -> None:
    """Write a checkpoint of each architecture."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    from actors.local_models import tiny

    for kind in KINDS:
        (workdir / kind).mkdir()
        tokenizer = write_tokenizer(workdir / kind, FORMS[text_models.FORMS_OF.get(kind, "chatml")])
        changes = {k: v for k, v in text_models.CHANGES.get(kind, {}).items() if k != "global_head_dim"}
        with patch.dict(small_configs.SIZES, SIZES):
            config = small_configs.small_config(kind, tokenizer, **changes)
        model = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind])
        tiny.save(workdir / kind, make=partial(model, config), processor=tokenizer)


def shared(workdir: Path, size: Size, *, kind: str) -> Result:
    """All labels by the engine that `auto` takes."""
    return judging.score(SMOKE if size == "smoke" else SHAPE, "cascade", repeats=2, model=str(workdir / kind))


def naive(workdir: Path, size: Size, *, kind: str) -> Result:
    """One pass a label."""
    shape = SMOKE if size == "smoke" else SHAPE
    return judging.one_pass_a_label(shape, labels=WHOLE[size], model=str(workdir / kind))


# The harness calls functions of the module by name.
for _kind in KINDS:
    globals()[f"shared_{_kind}"] = partial(shared, kind=_kind)
    globals()[f"naive_{_kind}"] = partial(naive, kind=_kind)


def _contender(way: str, kind: str) -> Contender:
    return Contender(name=f"{way}_{kind}", function=f"{__name__}:{way}_{kind}", compared=False, about=f"{kind}, {way}")


BENCHMARK = Benchmark(
    name="judge_families",
    about=__doc__.split("\n", maxsplit=1)[0] if __doc__ else "",
    bound=f"the ratio of tokens, {TOKENS:.1f}: tokens are fewer, but passes of short rows are less efficient",
    prepare=prepare,
    contenders=tuple(_contender(way, kind) for kind in KINDS for way in ("shared", "naive")),
    reference="shared_qwen3",
    targets=tuple(
        Target(metric="cpu_s", contender=f"naive_{kind}", against=f"shared_{kind}", at_least=round(0.8 * TOKENS, 1))
        for kind in KINDS
    ),
    packages=("torch", "transformers"),
)

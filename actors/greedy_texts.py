"""The likeliest texts about some items by one engine; `generate engine=auto` compares engines by them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from actors.generator import load_in_transformers, load_in_vllm
from actors.prompt_preparer import PromptPreparer
from actors.vlm.encoding import from_bytes
from actors.vlm.errors import ScoringError
from actors.vlm.generation import Generated
from actors.vlm.settings import ModelSettings, SamplingSettings


class GreedyTexts(NamedTuple):
    """The likeliest texts about some items, for a comparison of engines.

    Attributes:
        texts: the tokens of each text, without its end token.
        reasons: why each text ended, `stop` or `length`.
        logprobs: natural logarithm of the probability of each token of each text.
        dtype: dtype of the weights.
        engine: libraries with their versions, and the kind of device.
    """

    texts: list[list[int]]
    reasons: list[str]
    logprobs: list[list[float]]
    dtype: str
    engine: str


def greedy_texts(
    items: pa.Table,
    *,
    engine: str,
    prepare: Mapping[str, Any],
    max_tokens: int,
    memory_budget_gb: float | None = None,
    texts: Sequence[Sequence[int]] | None = None,
) -> GreedyTexts:
    """Load a model in an engine and return the likeliest texts about items.

    Args:
        items: as for `actors.prompt_preparer.PromptPreparer`; items without a prompt are left out.
        prepare: arguments of the constructor of `PromptPreparer`.
        max_tokens: longest text.
        texts: texts whose tokens' probabilities are returned; None: those that the engine writes.

    Raises:
        ValueError: the model cannot be loaded, or a prompt has no text.
    """
    model: ModelSettings = prepare["model"]
    prepared = PromptPreparer(**{**prepare, "keeps_pictures": engine == "vllm"})(items)
    inputs = [from_bytes(data) for data in prepared["inputs"].to_pylist() if data is not None]
    settings = SamplingSettings(temperature=0.0, max_tokens=max_tokens, memory_budget_gb=memory_budget_gb)
    generator, _, facts = (load_in_vllm if engine == "vllm" else load_in_transformers)(settings, model, None)
    likeliest: list[Generated] = []
    for result in generator.generate(inputs, seeds=[[0]] * len(inputs), sampling=settings.sampling):
        if isinstance(result, ScoringError):
            raise ValueError(result.message)
        likeliest += result
    asked = [text.tokens for text in likeliest] if texts is None else texts
    logprobs = [
        generator.token_logprobs(prompt, text) if text else [] for prompt, text in zip(inputs, asked, strict=True)
    ]
    return GreedyTexts(
        [t.tokens for t in likeliest], [t.finish_reason for t in likeliest], logprobs, facts.dtype, facts.engine
    )

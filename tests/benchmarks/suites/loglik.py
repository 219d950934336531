"""The likelihood of fifty labels' names behind a picture with an article of 1,200 tokens: packed against a cache each.

`naive` passes prompt and label whole, for a few labels, and is scaled to all.
"""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks import judging
from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target
from tests.benchmarks.suites.judge import prepare

START = "What is described here matters most to"
LABELS: dict[Size, int] = {"smoke": 4, "default": 50, "full": 200}
WHOLE: dict[Size, int] = {"smoke": 1, "default": 4, "full": 8}


class Work(NamedTuple):
    """A scorer with one prompt and the labels' tokens behind it."""

    scorer: Any
    inputs: dict[str, Any]
    completions: list[list[int]]


def load(labels: int, *, is_packed: bool) -> Work:
    """Return a scorer that takes one of its two ways, warm."""
    from actors.vlm.chat import ChatEncoder
    from actors.vlm.loglik import CompletionScorer

    loaded = judging.load(judging.Shape(2, 20))
    prompt, shown = loaded.requests[0].prompt, loaded.requests[0].picture
    chat = ChatEncoder(loaded.processor)
    inputs = chat.encode(prompt.shared, [shown], start=START)
    completions = [chat.continuation(START, f" the people of island number {n}") for n in range(labels)]
    scorer = CompletionScorer(loaded.model, pad_id=0)
    scorer.score(inputs, completions)  # proves the packed way
    if not is_packed:
        scorer.ways.remove("cascade")
        scorer.score(inputs, completions)
    return Work(scorer, inputs, completions)


def packed(workdir: Path, size: Size) -> Result:
    """Score the completions as `loglik` does."""
    return _scored(load(LABELS[size], is_packed=True))


def repeated(workdir: Path, size: Size) -> Result:
    """The portable way: the cache is repeated for each label."""
    return _scored(load(LABELS[size], is_packed=False))


def naive(workdir: Path, size: Size) -> Result:
    """One pass over prompt and label, for each of some labels; seconds of all.

    Raises:
        ValueError: the likelihoods are not those of the packed labels.
    """
    import torch

    from actors.vlm.model_inputs import extended
    from actors.vlm.shared_prefix import forget_positions

    work = load(LABELS[size], is_packed=True)
    few, model = work.completions[: WHOLE[size]], work.scorer.model

    def whole() -> list[tuple[float, ...]]:
        results: list[tuple[float, ...]] = []
        for tokens in few:
            forget_positions(model)
            with torch.inference_mode():
                inputs = extended(work.inputs, tokens[:-1])
                logits = model(**inputs, use_cache=False, logits_to_keep=len(tokens)).logits[0]
            logprobs = logits.double().log_softmax(-1)
            results.append((float(logprobs[range(len(tokens)), tokens].sum()),))
        return results

    result, seconds = judging.measured(whole)
    judging.same(result, [(value,) for value in work.scorer.score(work.inputs, few)])
    return Result(LABELS[size], "", cpu_s=seconds * LABELS[size] / len(few))


def _scored(work: Work) -> Result:
    result, seconds = judging.measured(lambda: work.scorer.score(work.inputs, work.completions), repeats=2)
    order = sorted(range(len(result)), key=lambda n: (round(result[n], 2), n))
    return Result(len(result), hashlib.sha256(str(order).encode()).hexdigest(), cpu_s=seconds)


BENCHMARK = Benchmark(
    name="loglik",
    about=__doc__,
    bound="the model's matrix products",
    prepare=prepare,
    contenders=(
        Contender(name="packed", function=f"{__name__}:packed", about="as loglik does it"),
        Contender(name="repeated", function=f"{__name__}:repeated", about="a cache a label, 32 at a time"),
        Contender(name="naive", function=f"{__name__}:naive", compared=False, about="one pass a label"),
    ),
    reference="packed",
    targets=(Target(metric="cpu_s", contender="repeated", against="packed", at_least=2),),
    packages=("torch", "transformers"),
)

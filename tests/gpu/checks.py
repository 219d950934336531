"""Equality on a device: its vectors, likelihoods, texts and neighbours against those of the CPU or of float64."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

LOGPROBS = 1e-3  # largest difference of log-likelihoods in float32
COSINE = 1e-4  # largest difference of a cosine of the same picture's vectors from 1
ROUNDED = 0.03  # largest difference of attention in bfloat16
# The same in bfloat16. Random weights amplify the rounding more than trained ones: 0.019 was measured on an H200 and
# 0.020 on a CPU. Vectors of two pictures of the check differ by 0.069 or more.
BFLOAT16_COSINE = 0.05
FAMILIES = ("qwen2.5-vl-tiny", "qwen3-vl-tiny", "llava-next-tiny", "mllama-tiny", "gemma3-tiny", "llama-tiny")
LABELS = ("Melanesia", "Northern Africa", "the Caribbean and Central America", "Nordic")
CODES = ("1", "2", "3")


class SkippedError(Exception):
    """A check or measurement cannot run here; the message is the reason."""


def embeddings(device: Any, *, tiny: bool) -> dict[str, Any]:
    """Vectors of pictures by the device in float32 and in its own dtype, against the CPU's."""
    from actors.embedder import Embedder, PictureDecoder
    from actors.encoders.encoder_sources import EncoderSettings

    need("open_clip")
    pictures = picture_rows(24)
    decoded = PictureDecoder(EncoderSettings("local:siglip-tiny"))(pictures)

    def vectors(place: str, dtype: str) -> Any:
        table = Embedder(EncoderSettings("local:siglip-tiny", device=place, dtype=dtype), batch_size=10)(decoded)
        values = np.array(table["embedding"].to_pylist(), np.float64)
        return values / np.linalg.norm(values, axis=1, keepdims=True)

    expected = vectors("cpu", "float32")
    by_key = {dtype: 1 - float((expected * vectors(str(device), dtype)).sum(-1).min()) for dtype in ("float32", "auto")}
    return {"ok": by_key["float32"] <= COSINE and by_key["auto"] <= BFLOAT16_COSINE, **by_key}


def likelihoods(device: Any, *, tiny: bool) -> dict[str, Any]:
    """Log-likelihoods of all engines on the device against whole forward passes on the CPU, by family."""
    from actors.vlm.families import packs
    from actors.vlm.loading import load_vlm
    from actors.vlm.scoring import ClosedSetScorer

    results: dict[str, float] = {}
    for name in FAMILIES[:1] + FAMILIES[-1:] if tiny else FAMILIES:
        model, processor = load_vlm(f"local:{name}", dtype="float32", device_map="cpu")
        asked = requests(processor)
        expected = logprobs(ClosedSetScorer(model, processor, engine="naive").score(asked))
        model = model.to(device)
        for engine in ("naive", "cascade", "batched", *(("packed",) if packs(model) else ())):
            values = logprobs(ClosedSetScorer(model, processor, engine=engine).score(asked))
            results[f"{name}, {engine}"] = float(np.abs(expected - values).max())
    return {"ok": max(results.values()) <= LOGPROBS, "largest": max(results.values()), "differences": results}


def passes(device: Any, *, tiny: bool) -> dict[str, Any]:
    """Log-likelihoods of many items in several packed passes, two of them at a time, against the CPU's."""
    from actors.vlm import memory
    from actors.vlm.loading import load_vlm
    from actors.vlm.scoring import ClosedSetScorer

    model, processor = load_vlm("local:qwen2.5-vl-tiny", dtype="float32", device_map="cpu")
    asked = [one for item in range(4 if tiny else 24) for one in requests(processor, item=item)]
    expected = logprobs(ClosedSetScorer(model, processor, engine="naive").score(asked))
    model = model.to(device)
    most = memory.MOST_TOKENS
    try:
        memory.MOST_TOKENS = dict.fromkeys(most, 2000)
        values = logprobs(ClosedSetScorer(model, processor, engine="packed").score(asked))
    finally:
        memory.MOST_TOKENS = most
    largest = float(np.abs(expected - values).max())
    return {"ok": largest <= LOGPROBS, "items": len(asked) // len(LABELS), "largest": largest}


def fused(device: Any, *, tiny: bool) -> dict[str, Any]:
    """Log-likelihoods with fused layers in the device's own dtype: as close to float32 as those without them."""
    from actors.vlm.fused import fuse
    from actors.vlm.loading import load_vlm
    from actors.vlm.scoring import ClosedSetScorer
    from tests.gpu.speeds import dtype_of

    dtype = dtype_of(device)
    if device.type != "cuda" or dtype.itemsize != 2:
        raise SkippedError("layers are fused on GPUs in half precision only")
    need("liger_kernel")
    results: dict[str, Any] = {}
    for name in ("qwen2.5-vl-tiny", "qwen3-vl-tiny", "llama-tiny"):
        model, processor = load_vlm(f"local:{name}", dtype="float32", device_map="cpu")
        asked = requests(processor)
        expected = logprobs(ClosedSetScorer(model, processor, engine="naive").score(asked))
        model = model.to(device, dtype)
        plain = logprobs(ClosedSetScorer(model, processor, engine="naive").score(asked))
        replaced = fuse(model)
        values = logprobs(ClosedSetScorer(model, processor, engine="naive").score(asked))
        without, errors = (float(np.abs(expected - one).max()) for one in (plain, values))
        results[name] = {"replaced": replaced, "error": errors, "error without": without}
    ok = all(
        {"apply_rotary_pos_emb", *(["apply_rotary_pos_emb_vision"] if "vl" in name else [])} <= set(one["replaced"])
        and len(one["replaced"]) >= 3
        and one["error"] <= 2 * one["error without"] + 0.01
        for name, one in results.items()
    )
    largest, without = (max(one[key] for one in results.values()) for key in ("error", "error without"))
    return {"ok": ok, "largest": largest, "without": without, **results}


def fp8(device: Any, *, tiny: bool) -> dict[str, Any]:
    """Log-likelihoods of an FP8 checkpoint that is loaded on the device, against its dequantised weights on the CPU."""
    import tempfile
    from pathlib import Path

    from actors.vlm.loading import load_vlm
    from actors.vlm.scoring import ClosedSetScorer
    from tests.actors.vlm.quantised_checkpoints import write_fp8

    with tempfile.TemporaryDirectory() as folder:
        small, plain = Path(folder) / "small", Path(folder) / "plain"
        write_fp8("local:qwen2.5-vl-tiny", small, plain)
        values = []
        for path, place in ((small, str(device)), (plain, "cpu")):
            model, processor = load_vlm(str(path), dtype="float32", device_map=place)
            values.append(logprobs(ClosedSetScorer(model, processor, engine="naive").score(requests(processor))))
    largest = float(np.abs(values[0] - values[1]).max())
    return {"ok": largest <= LOGPROBS, "largest": largest}


def segments(device: Any, *, tiny: bool) -> dict[str, Any]:
    """Attention within segments in the device's own dtype, and the sums of its scores, against float64."""
    import torch

    from actors.vlm.attention import Segments, _plain, attend_segments
    from tests.gpu.speeds import dtype_of

    largest: dict[str, float] = {}
    for size, heads, key_heads in ((80, 16, 16), (128, 28, 4), (64, 8, 2), (72, 4, 4)):
        draw = torch.Generator().manual_seed(size)
        lengths = Segments((30, 7, 64, 1, 200))
        query, key, value = (
            torch.randn(lengths.bounds[-1], count, size, generator=draw).to(device, dtype_of(device))
            for count in (heads, key_heads, key_heads)
        )
        for causal in (False, True):
            scale = size**-0.5
            out, sums = attend_segments(query, key, value, queries=lengths, keys=lengths, scale=scale, causal=causal)
            for first, end in pairwise(lengths.bounds):
                one, *seen = (part[first:end].transpose(0, 1)[None].double().cpu() for part in (query, key, value))
                seen = [part.repeat_interleave(heads // key_heads, 1) for part in seen]
                expected, expected_sums = _plain(one, *seen, scale=scale, mask=None, causal=causal)
                far = float((out[first:end].transpose(0, 1).double().cpu() - expected[0]).abs().max())
                far_sums = float((sums[:, first:end].double().cpu() - expected_sums[0]).abs().max())
                name = f"{heads} heads of {size}, {'causal' if causal else 'all'}"
                largest[name] = max(largest.get(name, 0.0), far, far_sums)
    return {"ok": max(largest.values()) <= ROUNDED, "largest": max(largest.values())}


def texts(device: Any, *, tiny: bool) -> dict[str, Any]:
    """Tokens of texts on the device against the CPU's: the likeliest, and drawn ones."""
    from actors.vlm.loading import load_vlm

    model, processor = load_vlm("local:qwen2.5-vl-tiny", dtype="float32", device_map="cpu")
    expected = generated(model, processor)
    texts = generated(model.to(device), processor)
    same = sum(a == b for a, b in zip(expected, texts, strict=True))
    # A number that falls between two tokens' boundaries changes a text: rare, but no error.
    return {"ok": same >= len(expected) - 1, "texts": len(expected), "equal": same}


def search(device: Any, *, tiny: bool) -> dict[str, Any]:
    """Compare the k best rows and their scores with a float64 product of all pairs."""
    from actors.search_queries import Queries, SearchSettings
    from actors.searcher import Search

    draw, k = np.random.default_rng(0), 10
    rows = draw.normal(size=(2_000 if tiny else 200_000, 256)).astype(np.float16)
    rows[7] = rows[3]  # a tie
    vectors = draw.normal(size=(16, 256)).astype(np.float32)
    exact = vectors.astype(np.float64) @ rows.astype(np.float64).T
    order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
    names = [f"{number:09d}" for number in range(len(rows))]
    search = Search(Queries(vectors, SearchSettings(k=k, device=str(device))), ids=lambda r: [names[i] for i in r])
    search.add(rows, np.arange(len(rows)))
    hits = search.finish()
    same = bool((hits.row.reshape(-1, k) == order).all())
    error = float(np.abs(hits.score.reshape(-1, k) - np.take_along_axis(exact, order, 1)).max())
    return {"ok": same and error < 1e-9, "same rows": same, "largest error of a score": error}


def two_devices(device: Any, *, tiny: bool) -> dict[str, Any]:
    """Compare the likelihoods and texts of a model over two GPUs (`device_map=balanced`) with the CPU's."""
    import torch

    from actors.vlm.loading import load_vlm
    from actors.vlm.scoring import ClosedSetScorer

    if device.type != "cuda" or torch.cuda.device_count() < 2:
        raise SkippedError("fewer than two GPUs")
    model, processor = load_vlm("local:qwen2.5-vl-tiny", dtype="float32", device_map="cpu")
    asked = requests(processor)
    expected, written = (
        logprobs(ClosedSetScorer(model, processor, engine="naive").score(asked)),
        generated(model, processor),
    )
    spread, _ = load_vlm("local:qwen2.5-vl-tiny", dtype="float32", device_map="balanced")
    places = {str(place) for place in spread.hf_device_map.values()}
    scorer = ClosedSetScorer(spread, processor, engine="auto")
    largest = float(np.abs(expected - logprobs(scorer.score(asked))).max())
    same = sum(a == b for a, b in zip(written, generated(spread, processor), strict=True))
    return {
        "ok": len(places) == 2 and largest <= LOGPROBS and same >= len(written) - 1,
        "devices": sorted(places),
        "engine": scorer.engine,
        "largest": largest,
        "equal texts": same,
    }


def out_of_memory(device: Any, *, tiny: bool) -> dict[str, Any]:
    """When memory runs out, the budget is halved and the results stay the same."""
    from actors.vlm.loading import load_vlm
    from actors.vlm.scoring import ClosedSetScorer
    from tests.benchmarks import judging

    name = "local:qwen2.5-vl-tiny" if tiny else judging.MODEL
    model, processor = load_vlm(name, dtype="float32", device_map="cpu")
    model = model.to(device)
    shape = judging.Shape(labels=20, suffix=20) if tiny else judging.Shape(labels=400, suffix=60)
    asked = judging.requests_of(processor, shape, prefix=300)
    expected = logprobs(ClosedSetScorer(model, processor, engine="cascade").score(asked))
    for limit in (1 << 30, 512 << 20, 256 << 20, 128 << 20, 64 << 20):
        scorer = ClosedSetScorer(model, processor, engine="cascade", memory_budget_gb=8)
        before = scorer.budget
        with scarce(device, scorer, limit):
            results = scorer.score(asked)
        if scorer.budget == before:
            continue
        largest = float(np.abs(expected - logprobs(results)).max())
        return {"ok": largest <= LOGPROBS, "halved": before // scorer.budget, "limit": limit, "largest": largest}
    raise SkippedError("the memory never ran out")


@contextmanager
def scarce(device: Any, scorer: Any, limit: int) -> Iterator[None]:
    """Leave `limit` bytes of the device's memory; on a CPU passes with more than half of the budget fail."""
    import torch

    if device.type == "cuda":
        torch.cuda.empty_cache()
        # set_per_process_memory_fraction refuses a device without a number.
        index = torch.cuda.current_device() if device.index is None else device.index
        total = torch.cuda.get_device_properties(index).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved(index) + limit) / total, index)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, index)
        return
    engine, most = scorer.engines.current, scorer.budget // 2
    compute: Callable[..., Any] = engine.log_likelihoods

    def limited(*arguments: Any, budget: int) -> Any:
        if budget > most:
            raise torch.OutOfMemoryError("simulated")
        return compute(*arguments, budget=budget)

    engine.log_likelihoods = limited
    yield


CHECKS = (embeddings, likelihoods, passes, fused, fp8, segments, texts, search, two_devices, out_of_memory)


def need(package: str) -> None:
    """Raise `SkippedError` if a package is not installed."""
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise SkippedError(f"the package {package} is not installed")


def picture_rows(count: int, *, side: int = 330) -> Any:
    """Return the first columns of a table `images` with so many JPEGs."""
    import io

    import pyarrow as pa
    from PIL import Image

    draw, data = np.random.default_rng(0), []
    for _ in range(count):
        blocks = Image.fromarray(draw.integers(0, 255, (9, 12, 3), np.uint8))
        stream = io.BytesIO()
        blocks.resize((side, side * 3 // 4)).save(stream, "JPEG", quality=85)
        data.append(stream.getvalue())
    nothing = pa.nulls(count, pa.string())
    columns = {"image_id": [f"{n:06d}" for n in range(count)], "bytes": pa.array(data, pa.large_binary())}
    return pa.table(columns | {"status": ["ok"] * count, "error_kind": nothing, "error_message": nothing})


def requests(processor: Any, *, item: int = 0) -> list[Any]:
    """Requests about one picture, or none, with suffixes of several lengths; those about another `item` differ."""
    from PIL import Image

    from actors.rubrics.prompts import Prompt
    from actors.vlm.scoring_requests import ScoringRequest

    sees = getattr(processor, "sees_pictures", True)
    noise = np.random.default_rng(1 + item).integers(0, 256, (90, 120 + 28 * item, 3)).astype(np.uint8)
    shown = Image.fromarray(noise) if sees else None
    article = f"The museum holds objects of many peoples.\nIts halls were built in {1911 + item}.\n\n" * (9 + item)
    shared = (None, article) if sees else (article,)
    return [ScoringRequest(Prompt(shared, f"Is it {label}?"), shown, CODES) for label in LABELS]


def logprobs(results: Any) -> Any:
    """Log-probabilities [requests, answers]; a request that failed raises.

    Raises:
        ValueError: an error instead of scores.
    """
    for result in results:
        if not hasattr(result, "logprobs"):
            raise ValueError(f"a request failed: {result}")
    return np.array([result.logprobs for result in results])


def generated(model: Any, processor: Any) -> list[list[int]]:
    """Tokens of texts about three pictures."""
    from PIL import Image

    from actors.vlm.chat import ChatEncoder
    from actors.vlm.generation import text_generator
    from actors.vlm.settings import Sampling

    chat = ChatEncoder(processor)
    draw = np.random.default_rng(2)
    pictures = [Image.fromarray(draw.integers(0, 256, (60 + 28 * n, 90, 3)).astype(np.uint8)) for n in range(3)]
    prompts = [chat.encode([None, "Tell me what can be seen." * (n + 1)], [p]) for n, p in enumerate(pictures)]
    engine = text_generator(model, chat)
    results: list[list[int]] = []
    for temperature, top_p in ((0.0, 1.0), (1.0, 1.0), (1.3, 0.9)):
        sampling = Sampling(temperature=temperature, top_p=top_p, max_tokens=16)
        for result in engine.generate(prompts, seeds=[[1, 2], [3, 4], [5, 6]], sampling=sampling):
            if not isinstance(result, list):
                raise ValueError(f"a prompt failed: {result}")
            results += [text.tokens for text in result]
    return results

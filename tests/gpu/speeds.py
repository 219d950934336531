"""Measurements on a device: pictures, pairs, tokens and bytes per second, as shares of what the device can do."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu import models
from tests.gpu.checks import need, picture_rows
from tests.gpu.device import flops, idle_share, linear_flops, seconds

ITEMS = 64  # rated in one call: `resources.judge.batch_size` of the presets for GPUs
CASCADE_ITEMS = 8  # fewer, as one after the other takes as long for each
TOWERS = ("ViT-B-16-SigLIP-i18n-256", "ViT-SO400M-14-SigLIP-384")


def embed(name: str, device: Any, rates: dict[str, float], *, tiny: bool) -> dict[str, Any]:
    """Decoded pictures to vectors in the device's dtype, in calls as large as the job's.

    Idle is the time that the model alone would not need, at the ends of each call too; without that between calls.
    """
    need("open_clip")
    from actors.embedder import BATCHES_PER_CALL, Embedder, PictureDecoder
    from actors.encoders.encoder_sources import EncoderSettings
    from tests.benchmarks.suites.embed import config_of, small_config, write_model

    batch = 8 if tiny else 256
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder) / "model", small_config() if tiny else config_of(name))
        settings = EncoderSettings(f"local-dir:{folder}/model", device=str(device))
        decoded = PictureDecoder(settings)(picture_rows(batch))
        embedder = Embedder(settings, batch_size=batch)
    import pyarrow as pa
    import torch

    times = 1 if tiny else BATCHES_PER_CALL
    rows = pa.concat_tables([decoded] * times)
    whole = seconds(device, lambda: embedder(rows)) / times
    tower: Any = embedder._tower
    pixels = torch.zeros((batch, 3, *tower.size), dtype=torch.uint8, device=device)
    tower._model.requires_grad_(False)  # the counter would look for gradients
    with torch.inference_mode():
        alone = seconds(device, lambda: tower.pictures(pixels))
    work = flops(lambda: tower.pictures(pixels))
    return {
        "pictures per second": batch / whole,
        "device idle": max(0.0, 1 - alone / whole),
        "share of the matrix rate": work / alone / rates["matrix"],
    }


def judge(name: str, device: Any, rates: dict[str, float], *, tiny: bool) -> dict[str, Any]:
    """Labels about items with a picture and an article of 1,200 tokens each, prompts and pictures prepared beforehand.

    By the engine that `auto` takes, and by `cascade`, which passes one item at a time.
    """
    from actors.vlm.scoring import ClosedSetScorer
    from tests.benchmarks import judging

    model, processor = models.load(name, device=device, dtype=dtype_of(device), tiny=tiny)
    best = ClosedSetScorer(model, processor, engine="packed" if tiny else "auto")
    cascade = ClosedSetScorer(model, processor, engine="cascade")
    results: dict[str, Any] = {}
    items = 2 if tiny else ITEMS
    for labels, suffix in ((4, 10),) if tiny else ((50, 20), (10, 250)):
        prefix = 200 if tiny else judging.PREFIX
        asked = judging.requests_of(processor, judging.Shape(labels, suffix), prefix=prefix)
        groups = [best.prepare(asked)] * items
        times = []
        for scorer, some in ((best, groups), (cascade, groups[:CASCADE_ITEMS])):
            for scores in scorer.run_many(groups[:2]):  # settles the engine
                check_finite(scores)
            times.append(seconds(device, partial(scorer.run_many, some)) / len(some))
        score = partial(best.run_many, groups)
        text = model.config.get_text_config()
        work = linear_flops(model, partial(best.run_many, groups[:2])) / 2 + attention_flops(text, groups[0])
        results[f"{labels} labels of {suffix} tokens"] = {
            "engine": best.engine,
            "pairs per second": labels / times[0],
            "share of the matrix rate": work / times[0] / rates["matrix"],
            **idle_share(device, score),
            "pairs per second by cascade": labels / times[1],
        }
    return results


def attention_flops(config: Any, group: Any) -> float:
    """FLOP of both products of the text model's attention for one group of prompts."""
    from actors.vlm.token_trees import shared_length

    more = shared_length(group.suffixes)
    prefix, suffixes = group.shared + more, [len(suffix) - more for suffix in group.suffixes]
    pairs = prefix**2 / 2 + sum(length * prefix + length**2 / 2 for length in suffixes)
    width = config.num_attention_heads * (
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )
    return float(4 * pairs * width * config.num_hidden_layers)


def generate(name: str, device: Any, rates: dict[str, float], *, tiny: bool) -> dict[str, Any]:
    """Texts of 64 tokens, 4 of each prompt; each step reads all weights of the text model."""
    from actors.vlm.chat import ChatEncoder
    from actors.vlm.families import language_model
    from actors.vlm.generation import TextGenerator
    from actors.vlm.settings import Sampling
    from tests.benchmarks.judging import ARTICLE

    model, processor = models.load(name, device=device, dtype=dtype_of(device), tiny=tiny)
    chat = ChatEncoder(processor)
    prompts, samples, tokens = (2, 2, 4) if tiny else (16, 4, 64)
    draw = np.random.default_rng(0)
    inputs = [chat.encode(*turn(chat, draw, ARTICLE * (1 if tiny else 50))) for _ in range(prompts)]
    engine = TextGenerator(model, pad_id=0, ends=[])
    seeds = [list(range(samples))] * prompts

    def work(most: int) -> Any:
        return engine.generate(inputs, seeds=seeds, sampling=Sampling(max_tokens=most))

    for result in work(tokens):
        if not isinstance(result, list):
            raise ValueError(f"a prompt failed: {result}")
    whole, first = seconds(device, lambda: work(tokens)), seconds(device, lambda: work(1))
    steps = (whole - first) / max(1, tokens - 1)
    text = sum(p.numel() * p.element_size() for p in language_model(model).layers.parameters())
    head = model.get_output_embeddings().weight
    read = text + head.numel() * head.element_size()
    return {
        "tokens per second": prompts * samples * tokens / whole,
        "milliseconds per step": 1000 * steps,
        "share of the copy rate": read / max(steps, 1e-9) / rates["copy"],
        **idle_share(device, lambda: work(8)),
    }


def search(name: str, device: Any, rates: dict[str, float], *, tiny: bool) -> dict[str, Any]:
    """float16 rows from the machine's memory against 64 queries; the bound is the copy to the device.

    From ordinary memory, as jobs read them, and from pinned memory, which the device reads by itself.
    """
    import torch

    from actors.search_queries import Queries, SearchSettings
    from actors.searcher import Search

    draw = np.random.default_rng(0)
    count, dim = (5_000, 64) if tiny else (2_000_000, 768)
    part = draw.standard_normal((count // 10, dim), np.float32).astype(np.float16)
    rows = np.concatenate([part] * 10)
    queries = Queries(draw.normal(size=(64, dim)).astype(np.float32), SearchSettings(device=str(device)))

    def work(rows: Any) -> None:
        one = Search(queries, ids=lambda r: [str(n) for n in r])
        one.add(rows, np.arange(len(rows)))
        one.finish()

    memories = {"ordinary memory": rows}
    if device.type == "cuda":
        memories["pinned memory"] = torch.from_numpy(rows).pin_memory().numpy()
    results = {}
    for memory, stored in memories.items():
        took = seconds(device, partial(work, stored))
        results[memory] = {
            "rows per second": count / took,
            "bytes per second": rows.nbytes / took,
            "share of the upload rate": rows.nbytes / took / rates["upload"],
        }
    return results


MEASUREMENTS: tuple[tuple[str, Any, str], ...] = (
    ("search", search, "2 M x 768"),
    *(("embed", embed, name) for name in TOWERS),
    *((kind.__name__, kind, name) for name in models.SIZES for kind in (judge, generate)),
)
TARGETS = {  # (measurement, figure) -> bound
    ("judge", "share of the matrix rate"): ("at least", 0.6),
    ("embed", "device idle"): ("below", 0.1),
    ("search", "share of the upload rate"): ("at least", 0.8),
}


def dtype_of(device: Any) -> Any:
    """Return the dtype that `auto` stands for."""
    import torch

    from actors.devices import find_dtype

    return getattr(torch, find_dtype("auto", device))


def check_finite(results: dict[int, Any]) -> None:
    """Random weights of any size must give scores."""
    for result in results.values():
        if not hasattr(result, "logprobs"):
            raise ValueError(f"a request failed: {result}")


def turn(chat: Any, draw: Any, article: str) -> tuple[list[Any], list[Any]]:
    """Return a user's turn with a picture, if the model takes any, and the pictures."""
    from PIL import Image

    if not chat.sees_pictures:
        return [article], []
    return [None, article], [Image.fromarray(draw.integers(0, 256, (224, 224, 3)).astype(np.uint8))]

"""Run by the interpreter of an environment with vLLM: texts by one engine, and the time that they took.

    PYTHON -m tests.benchmarks.vllm_texts_child vllm WORKDIR ANSWER.json

One thread, float32, without the start of the engine and after a warm-up with other prompts.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

SAMPLES, NEW_TOKENS = 3, 64


def main(engine: str, workdir: str, answer: str) -> None:
    """Write {tokens [texts], wall_s, cpu_s} of all prompts."""
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    import torch
    from PIL import Image

    from actors.vlm.chat import ChatEncoder
    from actors.vlm.loading import load_processor
    from actors.vlm.settings import Sampling

    torch.set_num_threads(1)
    folder = Path(workdir)
    chat = ChatEncoder(load_processor(str(folder / "model")), keeps_pictures=engine == "vllm")
    articles = json.loads((folder / "articles.json").read_text(encoding="utf-8"))
    pictures = [Image.open(folder / f"{number}.png").convert("RGB") for number in range(len(articles))]
    prompts = [chat.encode([None, text], [picture]) for text, picture in zip(articles, pictures, strict=True)]
    warm_up = [chat.encode([None, "Warm-up. " + articles[0]], [pictures[0].rotate(180)])]
    texts = loaded(engine, folder / "model")
    sampling = Sampling(temperature=0.0, max_tokens=NEW_TOKENS)

    def write(inputs: list[Any], first: int) -> list[Any]:
        seeds = [[first + SAMPLES * prompt + sample for sample in range(SAMPLES)] for prompt in range(len(inputs))]
        return texts.generate(inputs, seeds=seeds, sampling=sampling)

    write(warm_up, 10_000)
    wall, cpu = time.perf_counter(), time.process_time()
    results = write(prompts, 0)
    took = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    tokens = [text.tokens for result in results for text in result]
    Path(answer).write_text(json.dumps({"tokens": tokens, **took}), encoding="utf-8")


def loaded(engine: str, model: Path) -> Any:
    """Return the engine with its model; no token ends a text."""
    from actors.vlm.generation import TextGenerator
    from actors.vlm.loading import load_vlm
    from actors.vlm.settings import ModelSettings
    from actors.vlm.vllm_engine import VllmModel, VllmTextGenerator

    if engine == "vllm":
        settings = ModelSettings(checkpoint=str(model), dtype="float32", device_map="cpu")
        return VllmTextGenerator(VllmModel(settings, memory_budget_gb=1.0, threads=1), ends=[])
    loaded_model, _ = load_vlm(str(model), dtype="float32", device_map="cpu")
    return TextGenerator(loaded_model, pad_id=0, ends=[])


if __name__ == "__main__":
    main(*sys.argv[1:])

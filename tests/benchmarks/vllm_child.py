"""Run by the interpreter of vLLM's own environment, never by this one: score requests that a file holds.

    PYTHON tests/benchmarks/vllm_child.py TASK.json ANSWER.json

It imports nothing of the project. One thread, float32, prefix caching; the model is compiled and warm, and the measured
prompts are new to its cache.
"""

import json
import os
import sys
import time
from pathlib import Path


def main(task: str, answer: str) -> None:
    """Read {model, picture, prompts, ids, block}; write {logprobs [prompts][ids], cpu_s, cached, version}."""
    # One process and one thread, so that this process's CPU seconds are all there are.
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    os.environ |= {"HF_HUB_OFFLINE": "1"}
    import torch
    import vllm
    from PIL import Image

    torch.set_num_threads(1)
    asked = json.loads(Path(task).read_text(encoding="utf-8"))
    engine = vllm.LLM(
        model=asked["model"],
        dtype="float32",
        max_model_len=2048,
        block_size=asked["block"],
        enable_prefix_caching=True,
        limit_mm_per_prompt={"image": 1, "video": 0},
        max_num_batched_tokens=4096,
    )
    # Without the list of ids, log-probabilities would be those of the vocabulary's likeliest tokens.
    answers = vllm.SamplingParams(max_tokens=1, temperature=0, logprob_token_ids=asked["ids"])
    shown = Image.open(asked["picture"]).convert("RGB")
    for picture in (shown.rotate(90), shown):  # the first is the warm-up: another picture, so another prefix
        prompts = [{"prompt": text, "multi_modal_data": {"image": picture}} for text in asked["prompts"]]
        begun = time.process_time()
        generated = engine.generate(prompts, answers, use_tqdm=False)
        seconds = time.process_time() - begun
    files = {
        "logprobs": [[entry.outputs[0].logprobs[0][i].logprob for i in asked["ids"]] for entry in generated],
        "cpu_s": seconds,
        "cached": [entry.num_cached_tokens for entry in generated],
        "version": vllm.__version__,
    }
    Path(answer).write_text(json.dumps(files), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

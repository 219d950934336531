"""Run by the interpreter of an environment with vLLM: what differs between its rows and ours for one model.

    PYTHON -m tests.actors.vlm.vllm_child local:qwen2.5-vl-tiny ANSWER.json

All of it is in float32 on one thread.
"""

import json
import os
import sys
from pathlib import Path

TOLERANCE = 1e-4  # of log-likelihoods and probabilities


def main(checkpoint: str, answer: str) -> None:
    """Write {responses, ratings: numbers of rows, reasoned: of reasonings, differences, largest, …} as JSON."""
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    from actors.vlm.model_checks import check_vlm
    from tests.actors.vlm import engine_rows
    from tests.actors.vlm.helpers import COMPARISON

    shows = check_vlm(checkpoint)
    rubrics = [(engine_rows.relevance(), int(shows)), (engine_rows.relevance(reply="label"), int(shows))]
    rubrics += [(COMPARISON, 2)] if shows else []
    # transformers first: vLLM replaces some of its classes in this process.
    texts = {"transformers": engine_rows.responses(checkpoint, "transformers", shows=shows)}
    rated = {"naive": engine_rows.ratings(checkpoint, "naive", rubrics)}
    reasoned = {"auto": engine_rows.reasoned(checkpoint, "auto", shows=shows)}
    texts["vllm"] = engine_rows.responses(checkpoint, "vllm", shows=shows)
    rated["vllm"] = engine_rows.ratings(checkpoint, "vllm", rubrics)
    reasoned["vllm"] = engine_rows.reasoned(checkpoint, "vllm", shows=shows)
    pairs = [
        (a, b)
        for one, other in zip(rated["naive"], rated["vllm"], strict=True)
        for a, b in zip(one["logprobs"] or (), other["logprobs"] or (), strict=False)
    ]
    result = {
        "shows": shows,
        "texts": sorted({row["text"] or "" for row in texts["vllm"]}),
        "statuses": sorted({row["status"] for row in (*texts["vllm"], *rated["vllm"])}),
        "responses": len(texts["vllm"]),
        "ratings": len(rated["vllm"]),
        "reasoned": len({row["comment"] for row in reasoned["vllm"]}),
        "largest": max(abs(a - b) for a, b in pairs),
        "differences": [
            *engine_rows.differences(texts["transformers"], texts["vllm"], tolerance=0),
            *engine_rows.differences(rated["naive"], rated["vllm"], tolerance=TOLERANCE),
            *engine_rows.differences(reasoned["auto"], reasoned["vllm"], tolerance=TOLERANCE),
        ],
    }
    Path(answer).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

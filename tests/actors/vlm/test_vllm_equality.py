"""vLLM itself against the other engines; needs an environment with vLLM, which `REMINE_VLLM_PYTHON` names."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYTHON = os.environ.get("REMINE_VLLM_PYTHON") or (sys.executable if importlib.util.find_spec("vllm") else "")
MODELS = ("demo-judge", "llama-tiny")


@pytest.mark.skipif(not PYTHON, reason="REMINE_VLLM_PYTHON names no interpreter of an environment with vLLM")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.timeout(1200)
def test_rows_are_those_of_the_other_engines(model: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    command = [PYTHON, "-m", "tests.actors.vlm.vllm_child", f"local:{model}", str(answer)]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    result = json.loads(answer.read_text(encoding="utf-8"))
    assert result["differences"] == []
    assert (result["responses"], len(result["texts"]) > 6) == (18, True)
    assert result["ratings"] == (21 if model == "demo-judge" else 18)
    assert set(result["statuses"]) <= {"ok", "truncated"}

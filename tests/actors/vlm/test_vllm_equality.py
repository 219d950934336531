"""vLLM itself against the other engines; needs an environment with vLLM, which `REMINE_VLLM_PYTHON` names."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.actors.vlm.helpers import png
from tests.factories import rows_of, write_units

ROOT = Path(__file__).parents[3]
PYTHON = os.environ.get("REMINE_VLLM_PYTHON") or (sys.executable if importlib.util.find_spec("vllm") else "")
MODELS = ("demo-judge", "qwen3-vl-tiny", "llama-tiny", "qwen2-tiny", "qwen3-tiny")


pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="REMINE_VLLM_PYTHON names no interpreter of an environment with vLLM"),
    pytest.mark.timeout(1200),
]


@pytest.mark.parametrize("model", MODELS)
def test_rows_are_those_of_the_other_engines(model: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    command = [PYTHON, "-m", "tests.actors.vlm.vllm_child", f"local:{model}", str(answer)]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    result = json.loads(answer.read_text(encoding="utf-8"))
    assert result["differences"] == []
    assert (result["responses"], len(result["texts"]) > 6) == (18, True)
    assert result["ratings"] == (21 if result["shows"] else 18)
    assert result["reasoned"] > 3
    assert result["largest"] < 1e-4
    assert set(result["statuses"]) <= {"ok", "truncated"}


def test_generate_runs_in_vllm_on_ray_and_continues(tmp_path: Path) -> None:
    units = [[picture(0), picture(1)], [picture(2)]]
    out, images = tmp_path / "out", write_units(tmp_path / "images", "images", units)
    command = [PYTHON, "-m", "jobs.generate", f"input={images}", f"out={out}", "model=demo-judge", "engine=vllm"]
    command += ["prompt=explicit", "samples=2", "max_tokens=8", "memory_budget_gb=0.3"]

    def run() -> list[dict[str, object]]:
        ended = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-3000:]
        return rows_of(str(out))

    rows = run()
    assert len(rows) == 6
    assert {row["status"] for row in rows} <= {"ok", "truncated"}
    assert "vllm" in json.loads((out / "_run" / "manifest.json").read_text())["identity"]["engine"]
    lost, *kept = sorted(out.glob("*.parquet"))
    written = [file.stat().st_mtime_ns for file in kept]
    lost.unlink()
    assert run() == rows
    assert [file.stat().st_mtime_ns for file in kept] == written


def picture(number: int) -> dict[str, object]:
    image_id = f"{number:032}"
    return {"image_id": image_id, "rendition": "w", "attempts": 1, "status": "ok", "bytes": png(number + 1)}

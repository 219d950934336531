"""`remine report input=FILE` on a CSV works where no library for models is installed."""

import subprocess
import sys
from pathlib import Path

BLOCKED = ("torch", "torchvision", "transformers", "open_clip", "accelerate", "sentencepiece", "faiss", "ray")
PROGRAM = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"blocked: {{name}}", name=name)

sys.meta_path.insert(0, Blocked())
from jobs.runtime.command_line import cli
code = cli.main("report", sys.argv[1:])
assert not set(sys.modules) & set({blocked!r}), sorted(set(sys.modules) & set({blocked!r}))
sys.exit(code)
"""


def test_a_csv_needs_no_library_for_models_and_no_ray(tmp_path: Path) -> None:
    rows = [f"{item},{rater},{1 + (item * (rater == 'b') + item // 2) % 5}" for item in range(12) for rater in "abc"]
    (tmp_path / "r.csv").write_text("\n".join(["image,who,score", *rows]))
    keys = [f"input={tmp_path}/r.csv", "columns.item=image", "columns.rater=who", "columns.value=score", "scale=[1,5]"]
    program = PROGRAM.format(blocked=BLOCKED)
    command = [sys.executable, "-c", program, *keys, f"out={tmp_path}/F"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert (tmp_path / "F" / "metrics.csv").exists()
    assert (tmp_path / "F" / "index.html").exists()

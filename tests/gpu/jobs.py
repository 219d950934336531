"""`python -m tests.gpu.jobs FOLDER`: whole `embed` and `judge` with Ray on a machine with one GPU, in four minutes.

The models have random weights and the sizes of the published ones: ViT-B-16-SigLIP-i18n-256 and Qwen2.5-VL-7B. Prints
for each job the rows per second from the first unit that was written to the last: entries of conf/measured/rates.yaml.
Needs Ray and what `jobs/` imports, 40 GB of disk and 24 GB of the GPU's memory.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobs.store.reading import open_table
from tests.benchmarks.suites import embed

PICTURES, JUDGED = 80_000, 1_500
DISTINCT = 200  # pictures of the corpus that differ
ROWS = 1024  # of a unit of images
JUDGE = "Qwen2.5-VL-7B"


def main(arguments: Sequence[str]) -> int:
    """Write the inputs, run both jobs, and print their rates."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.jobs", description=__doc__)
    parser.add_argument("folder", type=Path, help="a new folder for models and tables")
    parser.add_argument("--resources", default="gpu-node", help="a preset of conf/resources (default: gpu-node)")
    parser.add_argument("--tiny", action="store_true", help="small models and few rows; the rates mean nothing")
    options = parser.parse_args(arguments)
    folder: Path = options.folder
    pictures, judged = (64, 3) if options.tiny else (PICTURES, JUDGED)
    write_inputs(folder, pictures=pictures, tiny=options.tiny)
    encoder = ["embedder=siglip-i18n-base", f"embedder.checkpoint=local-dir:{folder}/encoder"]
    judge = ["model=qwen2.5-vl-7b", f"model.checkpoint={folder}/judge", "rubric=cultural_relevance"]
    judge += ["targets=un_subregions", f"limit={judged}"]
    for job, table, keys in (("embed", "embeddings", encoder), ("judge", "ratings", judge)):
        command = [sys.executable, "-m", f"jobs.{job}", f"input={folder}/images", *keys, f"out={folder}/{table}", "-v"]
        if code := subprocess.run([*command, f"resources={options.resources}"], check=False).returncode:
            return code
        print(f"{job}: {rate(f'{folder}/{table}', table):,.1f} pictures/s from the first unit to the last", flush=True)
    return 0


def write_inputs(folder: Path, *, pictures: int, tiny: bool) -> None:
    """Write the table `images` and both models below `folder`."""
    folder.mkdir(parents=True)
    files = embed.noise(min(pictures, DISTINCT))
    embed.write_table(folder / "images", [files[n % len(files)] for n in range(pictures)], rows=16 if tiny else ROWS)
    embed.write_model(folder / "encoder", embed.small_config() if tiny else embed.config_of(embed.TOWER))
    write_judge(folder / "judge", tiny=tiny)


def write_judge(folder: Path, *, tiny: bool) -> None:
    """Write the small local checkpoint to `folder`, in the size of `JUDGE` if it is not `tiny`."""
    import torch
    from transformers import AutoModelForImageTextToText

    from actors.local_models import resolve
    from tests.gpu import models

    small = Path(resolve(models.SIZES[JUDGE].local))
    shutil.copytree(small, folder, ignore=None if tiny else shutil.ignore_patterns("*.safetensors*", "config.json"))
    if tiny:
        return
    torch.manual_seed(0)
    with torch.device("cuda"):
        model: Any = AutoModelForImageTextToText.from_config(models.full_size(JUDGE), dtype=torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="5GB")


def rate(table: str, name: str) -> float:
    """Return the pictures per second of a table of the kind `name` from the first unit that was written to the last."""
    ended = sorted(
        (record["begun"] + record["seconds"], footer.unit.rows or 0)
        for footer in open_table(table, name).footers
        if (record := footer.record)
    )
    return sum(rows for _, rows in ended[1:]) / max(ended[-1][0] - ended[0][0], 1e-9)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

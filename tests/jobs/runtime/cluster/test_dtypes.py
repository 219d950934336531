"""`dtype=auto` is decided before a run, so that a table's identity says what it holds."""

from pathlib import Path

import pytest

from jobs.embed import EmbedConfig
from jobs.judge import JudgeConfig
from jobs.runtime.cluster import dtypes
from jobs.runtime.configuration import config


def test_the_stage_decides_on_a_cluster_and_the_gpu_on_this_machine() -> None:
    chosen = {
        (1.0, "auto", None): "bfloat16",
        (0.5, "auto", None): "bfloat16",
        (0.0, "auto", None): "float32",
        (0.0, "cuda:1", None): "bfloat16",
        (1.0, "cpu", None): "float32",
        (0.0, "auto", "bfloat16"): "bfloat16",  # Ray hides no GPU from actors that ask for none
        (1.0, "auto", "float32"): "float32",  # a T4
        (0.0, "auto", ""): "float32",
        (1.0, "auto", ""): "bfloat16",  # planned here, for a machine with a GPU
        (1.0, "cpu", "bfloat16"): "float32",
    }
    for (gpus, placed, local), dtype in chosen.items():
        assert dtypes.choose(gpus=gpus, placed=placed, local=local) == dtype


def test_a_configuration_gets_the_dtype_of_its_resources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dtypes, "_DEVICES", tmp_path)  # a machine without a GPU
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    arguments = ["input=i", "out=o"]
    cluster = ["resources=cluster", "ray.address=10.0.0.1:6379"]
    judge = [*arguments, "rubric=century_labels"]
    for keys, dtype in (
        ([], "float32"),
        (cluster, "bfloat16"),
        (["resources=cluster"], "bfloat16"),  # planned on a machine that is not in it
        (["embedder.dtype=float16"], "float16"),
    ):
        cfg = config.load("embed", EmbedConfig, [*arguments, *keys])
        dtypes.resolve(cfg)
        assert cfg.embedder.dtype == dtype
    cfg = config.load("judge", JudgeConfig, [*judge, *cluster])
    dtypes.resolve(cfg)
    assert cfg.model.identity["dtype"] == "bfloat16"

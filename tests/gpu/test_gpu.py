"""`python -m tests.gpu` on a CPU with small models, sizes of the large ones, and the page that its figures go into."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.store.reading import open_table
from tests.benchmarks.suites import embed
from tests.gpu import __main__ as gpu
from tests.gpu import checks, document, jobs, models, speeds

RUN = (
    "embeddings",
    "likelihoods",
    "passes",
    "fused",
    "fp8",
    "segments",
    "texts",
    "search",
    "two",
    "out",
    "embed ViT-B",
    "judge Qwen2.5-VL-3B",
    "generate Llama",
)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("gpu") / "gpu.json"
    assert gpu.main(["--device", "cpu", "--tiny", "--out", str(out), "--only", *RUN]) == 0
    loaded: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return loaded


@pytest.mark.long
def test_all_checks_pass_on_a_cpu(result: dict[str, Any]) -> None:
    by_key = {name: check.get("ok", check.get("skipped")) for name, check in result["checks"].items()}
    assert by_key.pop("two_devices") == "fewer than two GPUs"
    assert by_key.pop("fused") == "layers are fused on GPUs in half precision only"
    names = ("embeddings", "likelihoods", "passes", "fp8", "segments", "texts", "search", "out_of_memory")
    assert by_key == dict.fromkeys(names, True)


@pytest.mark.long
def test_every_measurement_has_figures(result: dict[str, Any]) -> None:
    figures = result["measurements"]
    assert {name.split()[0] for name in figures} == {"embed", "judge", "generate", "search"}
    assert not [name for name, result in figures.items() if "error" in result or "skipped" in result]


@pytest.mark.parametrize("name", models.SIZES)
def test_sizes_are_those_of_the_published_models(name: str) -> None:
    import torch

    model, _ = models.load(name, device=torch.device("meta"), dtype=torch.bfloat16, tiny=False)
    parameters = sum(parameter.numel() for parameter in {id(p): p for p in model.parameters()}.values())
    assert parameters / 1e9 == pytest.approx(models.SIZES[name].parameters, rel=0.01)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("name", speeds.TOWERS)
def test_towers_take_pictures_of_the_size_in_their_config(name: str) -> None:
    import torch

    config = embed.config_of(name)
    with torch.device("meta"):
        model = embed.build_model(config)
        vectors = model.encode_image(torch.zeros(1, 3, *config["preprocess_cfg"]["size"]))
    assert vectors.shape == (1, config["model_cfg"]["embed_dim"])


def test_memory_is_limited_on_a_device_without_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    shares: list[tuple[int, float]] = []

    def limit(share: float, device: Any) -> None:
        shares.append((torch.cuda._utils._get_device_index(device), share))  # raises for "cuda", as torch's own

    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", limit)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=400))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 60)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    for name, index in (("cuda", 2), ("cuda:1", 1)):
        with checks.scarce(torch.device(name), None, 40):
            assert shares.pop() == (index, 0.25)
        assert shares.pop() == (index, 1.0)


def test_a_failed_check_and_the_end_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(device: Any, *, tiny: bool) -> dict[str, Any]:
        raise RuntimeError("CUDA error")

    def differs(device: Any, *, tiny: bool) -> dict[str, Any]:
        return {"ok": False, "largest": 1.0}

    monkeypatch.setattr(gpu.checks, "CHECKS", (fails, differs))
    monkeypatch.setattr(gpu.speeds, "MEASUREMENTS", ())
    assert gpu.main(["--device", "cpu", "--tiny"]) == 1
    result = gpu.run("cpu", tiny=True)["checks"]
    assert (result["fails"]["error"], result["differs"]["ok"]) == ("RuntimeError: CUDA error", False)
    assert gpu.run("cpu", tiny=True, limit=0.0)["checks"]["fails"] == {"skipped": "no time was left"}


def test_results_are_saved_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[list[str]] = []
    monkeypatch.setattr(gpu.checks, "CHECKS", (gpu.checks.search, gpu.checks.two_devices))
    monkeypatch.setattr(gpu.speeds, "MEASUREMENTS", ())
    gpu.run("cpu", tiny=True, save=lambda result: saved.append(list(result["checks"])))
    assert saved == [["search"], ["search", "two_devices"]]


@pytest.mark.long
def test_the_page_shows_the_figures(result: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(document.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(ValueError, match="--tiny"):
        document.write(result, page)
    figures = {"share of the matrix rate": 0.5, "pairs per second": 1234.5}
    measured = result | {
        "machine": result["machine"] | {"tiny": False, "device": "A GPU"},
        "measurements": {"judge M": {"50 labels": figures}, "embed M": {"error": "RuntimeError: x"}},
    }
    for _ in range(2):  # the second time replaces the first
        document.write(measured, page)
    text = page.read_text(encoding="utf-8")
    assert text.count("A GPU, Python") == 1
    assert "| judge M, 50 labels | share of the matrix rate | 0.5 | at least 0.6: missed |" in text
    assert "| judge M, 50 labels | pairs per second | 1,234 |  |" in text
    assert "| two devices | skipped: fewer than two GPUs |" in text
    assert "No whole run" not in text


def test_whole_jobs_have_inputs_and_a_rate(tmp_path: Path) -> None:
    from actors.vlm.loading import load_vlm

    jobs.write_inputs(tmp_path / "new", pictures=64, tiny=True)
    images = open_table(str(tmp_path / "new" / "images"), "images")
    assert [footer.rows for footer in images.footers] == [16] * 4
    assert (tmp_path / "new" / "encoder" / embed.CONFIG).exists()
    model, _ = load_vlm(str(tmp_path / "new" / "judge"), dtype="float32", device_map="cpu")
    assert model.config.model_type == "qwen2_5_vl"
    ended = sorted(footer.record["begun"] + footer.record["seconds"] for footer in images.footers if footer.record)
    assert jobs.rate(str(tmp_path / "new" / "images"), "images") == pytest.approx(48 / (ended[-1] - ended[0]))

"""`generate engine=auto`: vLLM where it writes the same texts on a sample, which the table keeps."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from actors.vlm.engine_sample import EngineSample
from jobs.errors import InputError
from jobs.judging import engine_choice, vllm_engine
from jobs.judging.engine_choice import difference
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.resources import Resources, StageResources
from jobs.runtime.selection.exclusions import Exclusions, marks_of
from jobs.store.units import Unit
from tests.actors.vlm import fake_vllm
from tests.actors.vlm.helpers import png
from tests.factories import rows_of, write_units

GPU = ["resources.judge.num_gpus=1", "resources.judge.threads=1", "model=local-tiny", "model.dtype=float32"]


@pytest.fixture
def images(tmp_path: Path) -> str:
    """One picture that is missing, and two others."""
    rows = [{"image_id": f"{n:032}", "rendition": "w", "attempts": 1, "status": "missing"} for n in range(3)]
    for number in (1, 2):
        rows[number] |= {"status": "ok", "bytes": png(number)}
    return write_units(tmp_path / "images", "images", [rows])


@pytest.fixture
def vllm(in_process: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[fake_vllm.LLM]]:
    """The fake; comparisons run in this process."""
    find_spec = vllm_engine.importlib.util.find_spec
    monkeypatch.setattr(
        vllm_engine.importlib.util, "find_spec", lambda name: object() if name == "vllm" else find_spec(name)
    )
    monkeypatch.setattr(engine_choice, "LEAST_ANSWERS", 1)
    monkeypatch.setattr(engine_choice, "TOKENS", 3)
    monkeypatch.setattr(engine_choice, "on_gpu", lambda cfg, function, items, **keys: function(items, **keys))
    with fake_vllm.installed() as engine:
        yield engine


def generate(images: str, out: Path, *overrides: str) -> dict[str, Any]:
    command = [f"input={images}", f"out={out}", "prompt=explicit", "samples=1", "max_tokens=2", *GPU, *overrides]
    manifest: Any = cli.execute("generate", command)
    return manifest


def test_vllm_is_chosen_if_it_writes_the_same_texts(
    images: str, tmp_path: Path, vllm: type[fake_vllm.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    manifest = generate(images, out)
    assert manifest["identity"]["engine"].startswith("vllm")
    verdict = json.loads((out / "_run" / "engine.json").read_text())
    assert (verdict["engine"], verdict["difference"], len(verdict["items"])) == ("vllm", "", 2)
    assert verdict["largest difference of log-probabilities"] <= engine_choice.TOLERANCE["float32"]
    assert [row["status"] for row in rows_of(str(out))] == ["missing_input", "truncated", "truncated"]

    def fail(*_: object, **__: object) -> EngineSample:
        raise AssertionError("compared again")

    monkeypatch.setattr(engine_choice, "on_gpu", fail)
    assert generate(images, out)["identity"] == manifest["identity"]
    # What is too little work, has no GPU or does not fit vLLM is not compared.
    monkeypatch.setattr(engine_choice, "LEAST_ANSWERS", 4)
    assert "engine" not in generate(images, tmp_path / "few", "plan=calibrate")["identity"]
    monkeypatch.setattr(engine_choice, "LEAST_ANSWERS", 1)
    assert "engine" not in generate(images, tmp_path / "cpu", "resources.judge.num_gpus=0")["identity"]


def test_other_texts_and_failures_leave_transformers_with_a_warning(
    images: str,
    tmp_path: Path,
    vllm: type[fake_vllm.LLM],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = vllm._output

    def other(self: Any, *arguments: Any) -> Any:
        result = output(self, *arguments)
        for entry in result.outputs[0].logprobs[0].values():
            entry.logprob += 2e-4
        return result

    monkeypatch.setattr(vllm, "_output", other)
    manifest = generate(images, tmp_path / "out")
    assert "engine" not in manifest["identity"]
    verdict = json.loads((tmp_path / "out" / "_run" / "engine.json").read_text())
    assert verdict["engine"] == "transformers"
    assert verdict["difference"] in capsys.readouterr().err
    monkeypatch.setattr(vllm, "__init__", lambda self, **_: exec("raise RuntimeError('no kernel')"))
    manifest = generate(images, tmp_path / "broken")
    assert "engine" not in manifest["identity"]
    assert "no kernel" in capsys.readouterr().err


def sampler(items: pa.Table, **_: Any) -> EngineSample:
    raise AssertionError("called in this process")


def test_excluded_items_are_not_compared_and_overwrite_compares_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The begun table has the engine transformers; a table that will be deleted says nothing."""
    items = pa.table({"item_id": ["x", "gone", "a", "b", "c"], "status": ["missing", *["ok"] * 4]})
    compared: list[list[str]] = []
    arguments: list[dict[str, Any]] = []
    seconds = {"transformers": 2.0, "vllm": 1.0}

    def on_gpu(_: Any, function: Any, sample: pa.Table, **keys: Any) -> EngineSample:
        compared.append(sample["item_id"].to_pylist())
        arguments.append(keys)
        return EngineSample([[1]], ["stop"], [[-1.0]], "float32", "e", seconds[keys["engine"]])

    monkeypatch.setattr(engine_choice, "on_gpu", on_gpu)
    monkeypatch.setattr(vllm_engine, "is_possible", lambda cfg: True)
    (tmp_path / "out" / "_run").mkdir(parents=True)
    (tmp_path / "out" / "_run" / "identity.json").write_text("{}")
    cfg: Any = SimpleNamespace(
        engine="auto", out=str(tmp_path / "out"), only_plans=False, engine_sample=2, overwrite=False,
        resources=Resources(judge=StageResources(num_gpus=1)),
    )  # fmt: skip

    kept: dict[str, bytes] = {}
    reader: Any = SimpleNamespace(without_copies=lambda: lambda _: items)

    def chosen() -> str:
        engine = engine_choice.choose(
            cfg, lambda engine: (sampler, {"engine": engine, **({"texts": None} if engine == "vllm" else {})}),
            fallback="transformers", answers=engine_choice.LEAST_ANSWERS, units=[Unit("u", (), rows=5)], reader=reader,
            excluded=Exclusions(("gone",), (marks_of("gone"),)),
        )  # fmt: skip
        kept.update(engine.files)
        return engine.name

    assert (chosen(), compared) == ("transformers", [])
    cfg.overwrite = True
    assert (chosen(), compared) == ("vllm", [["a", "b", "c"]] * 2)
    asked = {"engine": "vllm", "texts": [[1]], "compared": 2}
    assert arguments == [{"engine": "transformers", "compared": 2}, asked]
    assert json.loads(kept["engine.json"]) == {
        "engine": "vllm", "difference": "", "slower": "", "items": ["a", "b"], "tokens": 1, "seconds": [2.0, 1.0],
        "dtype": "float32", "engines": ["e", "e"], "largest difference of log-probabilities": 0.0,
    }  # fmt: skip
    seconds["vllm"] = 3.0
    assert chosen() == "transformers", "it takes longer"
    cfg.engine = "vllm"
    assert (chosen(), compared[-1]) == ("vllm", ["a", "b"]), "asked for, its time does not count"
    cfg.engine, cfg.engine_sample = "auto", 0
    assert (chosen(), len(compared)) == ("transformers", 6), "not compared, it is not chosen"
    cfg.engine = "vllm"
    assert (chosen(), len(compared)) == ("vllm", 6)
    cfg.engine, cfg.engine_sample = "auto", 2
    items = items.slice(0, 2)
    assert (chosen(), len(compared)) == ("transformers", 6), "no item has a picture"
    (tmp_path / "out" / "_run" / "identity.json").write_text('{"engine": "vllm 0.32.0"}')
    cfg.overwrite = False
    assert chosen() == "vllm"
    cfg.engine = "naive"
    assert (chosen(), len(compared)) == ("naive", 6)


def test_the_sample_has_the_resources_of_an_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray counts memory in bytes; a GB of the key is 2**30 of them, as of every pool."""
    import ray

    options: list[dict[str, Any]] = []
    waits: list[float] = []
    cancelled: list[str] = []
    texts = EngineSample([[1]], ["stop"], [[-1.0]], "float32", "e")

    def get(reference: str, *, timeout: float) -> EngineSample:
        waits.append(timeout)
        if len(waits) > 1:
            raise TimeoutError(reference)
        return texts

    def remote(**keys: Any) -> Any:
        options.append(keys)
        return lambda function: SimpleNamespace(remote=lambda *_, **__: function.__name__)

    monkeypatch.setattr(engine_choice.ray_session, "start", lambda *_: None)
    monkeypatch.setattr(ray, "remote", remote)
    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "cancel", lambda reference, *, force: cancelled.append(f"{reference} {force}"))
    pool = StageResources(num_cpus=3, num_gpus=2, memory_gb=1.5)
    cfg: Any = SimpleNamespace(ray=None, resources=Resources(judge=pool, wait_s=40))
    assert engine_choice.on_gpu(cfg, sampler, pa.table({}), engine="vllm") is texts
    assert options == [{"num_cpus": 3, "num_gpus": 2, "memory": 1_610_612_736, "max_calls": 1, "max_retries": 0}]
    assert waits == [40 + engine_choice.TRIAL_S]
    pool.memory_gb = None
    with pytest.raises(TimeoutError):
        engine_choice.on_gpu(cfg, sampler, pa.table({}), engine="vllm")
    assert "memory" not in options[1]
    assert cancelled == ["sampler True"]


def test_how_texts_differ() -> None:
    def texts(*tokens: list[int], reasons: str = "stop", by: float = 0.0, dtype: str = "float32") -> EngineSample:
        logprobs = [[-1.0 - by] * len(text) for text in tokens]
        return EngineSample(list(tokens), [reasons] * len(tokens), logprobs, dtype, "e")

    ours = texts([1, 2, 3], [4])
    assert difference(ours, texts([1, 2, 3], [4], by=9e-5)) == ""
    assert "2e-04" in difference(ours, texts([1, 2, 3], [4], by=2e-4)) or "0.0002" in difference(
        ours, texts([1, 2, 3], [4], by=2e-4)
    )
    assert difference(texts([1], dtype="bfloat16"), texts([1], by=0.1, dtype="bfloat16")) == ""
    assert "text 1 of 2 is another after 1 tokens" in difference(ours, ours._replace(texts=[[1, 9, 3], [4]]))
    assert "text 2 of 2 is another after 1 tokens" in difference(ours, ours._replace(texts=[[1, 2, 3], [4, 5]]))
    ending = difference(ours, ours._replace(reasons=["stop", "length"]))
    assert ending == "its answer 2 of 2 ends by 'length', not by 'stop'"
    assert difference(texts([], []), texts([], []))
    assert "nan" in difference(ours, texts([1, 2, 3], [4], by=float("nan")))


@pytest.mark.parametrize("texts", [[], [[], []]])
def test_a_sample_without_texts_leaves_transformers(monkeypatch: pytest.MonkeyPatch, texts: list[list[int]]) -> None:
    """The model writes nothing, or no item has a prompt."""
    nothing = EngineSample(texts, ["stop"] * len(texts), [[] for _ in texts], "float32", "e")
    monkeypatch.setattr(engine_choice, "on_gpu", lambda *_, **__: nothing)
    cfg: Any = SimpleNamespace(engine_sample=2)
    verdict = engine_choice._compare(cfg, pa.table({"item_id": ["a", "b"]}), lambda _: (sampler, {}), "transformers")
    assert verdict["difference"] == "the sample has no answers to compare"
    assert (verdict["tokens"], verdict["largest difference of log-probabilities"]) == (0, 0.0)


def test_judge_takes_vllm_where_its_ratings_agree_and_refuses_it_where_they_do_not(
    images: str, tmp_path: Path, vllm: type[fake_vllm.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closed answers are compared by their log-probabilities, reasoned ones by the words of the reasoning too."""

    def judge(out: str, *overrides: str) -> dict[str, Any]:
        command = [f"input={images}", f"out={tmp_path}/{out}", "rubric=cultural_relevance", "targets=[Nordic]", *GPU]
        manifest: Any = cli.execute("judge", [*command, "engine=vllm", *overrides])
        return manifest

    assert judge("closed")["identity"]["engine"].startswith("vllm")
    verdict = json.loads((tmp_path / "closed" / "_run" / "engine.json").read_text())
    assert (verdict["difference"], len(verdict["items"])) == ("", 2)
    assert 0 < verdict["largest difference of log-probabilities"] < 1e-4
    output = vllm._output

    def other(self: Any, *arguments: Any) -> Any:
        result = output(self, *arguments)
        for entry in result.outputs[0].logprobs[0].values():
            entry.logprob += 2e-4
        return result

    monkeypatch.setattr(vllm, "_output", other)
    with pytest.raises(InputError, match=r"^engine=vllm: not used, because its log-probabilities differ by 0.0002"):
        judge("other")
    assert not (tmp_path / "other").exists()
    assert judge("unchecked", "engine_sample=0")["identity"]["engine"].startswith("vllm")

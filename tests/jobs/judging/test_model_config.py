"""Keys that jobs with a model share, the condition of their rows, and runs with several models."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.settings import check_condition
from jobs.checkpoints.vlm import ModelConfig
from jobs.errors import InputError, RunError
from jobs.judge import JudgeConfig
from jobs.judging.model_config import ModelsConfig, check_model, run_each, with_condition
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.configuration.resources import RayConfig, Resources, StageResources
from jobs.runtime.outcomes import Manifest, Plan
from jobs.store.reading import open_table
from tests.cases import check_cases
from tests.factories import write_table, write_units


def test_a_model_of_texts_is_refused_where_a_picture_is_shown(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[tuple[str, str | None]] = []
    pictures, weights = {"value": True}, [48e9]

    def check_vlm(checkpoint: str, *, revision: str | None) -> bool:
        looked_up.append((checkpoint, revision))
        return pictures["value"]

    monkeypatch.setattr("actors.vlm.model_checks.check_vlm", check_vlm)
    monkeypatch.setattr("actors.vlm.model_checks.weight_bytes", lambda *_, **__: weights[0])
    monkeypatch.setattr("actors.vlm.model_checks.check_quantised", lambda *_, **__: None)
    resources = Resources(judge=StageResources(num_gpus=1), gpu="L40S")

    def checked(*, shown_by: str = "", only_plans: bool = False, table: str = "items", **model: Any) -> bool | None:
        keys = {"name": "m", "checkpoint": "me/seven", "revision": "abc", **model}
        write_table(tmp_path / table, table, [])
        cfg: Any = SimpleNamespace(
            model=ModelConfig(**keys), input=str(tmp_path / table), only_plans=only_plans, resources=resources,
            ray=RayConfig(),
        )  # fmt: skip
        return check_model(cfg, shown_by=shown_by)

    assert [checked(), checked(shown_by="prompt 'p'", table="images")] == [True, True]
    pictures["value"] = False
    assert checked() is False
    assert looked_up == [("me/seven", "abc")] * 3
    with pytest.raises(ValueError, match=r"model\.checkpoint: does not accept pictures, and prompt 'p' shows"):
        checked(shown_by="prompt 'p'")
    looked_up.clear()
    assert checked(shown_by="prompt 'p'", only_plans=True) is None
    with pytest.raises(ValueError, match=r"model\.dtype=int8"):
        checked(dtype="int8", only_plans=True)
    with pytest.raises(ValueError, match=r"model\.m.._pixels="):
        checked(min_pixels=-1, only_plans=True)
    with pytest.raises(InputError, match="texts"):
        checked(table="texts")
    assert looked_up == []
    weights[0] = 48.1e9
    with pytest.raises(
        InputError,
        match=r"model\.checkpoint=me/seven: its weights take 48\.1 GB .* 1 x L40S with 48 GB; use .*num_gpus=2",
    ):
        checked()


JOBS = {
    "judge": ["input=i", "out=o"],
    "generate": ["input=i", "out=o"],
    "loglik": ["input=i", "out=o", "targets=[a]"],
    "zero_shot": ["input=i", "out=o", "targets=[a]", "embedder=local-tiny"],
    "parse": ["input=i", "out=o"],
    "import_ratings": ["input=i", "out=o"],
}


def test_a_condition_is_one_short_line() -> None:
    for text in ("", "article", "20 titles", "x" * 100):
        check_condition(text)
    for text in (" article", "article\n", "a\nb", "x" * 101, "\t"):
        with pytest.raises(ValueError, match=r"^condition="):
            check_condition(text)


def test_every_job_that_writes_ratings_or_responses_has_the_key() -> None:
    def check(job: str) -> None:
        cfg: Any = config.load(job, cli.job(job).schema, [*JOBS[job], "condition=article"])
        assert cfg.condition == "article"
        with pytest.raises(InputError, match="condition="):
            config.load(job, cli.job(job).schema, [*JOBS[job], "condition='two\nlines'"])

    check_cases(check, list(JOBS))


def test_items_name_the_condition_unless_the_key_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [[{"item_id": "a", "kind": "image"}]]
    named = open_table(write_units(tmp_path / "named", "items", items, condition="article"))
    bare = open_table(write_units(tmp_path / "bare", "items", items))
    keys = ["input=i", "out=o", "rubric=century_labels"]
    unset, own_values = (config.load("judge", JudgeConfig, [*keys, *key]) for key in ([], ["condition=own"]))
    assert with_condition(unset, bare).condition == ""
    assert with_condition(own_values, named).condition == "own"
    assert capsys.readouterr().out == ""
    assert with_condition(unset, named).condition == "article"
    assert "condition=article" in capsys.readouterr().out


BOTH = "models=[local-tiny,local-text-tiny]"


def loaded(job: str, *overrides: str) -> ModelsConfig:
    cfg: ModelsConfig = config.load(job, cli.job(job).schema, ["input=i", "out=o", *overrides])
    return cfg


@pytest.mark.parametrize("job", ["judge", "generate", "loglik"])
def test_each_model_has_a_table_and_all_are_checked_first(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    events: list[tuple[str, ...]] = []

    def check(cfg: Any) -> str:
        events.append(("check", cfg.model.name))
        return f"checked {cfg.model.name}"

    def run(cfg: Any, checked: str) -> Manifest:
        assert (cfg.models, checked) == ([], f"checked {cfg.model.name}")
        events.append(("run", cfg.model.name, cfg.out))
        return Manifest({"model": cfg.model.name}, [f"{cfg.model.name} is done"])

    cfg = loaded(job, BOTH)
    last = run_each(job, cfg, check, run)
    assert last == {"model": "local-text-tiny"}
    assert last.lines == [], "printed at the end of each run"
    assert capsys.readouterr().out == "local-tiny is done\nlocal-text-tiny is done\n"
    assert events == [
        ("check", "local-tiny"),
        ("check", "local-text-tiny"),
        ("run", "local-tiny", "o/local-tiny"),
        ("run", "local-text-tiny", "o/local-text-tiny"),
    ]
    models: list[Any] = []

    def plan(cfg: Any, _: object) -> Plan:
        models.append(cfg.model)
        return Plan([])

    run_each(job, loaded(job, "models=[qwen2.5-vl-7b]"), lambda _: 0, plan)
    run_each(job, loaded(job, BOTH, "model.max_pixels=50176"), lambda _: 0, plan)
    assert [model.max_pixels for model in models[1:]] == [50176, 50176], "each run has the keys below model="
    assert models[0].dtype in ("bfloat16", "float32"), "not auto"


def test_a_failure_stops_no_other_model(capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[str] = []

    def run(cfg: Any, _: object) -> Manifest:
        ran.append(cfg.model.name)
        if cfg.model.name == "local-tiny":
            raise RunError("no memory")
        return Manifest({})

    with pytest.raises(RunError, match=r"1 of 2 models failed: local-tiny \(no memory\)"):
        run_each("generate", loaded("generate", BOTH), lambda _: None, run)
    assert ran == ["local-tiny", "local-text-tiny"]
    assert "generate local-tiny failed: no memory" in capsys.readouterr().err

    def refuse(cfg: Any, _: object) -> Manifest:
        raise InputError("wrong")

    with pytest.raises(InputError, match="2 of 2 models failed"):
        run_each("generate", loaded("generate", BOTH), lambda _: None, refuse)

    def refuse_the_first(cfg: Any, _: object) -> Manifest:
        if cfg.model.name == "local-tiny":
            refuse(cfg, _)
        return Manifest({})

    with pytest.raises(RunError, match="1 of 2 models failed"):  # the other model wrote its table
        run_each("generate", loaded("generate", BOTH), lambda _: None, refuse_the_first)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InputError("no weights", place="R/model"), "models=local-text-tiny: R/model: no weights"),
        (InputError("limit=-1: must be at least 1"), "limit=-1: must be at least 1"),
    ],
)
def test_the_model_that_is_refused_is_named_by_its_key(error: InputError, expected: str) -> None:
    def refuse(cfg: Any) -> None:
        if cfg.model.name == "local-text-tiny":
            raise error

    with pytest.raises(InputError) as caught:
        run_each("judge", loaded("judge", BOTH), refuse, lambda *_: Manifest({}))
    assert str(caught.value) == expected


def test_a_reason_that_several_models_share_is_given_once() -> None:
    def run(cfg: Any, _: object) -> Manifest:
        raise InputError("needs 2 CPUs")

    with pytest.raises(InputError, match=r"^2 of 2 models failed: local-tiny, local-text-tiny \(needs 2 CPUs\)$"):
        run_each("judge", loaded("judge", BOTH), lambda _: None, run)

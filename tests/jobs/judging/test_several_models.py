"""One job with several models: `judge`, `generate` and `loglik`."""

from typing import Any

import pytest

from jobs.errors import InputError, RunError
from jobs.judging.several_models import ModelsConfig, run_each
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config

BOTH = "models=[local-tiny,local-text-tiny]"


def loaded(job: str, *overrides: str) -> ModelsConfig:
    cfg: ModelsConfig = config.load(job, cli.job(job).schema, ["input=i", "out=o", *overrides])
    return cfg


@pytest.mark.parametrize("job", ["judge", "generate", "loglik"])
def test_each_model_has_a_table_and_all_are_checked_first(job: str) -> None:
    events: list[tuple[str, ...]] = []

    def run(cfg: Any) -> dict[str, Any]:
        assert cfg.models == []
        events.append(("run", cfg.model.name, cfg.out))
        return {"model": cfg.model.name}

    cfg = loaded(job, BOTH)
    last = run_each(job, cfg, run, check=lambda one: events.append(("check", one.model.name)))
    assert last == {"model": "local-text-tiny"}
    assert events == [
        ("check", "local-tiny"),
        ("check", "local-text-tiny"),
        ("run", "local-tiny", "o/local-tiny"),
        ("run", "local-text-tiny", "o/local-text-tiny"),
    ]
    dtypes: list[str] = []
    run_each(job, loaded(job, "models=[qwen2.5-vl-7b]"), lambda cfg: dtypes.append(cfg.model.dtype), check=lambda _: 0)
    pixels: list[int | None] = []
    asked = loaded(job, BOTH, "model.max_pixels=50176")
    run_each(job, asked, lambda cfg: pixels.append(cfg.model.max_pixels), check=lambda _: 0)
    assert pixels == [50176, 50176], "each run has the keys below model="
    assert dtypes[0] in ("bfloat16", "float32"), "not auto"


def test_a_failure_stops_no_other_model(capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[str] = []

    def run(cfg: Any) -> dict[str, Any]:
        ran.append(cfg.model.name)
        if cfg.model.name == "local-tiny":
            raise RunError("no memory")
        return {}

    with pytest.raises(RunError, match=r"1 of 2 models failed: local-tiny \(no memory\)"):
        run_each("generate", loaded("generate", BOTH), run, check=lambda _: None)
    assert ran == ["local-tiny", "local-text-tiny"]
    assert "generate local-tiny failed: no memory" in capsys.readouterr().err

    def refuse(cfg: Any) -> None:
        raise InputError("wrong")

    with pytest.raises(InputError, match="2 of 2 models failed"):
        run_each("generate", loaded("generate", BOTH), refuse, check=lambda _: None)

    def refuse_the_first(cfg: Any) -> dict[str, Any]:
        if cfg.model.name == "local-tiny":
            refuse(cfg)
        return {}

    with pytest.raises(RunError, match="1 of 2 models failed"):  # the other model wrote its table
        run_each("generate", loaded("generate", BOTH), refuse_the_first, check=lambda _: None)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("judge: R/model: no weights in the folder", "models=local-text-tiny: R/model: no weights in the folder"),
        ("limit=-1: must be at least 1", "limit=-1: must be at least 1"),
    ],
)
def test_the_model_that_is_refused_is_named_by_its_key(message: str, expected: str) -> None:
    def refuse(cfg: Any) -> None:
        if cfg.model.name == "local-text-tiny":
            raise InputError(message)

    with pytest.raises(InputError) as caught:
        run_each("judge", loaded("judge", BOTH), lambda _: None, check=refuse)
    assert str(caught.value) == expected


def test_a_reason_that_several_models_share_is_given_once() -> None:
    def run(cfg: Any) -> None:
        raise InputError("needs 2 CPUs")

    with pytest.raises(InputError, match=r"^2 of 2 models failed: local-tiny, local-text-tiny \(needs 2 CPUs\)$"):
        run_each("judge", loaded("judge", BOTH), run, check=lambda _: None)

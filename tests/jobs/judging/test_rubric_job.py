"""The keys of `judge` and of its methods, the plan of its ratings, and the arguments of its stages."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.judge import Judge
from actors.preparers import RubricPreparer
from actors.reasoning_judge import REASONING_INSTRUCTION, ReasoningJudge
from jobs.errors import InputError
from jobs.judge import JudgeConfig
from jobs.judging import kept_rubric, rubric_job, vllm_engine
from jobs.judging.model_config import MethodConfig
from jobs.judging.own_questions import OwnQuestionsReader
from jobs.judging.rubric_job import JudgingJob, check_method, judge_stages, method_identity
from jobs.judging.targets import RatingCounts
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.selection.exclusions import read_exclusions
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from tests.cases import check_cases
from tests.factories import picture, write_table

Opened = Callable[..., tuple[JudgeConfig, JudgingJob, TablePlan]]
DSG = ["rubric=dsg", "targets=null"]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Return a function that opens the job with these keys and returns its configuration and its plan."""
    images = write_table(tmp_path / "images", "images", [picture(number) for number in range(40)])
    items = write_table(
        tmp_path / "items", "items", [{"item_id": name, "kind": "image", "image_ids": []} for name in "abc"]
    )
    write_table(tmp_path / "questions", "questions", [{"set_id": "s", "question_id": "1", "text": "A dog?"}])
    (tmp_path / "withdrawn.txt").write_text("f" * 32 + "\n", encoding="utf-8")
    common = ["model=local-tiny", "plan=true", f"out={tmp_path}/ratings"]

    def open_with(*keys: str) -> tuple[JudgeConfig, JudgingJob, TablePlan]:
        chosen = [key.replace("DIR", str(tmp_path)) for key in keys]
        defaults = [f"input={items}", f"images={images}", "rubric=cultural_relevance", "targets=[Sahel,Levant]"]
        cfg: JudgeConfig = config.load("judge", JudgeConfig, [*common, *defaults, *chosen])
        job = rubric_job.open_job(cfg, rubric_job.check(cfg))
        return cfg, job, rubric_job.plan(cfg, job, read_exclusions(cfg.exclusions), files={})

    return open_with


def test_every_key_that_changes_ratings_changes_the_identity(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_engine, "_check", lambda _: None)  # it is not installed

    def identity(*keys: str) -> dict[str, Any]:
        return dict(opened(*keys)[2].identity)

    dsg, reasoned = [*DSG, "questions=DIR/questions"], ["method=reasoned"]
    unchanged = []
    for base, changes in (
        ([], [
            "condition=with_caption", "max_context_tokens=100", "empty_context=skip", "targets=[Sahel]",
            "targets=[Levant,Sahel]", "rubric=caption_match", "layout=paper", "model.dtype=bfloat16",
            "model.max_pixels=50000", "model.min_pixels=50", "model.checkpoint=local:llama-tiny", "method=reasoned",
            "exclusions=DIR/withdrawn.txt", "images=null", "engine=vllm",
        ]),
        (dsg, ["questions_by=entity"]),
        (reasoned, ["samples=2", "seed=5", "temperature=0.5", "max_tokens=7"]),
    ):  # fmt: skip
        expected = identity(*base)
        unchanged += [change for change in changes if identity(*base, change) == expected]
    assert unchanged == []
    expected = identity()
    changed = [
        key
        for key in ("engine=naive", "memory_budget_gb=1", "rescore_fraction=1", "show_prompts=1", "max_error_share=0.5")
        if identity(key) != expected
    ]
    assert changed == []


def test_a_plan_keeps_the_rubric_and_the_name_of_the_model(opened: Opened) -> None:
    cfg, job, plan = opened("model.name=tiny", "model.checkpoint=me/seven", "model.revision=abc")
    kept = kept_rubric.of_rubric(job.rubric, cfg.rubric)
    assert plan.table == "ratings"
    assert plan.derived
    assert plan.metadata == {**kept.metadata, "rater": cfg.model.rater}
    assert plan.files == kept.files
    assert plan.models == {"tiny": cfg.model.rater}
    assert cfg.model.rater == "me/seven@abc"


def test_ratings_are_counted_by_item_label_question_and_sample(opened: Opened) -> None:
    questions = len(opened()[1].rubric.questions)
    assert opened()[1].ratings.total == 3 * 2 * questions
    assert opened("method=reasoned", "samples=4")[1].ratings.total == 3 * 2 * questions * 4
    dsg_job = opened(*DSG, "questions=DIR/questions")[1]
    assert dsg_job.ratings.total is None
    assert isinstance(dsg_job.reader, OwnQuestionsReader)
    assert dsg_job.reader.by == "prompt"
    assert "prompt" in dsg_job.reader.reader.fields
    assert not isinstance(opened()[1].reader, OwnQuestionsReader)


def test_a_begun_table_keeps_its_pieces_unless_it_is_overwritten(opened: Opened, tmp_path: Path) -> None:
    def pieces(actors: int, *keys: str) -> TablePlan:
        return opened(f"input={tmp_path}/images", "images=null", f"resources.judge.actors={actors}", *keys)[2]

    few, many = pieces(1), pieces(4)
    assert len(few.units) < len(many.units)
    open_run(few, resume=True, overwrite=False, retry=[])
    assert len(pieces(4).units) == len(few.units)
    assert len(pieces(4, "overwrite=true").units) == len(many.units)


def test_only_engines_for_some_families_look_up_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[tuple[str, str | None]] = []

    def load_config(checkpoint: str, *, revision: str | None) -> Any:
        from transformers import MllamaConfig

        looked_up.append((checkpoint, revision))
        return MllamaConfig()

    monkeypatch.setattr("actors.vlm.loading.load_config", load_config)
    cfg: Any = SimpleNamespace(only_plans=False, model=SimpleNamespace(checkpoint="me/seven", revision="r"))
    for cfg.engine in ("auto", "naive", "vllm"):
        rubric_job._check_family(cfg)
    assert looked_up == []
    cfg.engine = "packed"
    with pytest.raises(InputError, match=r"^engine=packed: does not support me/seven of family 'mllama' "):
        rubric_job._check_family(cfg)
    assert looked_up == [("me/seven", "r")]
    cfg.only_plans = True
    rubric_job._check_family(cfg)


def test_questions_of_items_need_their_table_and_items(opened: Opened, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^questions=null: "):
        opened(*DSG)
    with pytest.raises(InputError, match=r"^input=.*'prompt'"):
        opened(*DSG, "questions=DIR/questions", f"input={tmp_path}/images", "images=null")


REASONED = ["method=reasoned", "samples=2", "max_tokens=50"]


def settings(*keys: str) -> MethodConfig:
    required = ["input=x", "out=y", "rubric=century_labels", "model=local-tiny"]
    loaded: MethodConfig = config.load("judge", cli.job("judge").schema, [*required, *keys])
    return loaded


def kwargs(*keys: str) -> tuple[dict[str, Any], dict[str, Any]]:
    prepare, rate = judge_stages(settings(*keys), ["a", "b"], RatingCounts(5, 10))
    assert (prepare.pool, prepare.actor, rate.pool, rate.rows_out) == ("decode", RubricPreparer, "judge", 5)
    assert rate.actor is (ReasoningJudge if "method=reasoned" in keys else Judge)
    assert rate.batches == vllm_engine.batches(settings(*keys).engine)
    return prepare.kwargs, rate.kwargs


def test_closed_answers_need_no_room_for_a_text() -> None:
    prepare, rate = kwargs("resources.judge.threads=3", "resources.decode.threads=2")
    assert prepare.keys() == {"model", "targets", "keeps_pictures", "settings"}
    assert (rate["threads"], rate["targets"], prepare["targets"]) == (3, ["a", "b"], ["a", "b"])
    assert rate["settings"] is prepare["settings"]
    assert type(rate["settings"]).__name__ == "ClosedSettings"
    assert rate["model"].checkpoint == prepare["model"].checkpoint == "local:qwen2.5-vl-tiny"


def test_reasoning_has_its_instruction_and_room_for_the_text() -> None:
    prepare, rate = kwargs(*REASONED)
    assert prepare["instruction"] == REASONING_INSTRUCTION
    assert prepare["answer_tokens"] == rate["settings"].reserved_tokens > 50
    assert (rate["settings"].samples, rate["settings"].max_tokens) == (2, 50)


def test_vllm_gets_the_pictures_themselves() -> None:
    keeps = {engine: kwargs(f"engine={engine}")[0]["keeps_pictures"] for engine in ("auto", "cascade", "vllm")}
    assert keeps == {"auto": False, "cascade": False, "vllm": True}


def test_ratings_depend_on_the_keys_of_their_method() -> None:
    assert method_identity(settings()) == {"method": "closed"}
    reasoned = method_identity(settings(*REASONED))
    assert (reasoned["method"], reasoned["samples"], reasoned["max_tokens"]) == ("reasoned", 2, 50)
    assert method_identity(settings(*REASONED, "temperature=0.5")) != reasoned


def test_keys_of_the_other_method_are_refused() -> None:
    check_method(settings(*REASONED))
    cases = [
        (["method=open"], "method=open: must be one of closed, reasoned"),
        (["samples=2"], "samples=2: method=closed has no such key; omit it, or set method=reasoned"),
        (["method=reasoned", "engine=packed"], "engine: must be one of"),
    ]

    def check(keys: list[str], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            check_method(settings(*keys))

    check_cases(check, cases)

"""Inputs, stages and output of `judge`: rubric, labels, tables, method and the plan of its ratings.

| method | stages |
|---|---|
| `closed` | `RubricPreparer` on CPUs, then `Judge` scores the allowed answers |
| `reasoned` | `RubricPreparer` on CPUs, then `ReasoningJudge` generates reasoning and scores the answers after it |
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

from actors.ids import content_id
from actors.items import default_targets
from actors.judge import Judge
from actors.preparers import RubricPreparer
from actors.reasoning_judge import ENGINES as REASONING_ENGINES
from actors.reasoning_judge import REASONING_INSTRUCTION, ReasoningJudge
from actors.rubric_rater import RubricRater, sampled_ratings
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric import identity as rubric_identity
from actors.vlm.settings import ClosedSettings, ModelSettings, ReasoningSettings, RubricSettings, SamplingSettings
from jobs.errors import InputError, as_input_error, check_choice
from jobs.judging import engine_choice, kept_rubric, own_questions, prompt_trial, vllm_engine
from jobs.judging.engine_choice import ChosenEngine, Sampler
from jobs.judging.items import ItemTables, Reader, reading, sources_of
from jobs.judging.model_config import MethodConfig, OwnQuestionsConfig, check_model, check_start
from jobs.judging.model_run import model_plan
from jobs.judging.own_questions import OwnQuestionsReader
from jobs.judging.targets import RatingCounts, count_ratings, read_targets
from jobs.runtime.planning.expected_pace import cut_for
from jobs.runtime.selection.exclusions import Exclusions
from jobs.runtime.stage_contract import Stage
from jobs.store.reading import open_table
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit

METHODS: dict[str, type[RubricSettings]] = {"closed": ClosedSettings, "reasoned": ReasoningSettings}


class CheckedKeys(NamedTuple):
    """Keys validated without reading any table.

    Attributes:
        rubric: the questions.
        targets: labels of `targets=`; None if it is not set.
        sees_pictures: whether the model accepts pictures; None with plan=true.
    """

    rubric: Rubric
    targets: tuple[str, ...] | None
    sees_pictures: bool | None


class JudgingJob(NamedTuple):
    """The questions of one run and its opened tables.

    Attributes:
        rubric: the questions.
        targets: labels of `targets=`; None if it is not set.
        sources: the tables from which items are read.
        reads_pictures: whether the workers read the pictures' bytes.
        ratings: the numbers of ratings.
        own_questions: the keys of the items' own questions.
    """

    rubric: Rubric
    targets: tuple[str, ...] | None
    sources: ItemTables
    reads_pictures: bool
    ratings: RatingCounts

    own_questions: OwnQuestionsConfig

    @property
    def reader(self) -> Reader | OwnQuestionsReader:
        """Return the reader that the workers use for the items."""
        fields = own_questions.joined_fields(self.rubric.context_fields, self.own_questions)
        reader = reading(self.sources, fields=fields, pictures=self.reads_pictures)
        return OwnQuestionsReader(reader, self.own_questions.questions_by) if self.sources.questions else reader


def check(cfg: MethodConfig) -> CheckedKeys:
    """Validate method, rubric, labels and model without reading any table.

    Raises:
        InputError: the value of a key is not allowed.
    """
    try:
        prompt_trial.check(cfg)
        check_method(cfg)
        vllm_engine.check(cfg)
        targets = read_targets(cfg.targets)
        rubric = Rubric.from_dict(cfg.rubric)
        if targets:
            default_targets(rubric, targets)
        own_questions.check(cfg, rubric)
        sees_pictures = check_model(cfg)
        key = f"rubric={rubric.name}: answer_start"
        check_start(cfg, rubric.answer_start, key, is_scored=cfg.method == "closed")
        _check_family(cfg)
        return CheckedKeys(rubric, targets, sees_pictures)
    except InputError:
        raise
    except ValueError as error:
        raise as_input_error(error) from error


def check_method(cfg: MethodConfig) -> None:
    """Check that the method exists and that no key of another method is set.

    Raises:
        ValueError: the method is unknown, or a key that the method does not have differs from its default.
    """
    check_choice("method", cfg.method, METHODS)
    allowed = {field.name for field in fields(METHODS[cfg.method])}
    for name, settings in METHODS.items():
        for field in fields(settings):
            value = getattr(cfg, field.name)
            if field.name not in allowed and value != field.default:
                why = f"method={cfg.method} has no such key"
                raise InputError(why, key=field.name, value=value, remedy=f"omit it, or set method={name}")
    if cfg.method == "reasoned" and cfg.engine not in REASONING_ENGINES:
        raise InputError(f"must be one of {', '.join(REASONING_ENGINES)} with method=reasoned", key="engine")


def _check_family(cfg: MethodConfig) -> None:
    """Refuse an engine that cannot support the model's architecture, before a worker loads the model.

    Raises:
        InputError: the engine does not support it; names the engines that may.
    """
    if cfg.only_plans or cfg.engine in ("auto", "naive", vllm_engine.NAME):
        return
    from actors.vlm.engines import supporting
    from actors.vlm.loading import load_config

    config = load_config(cfg.model.checkpoint, revision=cfg.model.revision)
    if cfg.engine not in (supported := supporting(config.get_text_config())):
        why = (
            f"does not support {cfg.model.checkpoint} of family {config.model_type!r} (engines that may: "
            f"{', '.join([*supported, 'naive'])})"
        )
        raise InputError(why, key="engine", value=cfg.engine, remedy="use engine=auto")


def open_job(cfg: MethodConfig, checked: CheckedKeys) -> JudgingJob:
    """Open the tables and count the ratings.

    Raises:
        InputError: a table does not exist, is incomplete or lacks data that the rubric's prompt needs.
    """
    reads_pictures = bool(cfg.images) if checked.sees_pictures is None else checked.sees_pictures
    fields = own_questions.joined_fields(checked.rubric.context_fields, cfg)
    sources = sources_of(cfg, fields=fields, pictures=reads_pictures)
    if checked.sees_pictures is None:  # with plan=true
        reads_pictures = sources.pictures is not None
    if cfg.questions:
        own_questions.check_tables(cfg, sources)
        sources = replace(sources, questions=open_table(cfg.questions, "questions", key="questions"))
    ratings = count_ratings(sources.items, checked.rubric, checked.targets, samples=cfg.samples)
    return JudgingJob(checked.rubric, checked.targets, sources, reads_pictures, ratings, cfg)


def choose_engine(cfg: MethodConfig, job: JudgingJob, excluded: Exclusions) -> ChosenEngine:
    """Return the engine of the run (`jobs.judging.engine_choice.choose`), compared by ratings of the first items."""

    def sample(engine: str) -> tuple[Sampler, dict[str, Any]]:
        short: dict[str, Any] = {"max_tokens": engine_choice.TOKENS, "samples": 1, "temperature": 0.0}
        keys = replace(cfg, engine=engine, **(short if cfg.method == "reasoned" else {}))
        prepare, rate = judge_stages(keys, job.targets, job.ratings)
        return sampled_ratings, {
            "prepare": partial(prepare.actor, **prepare.kwargs),
            "rate": partial(rate.actor, **rate.kwargs),
        }

    return engine_choice.choose(
        cfg,
        sample,
        fallback="auto",
        answers=job.ratings.total or job.sources.items.rows,
        units=units_of(cfg, job) if cfg.engine in ("auto", vllm_engine.NAME) else (),
        reader=job.reader,
        excluded=excluded,
    )


def units_of(cfg: MethodConfig, job: JudgingJob) -> Sequence[Unit]:
    """Return the units of the table of ratings."""
    return job.sources.units(cut_for("judge", cfg, ("decode", "judge")))


def plan(cfg: MethodConfig, job: JudgingJob, excluded: Exclusions, *, files: Mapping[str, bytes]) -> TablePlan:
    """Return the plan of the table of ratings.

    Args:
        files: further files of `_run/`, by name.
    """
    rubric, layout = job.rubric, job.rubric.resolve_layout(cfg.layout)
    kept = kept_rubric.of_rubric(rubric, cfg.rubric)
    entries = {
        "rubric": {"name": rubric.name, "hash": rubric_identity(rubric, layout=layout), "layout": layout},
        **method_identity(cfg),
        **vllm_engine.identity(cfg.engine),
        **job.sources.identity,
        **({"questions_by": cfg.questions_by} if cfg.questions else {}),
        **({"targets": list(job.targets)} if job.targets else {}),
        **({"empty_context": cfg.empty_context} if cfg.empty_context != "answer" else {}),
    }
    instead_of = ["layout", "engine", "questions_by", "targets", "empty_context"]
    if cfg.method == "closed":
        instead_of += [field.name for field in fields(SamplingSettings)]  # which this method does not have
    metadata = {**kept.metadata, "rater": cfg.model.rater}
    return model_plan(
        cfg,
        "ratings",
        entries,
        instead_of=instead_of,
        excluded=excluded,
        units=units_of(cfg, job),
        metadata=metadata,
        files={**kept.files, **files},
    )


def method_identity(cfg: MethodConfig) -> dict[str, Any]:
    """Return the part of a run's identity that depends on the method."""
    if cfg.method == "closed":
        return {"method": cfg.method}
    instruction = content_id(REASONING_INSTRUCTION)
    return {"method": cfg.method, "instruction": instruction, "samples": cfg.samples, **cfg.drawing}


def judge_stages(cfg: MethodConfig, targets: Sequence[str] | None, ratings: RatingCounts) -> list[Stage]:
    """Return the stages that turn items into ratings.

    Args:
        targets: labels for items without their own; the rubric's if None.
        ratings: the number of rows per item.
    """
    shared = {"model": ModelSettings.part_of(cfg.model), "targets": targets}
    prepare: dict[str, Any] = {**shared, "keeps_pictures": cfg.engine == vllm_engine.NAME}
    rate: dict[str, Any] = {**shared, "threads": cfg.resources.judge.threads}
    rater: type[RubricRater]
    if cfg.method == "closed":
        rater, prepare["settings"] = Judge, ClosedSettings.part_of(cfg)
    else:
        reasoned = ReasoningSettings.part_of(cfg)
        rater, prepare["settings"] = ReasoningJudge, reasoned
        prepare |= {"instruction": REASONING_INSTRUCTION, "answer_tokens": reasoned.reserved_tokens}
    rate["settings"] = prepare["settings"]
    batches = vllm_engine.batches(cfg.engine)
    return [
        Stage("decode", RubricPreparer, prepare),
        Stage("judge", rater, rate, rows_out=ratings.rows_out, batches=batches),
    ]

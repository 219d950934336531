"""The methods of `judge`: their keys, what their ratings depend on, and their stages.

| method | stages |
|---|---|
| `closed` | `RubricPreparer` on CPUs, then `Judge` scores the allowed answers |
| `reasoned` | `RubricPreparer` on CPUs, then `ReasoningJudge` generates reasoning and scores the answers after it |
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from actors.ids import content_id
from actors.vlm.rater_settings import ClosedSettings, ReasoningSettings, RubricSettings
from actors.vlm.settings import ModelSettings
from jobs.judging.settings import AskingConfig, OwnQuestionsConfig

if TYPE_CHECKING:
    from actors.rubric_rater import RubricRater
    from jobs.judging.targets import RatingCounts
    from jobs.runtime.stage_contract import Stage

METHODS: dict[str, type[RubricSettings]] = {"closed": ClosedSettings, "reasoned": ReasoningSettings}


@dataclass
class MethodConfig(ReasoningSettings, ClosedSettings, OwnQuestionsConfig, AskingConfig):
    """Keys of both methods."""

    method: str = "closed"  # closed: score the allowed answers; reasoned: first let the model reason in writing
    targets: Any = None  # labels to judge against: a file with one per line, [a,b], or a list of conf/target_lists


def check_method(cfg: MethodConfig) -> None:
    """Check that the method exists and that no key of another method is set.

    Raises:
        ValueError: the method is unknown, or a key that the method does not have differs from its default.
    """
    if cfg.method not in METHODS:
        raise ValueError(f"method={cfg.method}: must be one of {', '.join(METHODS)}")
    allowed = {field.name for field in fields(METHODS[cfg.method])}
    for name, settings in METHODS.items():
        for field in fields(settings):
            value = getattr(cfg, field.name)
            if field.name not in allowed and value != field.default:
                raise ValueError(
                    f"{field.name}={value}: method={cfg.method} has no such key; omit it, or set method={name}"
                )

    from actors.reasoning_judge import ENGINES as REASONING_ENGINES

    if cfg.method == "reasoned" and cfg.engine not in REASONING_ENGINES:
        raise ValueError(f"engine={cfg.engine}: must be one of {', '.join(REASONING_ENGINES)} with method=reasoned")


def identity(cfg: MethodConfig) -> dict[str, Any]:
    """Return the part of a run's identity that depends on the method."""
    if cfg.method == "closed":
        return {"method": cfg.method}
    from actors.reasoning_judge import REASONING_INSTRUCTION

    instruction = content_id(REASONING_INSTRUCTION)
    return {"method": cfg.method, "instruction": instruction, "samples": cfg.samples, **cfg.drawing}


def stages(cfg: MethodConfig, targets: Sequence[str] | None, ratings: "RatingCounts") -> list["Stage"]:
    """Return the stages that turn items into ratings.

    Args:
        targets: labels for items without their own; the rubric's if None.
        ratings: the number of rows per item.
    """
    from actors.judge import Judge
    from actors.reasoning_judge import REASONING_INSTRUCTION, ReasoningJudge
    from actors.rubric_preparer import RubricPreparer
    from jobs.judging import vllm_engine
    from jobs.runtime.stage_contract import Stage

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

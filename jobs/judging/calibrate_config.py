"""The keys of `calibrate`, and checks of their combinations."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from actors.conditions import ConditionSettings
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import Question
from jobs.errors import InputError
from jobs.judging.calibration import CRITERIA
from jobs.judging.halves import HALVES
from jobs.runtime.configuration.config import Writing


@dataclass
class CalibrateConfig(ConditionSettings, Writing):
    """Keys of `calibrate`."""

    input: str = MISSING  # a table of ratings by remine loglik, of one model and one condition
    items: list[str] = field(default_factory=list)  # tables of items with gold, or globs; also for split_by=
    criterion: str = "f1"  # f1 with the gold of items=, or pearson with reference=
    reference: str | None = None  # people's ratings, for criterion=pearson: a table or a glob
    threshold: float | None = None  # log-likelihood from which a label holds; null: chosen with lambda and T
    choose_on: str = "a"  # the half on which the settings are chosen; the other half is rated
    cross: bool = False  # choose on the other half too, so that all items are rated
    split_by: str | None = None  # attribute of items=, such as prompt_id, whose values stay in one half; null: none
    seed: int = 0  # seed of the split into halves
    rubric: dict[str, Any] = field(default_factory=dict)  # with criterion=f1: whose highest and lowest answers are used


def checked(cfg: CalibrateConfig) -> Question | None:
    """Return the question whose answers are used; None with criterion=pearson.

    Raises:
        InputError: the value of a key is not allowed.
    """
    if cfg.criterion not in CRITERIA:
        raise InputError(f"criterion={cfg.criterion}: must be one of {', '.join(CRITERIA)}")
    if cfg.choose_on not in HALVES:
        raise InputError(f"choose_on={cfg.choose_on}: must be one of {', '.join(HALVES)}")
    if cfg.split_by and not cfg.items:
        raise InputError(f"split_by={cfg.split_by}: set items= to the tables with this attribute")
    if cfg.criterion == "pearson":
        if not cfg.reference or cfg.threshold is not None:
            raise InputError("criterion=pearson: reference= is required, and threshold= is not allowed")
        return None
    if not cfg.items or cfg.reference:
        raise InputError("criterion=f1: items= with gold is required, and reference= is not allowed")
    try:
        questions = Rubric.from_dict(cfg.rubric).questions
    except ValueError as error:
        raise InputError(f"calibrate: {error}") from error
    if len(questions) != 1 or questions[0].scale != "ordinal":
        raise InputError(f"rubric={cfg.rubric['name']}: must have one question, whose answers have scores")
    return questions[0]

"""Keys and checks that jobs with a vision-language model share, and running such a job with several models."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from actors.rubrics.thoughts import ANY
from actors.settings import ConditionSettings, Location, RuntimeOnly
from actors.vlm.settings import ClosedSettings, ContextSettings, ReasoningSettings
from jobs.checkpoints.placement import GB, WORKING_SHARE, check_dtype, check_fits, dtype_of
from jobs.checkpoints.vlm import AsksModelConfig, check_bounds
from jobs.errors import InputError, RunError
from jobs.runtime.cluster import dtypes
from jobs.runtime.configuration.config import FailingRows
from jobs.runtime.configuration.key_types import LISTS, MISSING
from jobs.runtime.outcomes import Manifest, Plan, check_outcome, show
from jobs.runtime.process.console import say
from jobs.store.files import locations

if TYPE_CHECKING:
    from jobs.store.reading import TableSource


CONDITION = "remine.condition"  # in the footers of a table of items


@dataclass
class ModelRunConfig(AsksModelConfig, FailingRows):
    """Keys of every job that runs a model on items."""

    input: Location[str] = MISSING  # a table of images, or of items
    images: Location[str | None] = None  # for a table of items: their pictures
    texts: Location[str | None] = None  # for a table of items: their texts
    # with plan=true: print the prompts about this many items, and answers of a tiny random model
    show_prompts: RuntimeOnly[int] = 0


@dataclass
class AskingConfig(ContextSettings, ModelRunConfig):
    """Keys of every job whose prompts have a context."""

    records: Location[str | None] = None  # records of the pictures, for the prompt's context


@dataclass
class EngineConfig(AskingConfig):
    """Keys of every job whose model may run in vLLM."""

    engine: str = "auto"
    # rarely: items about which vLLM must answer as transformers does before a run uses it; 0: vLLM is not compared
    engine_sample: RuntimeOnly[int] = 2


@dataclass
class OwnQuestionsConfig:
    """Keys for the items' own questions."""

    # table of questions, for a rubric that asks each item its own questions, such as dsg
    questions: Location[str | None] = None
    # rarely: attribute, or role of texts, whose value is the item's set_id or the text of its set
    questions_by: str = "prompt"


@dataclass
class SeveralModelsConfig(ModelRunConfig):
    """Keys of every job that runs with several models."""

    # several of conf/model.yaml, run one after another, each into out/NAME; keys below model= apply to each
    models: RuntimeOnly[list[Any]] = field(default_factory=list, metadata={LISTS: "model"})


@dataclass
class ModelsConfig(SeveralModelsConfig, AskingConfig):
    """Keys of every job that runs with several models and whose prompts have a context."""


@dataclass
class MethodConfig(ReasoningSettings, ClosedSettings, OwnQuestionsConfig, EngineConfig):
    """Keys of both methods of `judge`."""

    method: str = "closed"  # closed: score the allowed answers; reasoned: first let the model reason in writing
    targets: Any = None  # labels to judge against: a file with one per line, [a,b], or a list of conf/target_lists


Conditioned = TypeVar("Conditioned", bound=ConditionSettings)
Config = TypeVar("Config", bound=SeveralModelsConfig)
Checked = TypeVar("Checked")


def check_start(cfg: AsksModelConfig, start: str, key: str, *, is_scored: bool = True) -> None:
    """Check that the beginning of the model's turn leaves no thought open, inside which answers would be scored.

    Args:
        key: what has the start, for the message.
        is_scored: whether answers are scored after the start, rather than after the model's own words.

    Raises:
        ValueError: the start opens a thought, or the model's prompt opens one that nothing closes.
    """
    from actors.vlm.model_checks import check_answering

    if mark := ANY.unclosed(start):
        raise ValueError(f"{key}: opens a thought ({mark}) that it does not close; close it, or leave it out")
    if is_scored:
        model, local_only = cfg.model, cfg.only_plans
        check_answering(model.checkpoint, model.template, start=start, revision=model.revision, local_only=local_only)


def check_model(cfg: AsksModelConfig, *, shown_by: str = "") -> bool | None:
    """Check that the model exists and can be loaded; reads a few small files and no weights.

    Args:
        shown_by: what shows the model a picture ("prompt 'explicit'"); empty if nothing does. If it is not empty, a
            model that accepts only text is refused.

    Returns:
        Whether the model accepts pictures; None with plan=true, which does not look up a model of the hub.

    Raises:
        ValueError: the model, its dtype or its bounds of pixels cannot be used, or the weights do not fit an actor.
        InputError: `input` is not a table of images or items; raised before a model is looked up or built.
    """
    from actors.vlm.model_checks import check_template, check_vlm, needs_hub, weight_bytes
    from jobs.store.reading import refuse_early

    check_dtype(cfg.model.dtype, prefix="model.")
    check_bounds(cfg.model)
    name, revision = cfg.model.checkpoint, cfg.model.revision
    only_plans = cfg.only_plans
    if not only_plans:
        refuse_early(getattr(cfg, "input", None), "images", "items", key="input")
    sees_pictures = None if only_plans and needs_hub(name, revision) else check_vlm(name, revision=revision)
    _check_form(cfg, local_only=only_plans)
    check_template(name, cfg.model.template, revision=revision, local_only=only_plans)
    if shown_by and sees_pictures is False:
        why = f"does not accept pictures, and {shown_by} shows one"
        raise InputError(
            why, key="model.checkpoint", remedy="use a vision-language model, or a prompt whose order has no `picture`"
        )
    if only_plans:
        check_fits(cfg, cfg.model, weights=_known_bytes(cfg))
        return None
    dtype = dtype_of(cfg.model, cfg.resources.judge)
    is_vllm = getattr(cfg, "engine", None) == "vllm"
    weights = weight_bytes(name, dtype=dtype, revision=revision, as_stored=is_vllm)
    check_fits(cfg, cfg.model, weights=weights)
    return sees_pictures


def _known_bytes(cfg: AsksModelConfig) -> float | None:
    """Return the bytes of the weights, from files here or, on GPUs, from `model.memory_gb`; None if unknown."""
    from actors.vlm.model_checks import weight_bytes

    model, stage = cfg.model, cfg.resources.judge
    dtype, as_stored = dtype_of(model, stage), getattr(cfg, "engine", None) == "vllm"
    weights = weight_bytes(model.checkpoint, dtype=dtype, revision=model.revision, as_stored=as_stored, local_only=True)
    if weights is not None or model.memory_gb is None or not stage.num_gpus:
        return weights
    return model.memory_gb * GB * (2 if dtype == "float32" else 1) / WORKING_SHARE


def _check_form(cfg: AsksModelConfig, *, local_only: bool) -> None:
    """Check that quantised weights can be loaded; vLLM has kernels of its own, and checks them when it loads them."""
    from actors.vlm.model_checks import check_quantised

    if getattr(cfg, "engine", None) != "vllm":
        gpus, model = cfg.resources.judge.num_gpus, cfg.model
        check_quantised(model.checkpoint, dtype=model.dtype, gpus=gpus, revision=model.revision, local_only=local_only)


def with_condition(cfg: Conditioned, items: "TableSource") -> Conditioned:
    """Return `cfg` with the condition of the table `items` if `cfg` has none, and print that condition.

    Use it in each job that writes ratings or responses about items, before the plan is made: the condition is part of
    the run's identity.
    """
    condition = items.metadata.get(CONDITION, "")
    if cfg.condition or not condition:
        return cfg
    say(f"condition={condition}: taken from {items.uri}")
    return replace(cfg, condition=condition)


def check_early(check: Callable[[Config], object]) -> Callable[[Config], object]:
    """Return `check` without looking up models, which takes longer, for a pipeline that has not begun."""
    return lambda cfg: check(replace(cfg, plan=True))


def run_each(
    job: str, cfg: Config, check: Callable[[Config], Checked], run: Callable[[Config, Checked], Plan | Manifest]
) -> Plan | Manifest:
    """Run a job with the model of `model=`, or with each of `models=`; return the last one's manifest, or the plan.

    With several models, what a run returns is printed when it ends. If a model fails, the next one still runs.

    Args:
        job: the job's name.
        check: validates the keys without reading tables; called for all models before the first one runs.
        run: runs the job with one model and what `check` returned.

    Raises:
        InputError: a value is not allowed; nothing was written.
        RunError: the run failed. With several models it is raised after all have run, and names those that failed.
    """
    if not cfg.models:
        return run(cfg, check(cfg))
    configs = _per_model(cfg)
    checked = list[Checked]()
    for config in () if cfg.only_plans else configs:
        try:
            checked.append(check(config))
        except InputError as error:
            if error.key is None and error.place is not None:
                error.key, error.value = "models", config.model.name
            raise
    outcomes, failures = list[Plan | Manifest](), dict[str, Exception]()
    for number, config in enumerate(configs):
        try:
            outcome = run(config, checked[number] if checked else check(config))
            show(outcome)
            check_outcome(outcome)
            outcomes.append(outcome)
        except (InputError, RunError) as error:
            failures[config.model.name] = error
            say(f"{job} {config.model.name} failed: {error}", err=True)
    if failures:
        only_input = len(failures) == len(configs) and all(isinstance(e, InputError) for e in failures.values())
        names_by_reason: dict[str, list[str]] = {}
        for name, failure in failures.items():
            names_by_reason.setdefault(str(failure), []).append(name)
        reasons = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in names_by_reason.items())
        raise (InputError if only_input else RunError)(f"{len(failures)} of {len(configs)} models failed: {reasons}")
    planned = [table for outcome in outcomes for table in outcome.planned]
    last = outcomes[-1]
    return Plan([], planned) if isinstance(last, Plan) else Manifest(last, planned=planned)


def _per_model(cfg: Config) -> list[Config]:
    """Return one configuration per model of `models=`, each with a separate table."""
    configs = [replace(cfg, model=model, models=[], out=locations.join(cfg.out, model.name)) for model in cfg.models]
    for config in configs:
        dtypes.resolve(config)
    return configs

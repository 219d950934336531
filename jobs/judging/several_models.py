"""Running a job with several models, one after another, each into a separate table."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jobs.errors import InputError, RunError
from jobs.judging.settings import AskingConfig, ModelRunConfig
from jobs.runtime.cluster import dtypes
from jobs.runtime.configuration import named_keys
from jobs.runtime.configuration.listed_models import LISTS
from jobs.runtime.outcomes import check_outcome
from jobs.runtime.process.console import say
from jobs.store.files import locations

Manifest = dict[str, Any]


@dataclass
class SeveralModelsConfig(ModelRunConfig):
    """Keys of every job that runs with several models."""

    # several of conf/model, run one after another, each into out/NAME; keys below model= apply to each
    models: list[Any] = field(default_factory=list, metadata={LISTS: "model"})


@dataclass
class ModelsConfig(SeveralModelsConfig, AskingConfig):
    """Keys of every job that runs with several models and whose prompts have a context."""


Config = TypeVar("Config", bound=SeveralModelsConfig)


def run_each(
    job: str, cfg: Config, run: Callable[[Config], Manifest | None], *, check: Callable[[Config], object]
) -> Manifest | None:
    """Run a job with the model of `model=`, or with each of `models=`; return the last one's manifest.

    If a model fails, the next one still runs.

    Args:
        job: the job's name.
        run: runs the job with one model.
        check: validates the keys without reading tables; called for all models before the first one runs.

    Raises:
        InputError: a value is not allowed; nothing was written.
        RunError: the run failed. With several models it is raised after all have run, and names those that failed.
    """
    if not cfg.models:
        return run(cfg)
    configs = _per_model(cfg)
    if not cfg.only_plans:
        for config in configs:
            try:
                check(config)
            except InputError as error:
                raise InputError(named_keys.with_own_key(str(error), job, f"models={config.model.name}")) from error
    manifest, failures = None, dict[str, Exception]()
    for config in configs:
        try:
            manifest = run(config)
            check_outcome(manifest)
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
    return manifest


def _per_model(cfg: Config) -> list[Config]:
    """Return one configuration per model of `models=`, each with a separate table."""
    configs = [replace(cfg, model=model, models=[], out=locations.join(cfg.out, model.name)) for model in cfg.models]
    for config in configs:
        dtypes.resolve(config)
    return configs

"""Pipelines: jobs with their keys, steps that are repeated over lists, and optional steps.

A step with `for_each: {model: [a, b], condition: [none, article]}` becomes one step per combination of the values, in
which `${each.model}` and `${each.condition}` stand for that combination's values. A step with `when: {source: urls}`
runs only if the pipeline's input `source` has the value `urls`. `${stem:VALUE}` is VALUE, except for the path of a YAML
file, of which it is the file name without its ending; `${mapping:VALUE}` is VALUE, or an empty mapping if VALUE is
null. `${if:INPUT,VALUE}` is VALUE if INPUT is not empty, else null, and `${present:A,B}` is the list of A and B without
nulls. `${local:MODEL,NAMES}` is the list of `local:MODEL@NAME`, which replaces each name by one small local model.
"""

import contextlib
import itertools
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from jobs.errors import InputError, check_choice
from jobs.runtime.configuration import config
from jobs.runtime.configuration.key_types import MISSING
from jobs.store.files import locations

_INPUT = re.compile(r"\$\{pipeline\.inputs\.([\w.]+)\}")
_VARIABLE = re.compile(r"\$\{each\.(\w+)\}")
_LOOKED_UP = ("fetch", "import_ratings", "kb", "terms")


@dataclass
class Step:
    """One job and its keys."""

    job: str = MISSING
    set: dict[str, Any] = field(default_factory=dict)  # keys of the job
    # variable -> list of values, or one value; empty: the step runs once
    for_each: dict[str, Any] = field(default_factory=dict)
    when: dict[str, Any] = field(default_factory=dict)  # input -> the value, or glob, that it must have; null: none
    waits: bool = False  # continue without the step while people have not answered what it reads
    each: dict[str, Any] = field(default_factory=dict)  # the values of a step that `expand` made; not for files
    inputs: dict[str, str] = field(default_factory=dict)  # key -> the pipeline's input that it is set to, likewise


@dataclass
class PipelineConfig:
    """A pipeline: its inputs, which are its own keys, and its steps."""

    name: str = MISSING
    inputs: dict[str, Any] = field(default_factory=dict)  # paths of the input files, and lists that steps repeat over
    choices: dict[str, list[Any]] = field(default_factory=dict)  # input -> its allowed values; without an entry any
    # input -> values of others with which it is required
    needs: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)  # inputs that are files, folders or globs, which must exist
    steps: list[Step] = field(default_factory=list)  # the jobs and their keys


@dataclass
class ProfileConfig:
    """Keys to change, by job."""

    name: str = MISSING
    set: dict[str, dict[str, Any]] = field(default_factory=dict)  # job -> its keys


def expand(composed: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a run with each step's keys resolved, and repeated steps written out.

    Args:
        composed: a RunConfig without missing values, whose interpolations are not resolved. A profile's keys replace
            those of its job's steps, and may use `${each.NAME}` as well. Its `set` keeps only the names of the jobs.

    Raises:
        InputError: a variable has no list of values, a key uses a variable that its step does not have, a condition is
            on an input that the pipeline does not have, or an input is not allowed or is missing.
    """
    root = OmegaConf.create(composed)
    _check_inputs(root.pipeline)
    steps = []
    for number, step in enumerate(root.pipeline.steps, 1):
        where = f"pipeline={root.pipeline.name}, step {number} ({step.job})"
        if not _hold(step.when, root.pipeline.inputs, f"{where}: when"):
            continue
        changed = root.profile.set.get(step.job) or {}
        inputs = dict(_inputs_of(step.set, variables=_unresolved(step.get("for_each") or {})))
        for values in _combinations(step, where):
            root.each = values
            keys = leaves(_resolved(step.set, where, values))
            replacing = leaves(_resolved(changed, where, values))
            # A list such as `image_models` replaces the step's single `image_model`.
            kept = {key: value for key, value in keys.items() if f"{key.partition('.')[0]}s" not in replacing}
            steps.append(asdict(Step(job=step.job, set=kept | replacing, waits=step.waits, each=values, inputs=inputs)))
    pipeline = composed["pipeline"] | {"steps": steps}
    profile = composed["profile"] | {"set": {job: {} for job in composed["profile"]["set"]}}
    return composed | {"pipeline": pipeline, "profile": profile}


def first_steps(steps: Sequence[Step], jobs: Container[str]) -> list[Step]:
    """Return the steps of `jobs` that do not read an earlier step's table; these get the limit.

    Steps whose rows other steps look up (`_LOOKED_UP`) are included only if there are no other steps, because the
    limited steps determine which of their rows are needed.
    """
    written: list[str] = []
    first = []
    for step in steps:
        values = " ".join(str(value) for key, value in step.set.items() if key != "out")
        if step.job in jobs and not any(out in values for out in written):
            first.append(step)
        if "out" in step.set:
            written.append(str(step.set["out"]))
    return [step for step in first if step.job not in _LOOKED_UP] or first


def leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of a nested mapping under their dotted keys."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def label(step: Step) -> str:
    """Return the step's job, and its values if it is repeated."""
    return " ".join([step.job, *(f"{name}={value}" for name, value in step.each.items())])


def check_files(pipeline: PipelineConfig) -> None:
    """Check that the inputs that name files exist.

    Raises:
        InputError: one does not.
    """
    for name in pipeline.files:
        value = pipeline.inputs[name]
        for place in value if isinstance(value, list) else [value]:
            if not _is_empty(place) and not Path(str(place)).exists():
                try:
                    locations.find(str(place), strict=False)
                except InputError as error:
                    error.key, error.value, error.place = name, place, None
                    raise


@contextlib.contextmanager
def inputs_named(step: Step) -> Iterator[None]:
    """Give errors about a step's keys the names of the pipeline's inputs of which the values are."""
    try:
        yield
    except InputError as error:
        key = error.key or ""
        for name, of_pipeline in step.inputs.items():
            if key == name or key.startswith(f"{name}."):
                error.key = of_pipeline + key.removeprefix(name)
                break
        raise


def check_outputs(steps: Sequence[Step], loaded: Sequence[Any]) -> None:
    """Check that no two steps write one table.

    Raises:
        InputError: two steps have the same `out`.
    """
    writers: dict[str, str] = {}
    for number, (step, config_of_step) in enumerate(zip(steps, loaded, strict=True), 1):
        if (out := getattr(config_of_step, "out", None)) is None:
            continue
        place, writer = locations.absolute(out), f"step {number} ({label(step)})"
        if place in writers:
            why = (
                f"written by {writers[place]} and {writer}; give each step its own out, a repeated step with all "
                "its variables, as in out: ${out}/ratings/${each.model}"
            )
            raise InputError(why, key="out", value=out)
        writers[place] = writer


def _inputs_of(keys: Any, prefix: str = "", *, variables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each key of a step, and the input of which its value is made, if it is only one.

    Args:
        variables: the lists of the step's variables, unresolved.
    """
    for name, value in _unresolved(keys).items():
        if isinstance(value, Mapping):
            yield from _inputs_of(value, f"{prefix}{name}.", variables=variables)
            continue
        text = _VARIABLE.sub(lambda match: str(variables.get(match[1], "")), str(value))
        if len(inputs := set(_INPUT.findall(text))) == 1 and "${out}" not in text:
            yield f"{prefix}{name}", inputs.pop()


def _unresolved(keys: Any) -> Any:
    return OmegaConf.to_container(keys, resolve=False) if isinstance(keys, DictConfig) else keys


def _check_inputs(pipeline: DictConfig) -> None:
    for name, allowed in (pipeline.get("choices") or {}).items():
        check_choice(name, pipeline.inputs.get(name), allowed)
    for name, others in (pipeline.get("needs") or {}).items():
        where = f"pipeline={pipeline.name}, needs.{name}"
        if _hold(others, pipeline.inputs, where) and _is_empty(pipeline.inputs.get(name)):
            needed = ", ".join(
                f"{other}={pipeline.inputs[other]}" for other, value in others.items() if value is not None
            )
            absent = ", ".join(other for other, value in others.items() if value is None)
            why = " and ".join(
                filter(None, [f"with {needed}" if needed else "", f"without {absent}" if absent else ""])
            )
            empty = "".join(f" or {other}=" for other, value in others.items() if value is None)
            raise InputError(f"required {why}", key=name, remedy=f"set {name}={empty}")


def _hold(conditions: Any, inputs: DictConfig, where: str) -> bool:
    """Return whether the inputs have the values of the conditions; only null matches an input without a value."""
    for name, glob in _resolved(conditions, where, {}).items():
        if name not in inputs:
            raise InputError(f"{where}.{name}: the pipeline has no such input; it has {', '.join(inputs)}")
        value = inputs[name]
        is_empty = _is_empty(value)
        if is_empty != (glob is None) or not (is_empty or fnmatchcase(str(value), str(glob))):
            return False
    return True


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _present(values: Sequence[Any]) -> list[Any]:
    """Return the non-null values, with lists flattened."""
    lists = [list(value) if isinstance(value, list | ListConfig) else [value] for value in values]
    return [value for of_list in lists for value in of_list if value is not None]


def _stem(value: str) -> str:
    """Return the name of a YAML file without its ending; other values as they are."""
    return PurePath(value).stem if value.endswith((".yaml", ".yml")) else value


def _local(model: str, names: Sequence[str]) -> list[str]:
    """Return a checkpoint of the local model for each name, so that each stands for another model."""
    return [f"local:{model}@{_stem(str(name))}" for name in names]


OmegaConf.register_new_resolver("stem", lambda value: _stem(str(value)), replace=True)
OmegaConf.register_new_resolver("if", lambda condition, value: None if _is_empty(condition) else value, replace=True)
OmegaConf.register_new_resolver("local", _local, replace=True)
OmegaConf.register_new_resolver("present", lambda *values: _present(values), replace=True)
OmegaConf.register_new_resolver("mapping", lambda value: {} if value is None else value, replace=True)


def _combinations(step: DictConfig, where: str) -> Iterator[dict[str, Any]]:
    """Yield each combination of the step's values, the last variable changing fastest; an empty one if it has none."""
    variables = _resolved(step.get("for_each") or {}, where, {})
    for name, values in variables.items():
        if isinstance(values, Mapping) or (_is_empty(values) and values != []):
            raise InputError(f"{where}: for_each.{name}={values}: expected a list, as in [a,b]")
        if values == []:
            raise InputError(
                f"{where}: for_each.{name}=[]: the step would not run, and later steps would miss its table; "
                "give at least one value"
            )
    lists = [values if isinstance(values, list) else [values] for values in variables.values()]
    for values in itertools.product(*lists):
        yield dict(zip(variables, values, strict=True))


def _resolved(keys: Any, where: str, values: dict[str, Any]) -> dict[str, Any]:
    try:
        container: Any = OmegaConf.to_container(keys, resolve=True) if isinstance(keys, DictConfig) else keys
    except OmegaConfBaseException as error:
        variables = ", ".join(f"${{each.{name}}}" for name in values) or "none (for_each is not set)"
        raise InputError(f"{where}: {config.describe(error)}; variables of the step: {variables}") from error
    return dict(container)

"""Several models of one key, from the names in a list such as `models=[qwen2.5-vl-7b,pangea-7b]`.

A field with the metadata `{LISTS: "model"}` is such a list. `config.load` replaces its names by the configured models,
each with the keys that the user sets below `model`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from actors.local_models import is_local
from jobs.errors import InputError
from jobs.runtime.configuration.overrides import key_of

LISTS = "lists"  # in a field's metadata: the key of which the field lists several options; empty: its single option


def read_models(
    job: str, config: Any, overrides: Sequence[str], load: Callable[[str, type, list[str]], Any], /
) -> None:
    """Replace the names in the lists of `config` by their models, and the model of the single key by the first one.

    Args:
        job: the job's name.
        config: the job's configuration; modified in place.
        overrides: the overrides of `config`, which apply to each of the models.
        load: returns the configuration of a job, a dataclass of keys and overrides.

    Raises:
        InputError: a model is unknown or listed twice, or an override chooses a single model as well.
    """
    for listed in fields(config):
        if (key := listed.metadata.get(LISTS)) is None or not (names := getattr(config, listed.name)):
            continue
        shared = [override for override in overrides if key_of(override) != listed.name]
        models = []
        for name in names:
            if not isinstance(name, str):
                raise InputError(f"{listed.name}: {name!r}: expected names of conf/{key}, or paths of YAML files")
            try:
                models.append(getattr(load(job, type(config), [*shared, *_choice(key, name)]), key))
            except InputError as error:
                raise InputError(re.sub(rf"^{job}: {key}=", f"{listed.name}=", str(error))) from error
        _refuse_single(overrides, key, listed.name)
        called = [model.name for model in models]
        if duplicate := next((name for name in called if called.count(name) > 1), None):
            shown = ",".join(map(str, names))
            raise InputError(f"{listed.name}=[{shown}]: duplicate {duplicate}; name each model once")
        setattr(config, listed.name, models)
        setattr(config, key, models[0])


def _refuse_single(overrides: Sequence[str], key: str, listed: str) -> None:
    """Raise InputError if an override chooses the model of `key`, which the list would replace."""
    single = {key, f"{key}.checkpoint", f"{key}.name"}
    if override := next((override for override in overrides if key_of(override) in single), None):
        raise InputError(
            f"{override}: not allowed with {listed}=, which names all models; add the model to {listed}=, or omit it"
        )


def _choice(key: str, name: str) -> list[str]:
    """Return the overrides that choose the model `name`: an option, the path of a file, or `local:NAME@OTHER`."""
    if not is_local(name):
        return [f"{key}={name}"]
    called = name.partition("@")[2] or name.partition(":")[2]
    return [f"{key}=local-tiny", f"{key}.checkpoint='{name}'", f"{key}.name='{called}'"]

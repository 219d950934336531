"""Several models of one key, from the names in a list such as `models=[qwen2.5-vl-7b,pangea-7b]`."""

import re
from collections.abc import Sequence
from typing import Any

from actors.local_models import is_local
from jobs.errors import InputError
from jobs.runtime.configuration import config


def read_models(job: str, schema: type, *, key: str, listed: str, names: Sequence[str]) -> list[Any]:
    """Return the configured model of each name, in their order.

    Args:
        job, schema: the job's name and the dataclass of its keys.
        key: the key that chooses a single model, such as `model`; its group of `conf/` has the named models. listed:
        the key with the list, for messages. names: files of the group, paths of such files, or checkpoints
        `local:NAME@OTHER`, whose models are called OTHER.

    Raises:
        InputError: a name is unknown, or a model is listed twice.
    """
    models = [_model(job, schema, key, listed, name) for name in names]
    model_names = [model.name for model in models]
    if duplicate := next((name for name in model_names if model_names.count(name) > 1), None):
        raise InputError(f"{listed}=[{','.join(names)}]: duplicate {duplicate}; name each model once")
    return models


def _model(job: str, schema: type, key: str, listed: str, name: str) -> Any:
    try:
        return getattr(config.load(job, schema, [*_overrides(key, name), "input=i", "out=o"]), key)
    except InputError as error:
        raise InputError(re.sub(rf"^{job}: {key}=", f"{listed}=", str(error))) from error


def _overrides(key: str, name: str) -> list[str]:
    if not is_local(name):
        return [f"{key}={name}"]
    called = name.partition("@")[2] or name.partition(":")[2]
    return [f"{key}=local-tiny", f"{key}.checkpoint='{name}'", f"{key}.name='{called}'"]

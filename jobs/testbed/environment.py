"""Temporary variables in this process's environment, such as those of a loopback S3 server."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from jobs.store.files import s3


@contextmanager
def variables(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables where AWS libraries, and the workers of a Ray started in the context, find them; then restore them.

    The store rereads its S3 settings at both ends.

    Args:
        values: name -> value; None removes a variable.
    """
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    s3.forget_settings()

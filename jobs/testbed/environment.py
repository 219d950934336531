"""Variables in this process's environment for a while, such as those of a loopback S3 server."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from jobs.store import s3


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables where AWS libraries and the workers of a Ray started in the context find them; restore them after.

    The store reads its settings of S3 again at both ends.
    """
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    s3.forget_settings()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        s3.forget_settings()

"""The two errors with which a job ends, and their exit codes.

An error carries its parts as fields, so that whoever knows more can add it: code that reads a file knows the place and
what is wrong, the job that asked for the file knows the key, and the configuration knows the key's value.
"""

import contextlib
import difflib
from collections.abc import Collection, Iterator
from typing import Any

_LISTED = 3  # elements of a list that a message shows


class JobError(Exception):
    """An error whose text is `key=value: place: why; remedy`, of which all but `why` may be absent.

    Attributes:
        why: what is wrong, in one line.
        key: the dotted key whose value is wrong.
        value: the value of `key`; the command line adds it from the configuration.
        place: the path, URI or model that it is about; the command line adds the key that names it.
        remedy: what to do.
        job: the job of a configuration that is wrong; the command line of this job leaves it out.
    """

    exit_code = 1

    def __init__(
        self,
        why: str,
        *,
        key: str | None = None,
        value: Any = None,
        place: str | None = None,
        remedy: str | None = None,
        job: str | None = None,
    ) -> None:
        super().__init__(why)  # pickling passes it, and restores the other fields from __dict__
        self.why, self.key, self.value, self.place, self.remedy, self.job = why, key, value, place, remedy, job

    def __str__(self) -> str:
        return f"{self.job}: {self.sentence}" if self.job else self.sentence

    @property
    def sentence(self) -> str:
        """The text without the job; complete also if Ray has wrapped the error."""
        named = self.key if self.value is None or not self.key else f"{self.key}={shown(self.value)}"
        text = ": ".join(part for part in (named, self.place, self.why) if part)
        return f"{text}; {self.remedy}" if self.remedy else text


class InputError(JobError, ValueError):
    """The input or configuration is wrong, and nothing was written. The message is one line. Exit code 2."""

    exit_code = 2


class NotAnsweredError(InputError):
    """People have not answered yet. A pipeline continues without its steps that may wait for them."""


class RunError(JobError, RuntimeError):
    """The run failed or does not balance; completed units are kept. Exit code 1."""


def as_input_error(error: ValueError) -> InputError:
    """Return the error of a stage's settings, a file or a model (`actors.errors`) as one of the user's input."""
    if isinstance(error, InputError):
        return error
    fields = {name: getattr(error, name, None) for name in ("key", "value", "place")}
    return InputError(error.why, **fields) if hasattr(error, "why") else InputError(str(error))


def check_choice(key: str, value: object, allowed: Collection[object]) -> None:
    """Raise InputError, with the nearest word, unless the value of a key is one of `allowed`."""
    if value not in allowed:
        words = [shown(word) for word in allowed]
        near = difflib.get_close_matches(str(value), words, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"must be one of {', '.join(words)}{hint}", key=key, value=value)


def check_least(key: str, value: float, least: int) -> None:
    """Raise InputError unless the value of a key is at least `least`."""
    if value < least:
        raise InputError(f"must be at least {least}", key=key, value=value)


@contextlib.contextmanager
def about(key: str | None) -> Iterator[None]:
    """Give the errors of a block the key whose value the block reads, if it is known, unless they have one."""
    try:
        yield
    except (InputError, RunError) as error:
        error.key = error.key or key
        raise


@contextlib.contextmanager
def at(uri: str) -> Iterator[None]:
    """Add `uri` to a storage error in a block that reads or writes only `uri`; s3fs and full disks do not report it."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = uri
        elif not hasattr(error, "place"):
            # The text of an OSError without a number would be "[Errno None] None" once it has a file name.
            error.place = uri  # type: ignore[attr-defined]
        raise


def shown(value: Any) -> str:
    """Return a value as users type it; a list shortened."""
    if isinstance(value, list | tuple):
        entries = [shown(entry) or "''" for entry in value[:_LISTED]]
        return f"[{','.join(entries)}{',…' if len(value) > _LISTED else ''}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
